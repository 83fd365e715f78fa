"""What a person types is at the top of the package, and `dir` shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import privaware

PROMISED = {
    "advise",
    "audit",
    "fit",
    "select",
    "search",
    "crossover",
    "train",
    "predict",
    "verify",
    "load",
    "Ledger",
    "Schema",
} | {"PrivateClassifier", "PrivateRegressor", "PrivateSelector"}


def test_promised_names_import_and_are_listed() -> None:
    assert set(dir(privaware)) == PROMISED | {"__version__"}
    assert all(callable(getattr(privaware, name)) for name in PROMISED)
    with pytest.raises(AttributeError, match="'fitt'"):
        _ = privaware.fitt  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_promised_name_has_a_docstring_with_an_example(name: str) -> None:
    assert ">>> " in (getattr(privaware, name).__doc__ or "")  # examples are run as doctests


def test_import_is_quick() -> None:
    code = "import sys, privaware; print([m for m in ('torch', 'pandas', 'sklearn', 'scipy') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_loaded_model_predicts_a_frame_and_carries_its_guarantee(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20, 70] * 200, "y": ["no", "yes"] * 200})
    privaware.fit(frame, target="y", epsilon=4.0, accept_schema=True, seed=1, out=tmp_path / "m")
    model = privaware.load(tmp_path / "m")
    assert model.predict(frame[["age"]]).tolist() == ["no", "yes"] * 200
    assert model.predict_proba(frame[["age"]]).shape == (400, 2)
    assert model.guarantee.epsilon <= 4.0
    assert model.card.learner == "fourier"


def test_commands_start_without_importing_torch() -> None:
    code = "import sys, privaware.cli, privaware.workflow.fit, privaware.learners.dpgen; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
