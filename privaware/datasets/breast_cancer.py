"""Breast cancer (Ljubljana): does it come back? Nine categorical attributes of patients.

Rows: 286 without an official split: 191 train and 95 test, the counts of Bao et al., in a fixed
public order (by a hash of the row number); the public part is the last 38 training rows (a fifth). This is not the
Wisconsin data.
Origin: M. Zwitter and M. Soklic, University Medical Centre, Institute of Oncology, Ljubljana, UCI
Machine Learning Repository, 1988, doi 10.24432/C51P4M. The donors ask to be named.
Licence: CC BY 4.0.

Schema: categories as `breast-cancer.names` declares them (the file spells `left-up` as `left_up`, and
so do we), with "?" in the two columns where the donors say that values are missing.

>>> len(schema().columns), schema().classes[1]
(9, 'recurrence-events')
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data, Raw
from privaware.datasets._dataset import Source
from privaware.datasets._download import File
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 286
"""Published number of rows."""

CATEGORIES = {
    "age": "10-19 20-29 30-39 40-49 50-59 60-69 70-79 80-89 90-99",
    "menopause": "lt40 ge40 premeno",
    "tumor-size": "0-4 5-9 10-14 15-19 20-24 25-29 30-34 35-39 40-44 45-49 50-54 55-59",
    "inv-nodes": "0-2 3-5 6-8 9-11 12-14 15-17 18-20 21-23 24-26 27-29 30-32 33-35 36-39",
    "node-caps": "yes no ?",
    "deg-malig": "1 2 3",
    "breast": "left right",
    "breast-quad": "left_up left_low right_up right_low central ?",
    "irradiat": "yes no",
}


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    import pandas as pd

    assert folder is not None
    frame = pd.read_csv(
        folder / "breast-cancer.data", header=None, names=[schema.target, *CATEGORIES], dtype=str, keep_default_na=False
    )
    return source.split(Data.of(Raw(frame=frame), schema), ROWS)


source = Source(
    name="breast_cancer",
    facts=Schema(
        columns=tuple(
            Column(name=name, kind="category", categories=tuple(words.split())) for name, words in CATEGORIES.items()
        ),
        target="Class",
        classes=("no-recurrence-events", "recurrence-events"),
        rows=191,
    ),
    test_rows=95,
    public_rows=38,
    read=_read,
    files=(
        File(
            name="breast-cancer.data",
            urls=("https://archive.ics.uci.edu/ml/machine-learning-databases/breast-cancer/breast-cancer.data",),
            sha256="ca7d3fa97b62ff967b6894ffbb3acaaf4a51062e0149e5950b3ad6f685970b65",
        ),
    ),
    origin="https://archive.ics.uci.edu/dataset/14/breast+cancer",
)
load, schema = source.load, source.schema
