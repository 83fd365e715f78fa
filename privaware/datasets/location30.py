"""Location30: to which of thirty clusters of mobility does a person belong? 446 binary attributes.

Rows: 5,010 without an official split: 4,008 train and 1,002 test (a fifth), in a fixed public order
(by a hash of the row number); the public part is the last 400 training rows (a tenth).
Origin: R. Shokri, M. Stronati, C. Song, V. Shmatikov, Membership Inference Attacks against Machine
Learning Models, 2017, made from the Foursquare check-ins of D. Yang et al. in Bangkok. The rows are read from a
file `$PRIVAWARE_DATA/location30/location30.npz` with arrays x (5010, 446) of 0 and 1, and y of clusters
from 0 to 29. No checksum of the authors' archive is known, so it is not downloaded: write the file yourself.
Licence: none stated; research use.

>>> len(schema().columns), len(schema().classes)
(446, 30)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privaware.data import Data
from privaware.datasets._dataset import Source, binary_table
from privaware.datasets._download import File
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 5_010
"""Published number of rows."""


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    assert folder is not None
    with np.load(folder / "location30.npz", allow_pickle=False) as arrays:
        if not {"x", "y"} <= set(arrays.files):
            raise WrongInput(
                f"expected arrays x and y in 'location30.npz', got {arrays.files}; build the file again from the "
                "archive of its authors"
            )
        return source.split(binary_table(schema, arrays["x"], arrays["y"]), ROWS)


source = Source(
    name="location30",
    facts=Schema(
        columns=tuple(Column(name=f"x{at}", low=0, high=1) for at in range(446)),
        target="cluster",
        classes=tuple(str(at) for at in range(30)),
        rows=4_008,
    ),
    test_rows=1_002,
    public_rows=400,
    read=_read,
    files=(File(name="location30.npz", urls=("https://github.com/privacytrustlab/datasets",)),),
    origin="https://github.com/privacytrustlab/datasets",
)
load, schema = source.load, source.schema
