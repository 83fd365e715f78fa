"""Medical cost: what a health insurer is charged for a person in a year (regression).

Rows: 1,338 without an official split: 1,000 train and 300 test, the counts of Bao et al., in a fixed
public order (by a hash of the row number); 38 are left out as in the paper. The public part is the last 100 training
rows.
Origin: B. Lantz, Machine Learning with R, 2013, also known as Medical Cost Personal Datasets. The
records are simulated: the book's author made them from US census demographics.
Licence: Open Database License, as commonly cited.

Schema: ages and children as the book describes the insured (18 to 64, up to five), body-mass index by
the classes of the World Health Organization, charges up to 65,000 dollars.

>>> schema().task, schema().low, schema().high
('regression', 0, 65000)
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data, Raw
from privaware.datasets._dataset import Source
from privaware.datasets._download import File
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 1_338
"""Published number of rows."""

REGIONS = ("northeast", "northwest", "southeast", "southwest")


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    import pandas as pd

    assert folder is not None
    frame = pd.read_csv(folder / "insurance.csv", keep_default_na=False)
    return source.split(Data.of(Raw(frame=frame), schema), ROWS)


source = Source(
    name="medical_cost",
    facts=Schema(
        columns=(
            Column(name="age", low=18, high=64, bins=tuple(range(20, 65, 5))),
            Column(name="sex", kind="category", categories=("female", "male")),
            Column(name="bmi", low=15, high=55, bins=(18.5, 25, 30, 35, 40)),
            Column(name="children", low=0, high=5, bins=(1, 2, 3, 4, 5)),
            Column(name="smoker", kind="category", categories=("no", "yes")),
            Column(name="region", kind="category", categories=REGIONS),
        ),
        target="charges",
        low=0,
        high=65_000,
        rows=1_000,
    ),
    test_rows=300,
    public_rows=100,
    read=_read,
    files=(
        File(
            name="insurance.csv",
            urls=("https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets/master/insurance.csv",),
            sha256="505c1cbc2e63d0363bac59501563df2530aadf4cdb9cfee226f4ef32f5468281",
        ),
    ),
    origin="https://github.com/stedy/Machine-Learning-with-R-datasets",
)
load, schema = source.load, source.schema
