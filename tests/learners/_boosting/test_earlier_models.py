"""Models that earlier versions of `boosted` wrote, and the outputs that they had then.

`earlier_models/people.csv` holds the rows. Each folder was written by `fit(people, target=..., epsilon=8, delta=1e-5,
schema=..., learner=..., settings=..., seed=7)`, and `outputs.json` holds the outputs for the first 40 rows.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import load

EARLIER = Path(__file__).parent / "earlier_models"
OUTPUTS = json.loads((EARLIER / "outputs.json").read_text())


@pytest.mark.parametrize("name", OUTPUTS)
def test_earlier_model_predicts_as_when_it_was_written(name: str) -> None:
    model = load(EARLIER / name)
    rows = model.rows(pd.read_csv(EARLIER / "people.csv")[:40])
    assert model.outputs(rows.x) == pytest.approx(np.array(OUTPUTS[name]), abs=1e-6)
