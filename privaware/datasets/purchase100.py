"""Purchase-100: to which of a hundred styles of shopping does a person belong? 600 binary attributes.

Rows: 197,324 without an official split: 157,750 train and 5,000 test, the counts of Bao et al., in a
fixed public order (by a hash of the row number); the other 34,574 rows are left out. The public part is
the last 5,000 training rows.
Origin: R. Shokri, M. Stronati, C. Song, V. Shmatikov, Membership Inference Attacks against Machine
Learning Models, 2017, made from Kaggle's "acquire valued shoppers" challenge. The archive
`dataset_purchase.tgz` holds one file `dataset_purchase`: one line for each person, first the class from 1
to 100, then the attributes. The checksum of the archive is not known, so it is not downloaded: unpack
the archive into `$PRIVAWARE_DATA/purchase100` yourself.
Licence: none stated; research use.

>>> len(schema().columns), len(schema().classes), schema().rows
(600, 100, 157750)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privaware.data import Data
from privaware.datasets._dataset import Source, binary_table
from privaware.datasets._download import File
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 197_324
"""Published number of rows."""


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    import pandas as pd

    assert folder is not None
    table = pd.read_csv(folder / "dataset_purchase", header=None, dtype=np.int16).to_numpy()
    return source.split(binary_table(schema, table[:, 1:], table[:, 0] - 1), ROWS)


source = Source(
    name="purchase100",
    facts=Schema(
        columns=tuple(Column(name=f"x{at}", low=0, high=1) for at in range(600)),
        target="style",
        classes=tuple(str(at) for at in range(1, 101)),
        rows=157_750,
    ),
    test_rows=5_000,
    public_rows=5_000,
    read=_read,
    files=(
        File(
            name="dataset_purchase",
            urls=("https://github.com/privacytrustlab/datasets/raw/master/dataset_purchase.tgz",),
            member="dataset_purchase",
        ),
    ),
    origin="https://github.com/privacytrustlab/datasets",
)
load, schema = source.load, source.schema
