"""Adult: does a person of the 1994 US census earn more than 50,000 dollars a year?

Rows: 32,561 train, 16,281 test (official); the public part is the last 3,256 training rows (a tenth).
Origin: B. Becker and R. Kohavi, UCI Machine Learning Repository, 1996, doi 10.24432/C5XW20.
Licence: CC BY 4.0.
Used by: Bao et al. (22,750 of the training rows train, 9,750 test).

Schema: categories as `adult.names` declares them, and "?" where the donors say that values are
unknown. Bins follow from the meaning of the columns, not from the rows: ages in steps of five years,
one bin for each grade of education, hours around the usual working weeks, and a bin of its own for
no capital gain or loss. `fnlwgt` is a survey weight and `education` says the same as
`education-num`: both are ignored.

>>> [column.name for column in schema().columns if column.kind == "ignore"]
['fnlwgt', 'education']
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data, Raw
from privaware.datasets._dataset import Source
from privaware.datasets._download import File
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
CHECKSUMS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
}
"""Categories of each column, separated by blanks."""
GAINS = (1, 3_000, 4_000, 5_000, 6_000, 7_000, 10_000, 15_000, 20_000, 50_000)
"""Inner edges of the bins of capital gains, in dollars."""
LOSSES = (1, 1_000, 1_500, 1_750, 2_000, 2_250, 2_500, 3_000)
"""Inner edges of the bins of capital losses, in dollars."""


def _category(name: str) -> Column:
    return Column(name=name, kind="category", categories=tuple(CATEGORIES[name].split()))


COLUMNS = (
    Column(name="age", low=17, high=90, bins=tuple(range(20, 80, 5))),
    _category("workclass"),
    Column(name="fnlwgt", kind="ignore"),
    Column(name="education", kind="ignore"),
    Column(name="education-num", low=1, high=16, bins=tuple(range(2, 17))),
    _category("marital-status"),
    _category("occupation"),
    _category("relationship"),
    _category("race"),
    _category("sex"),
    Column(name="capital-gain", low=0, high=99_999, bins=GAINS),
    Column(name="capital-loss", low=0, high=5_000, bins=LOSSES),
    Column(name="hours-per-week", low=1, high=99, bins=(10, 20, 30, 35, 40, 41, 45, 50, 55, 60, 70)),
    _category("native-country"),
)


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    assert folder is not None
    train, test = (_part(folder / name, schema) for name in CHECKSUMS)
    return train, test


def _part(path: Path, schema: Schema) -> Data:
    """Return the rows of one file; the test file begins with a comment line and its labels end in a full stop."""
    import pandas as pd

    numbers = [column.name for column in schema.columns if column.kind == "number"]
    names = [column.name for column in schema.columns]
    frame = pd.read_csv(
        path,
        header=None,
        names=[*names, schema.target],
        usecols=[*(column.name for column in schema.used), schema.target],
        dtype={name: str for name in [*names, schema.target] if name not in numbers},
        keep_default_na=False,
        skipinitialspace=True,
        comment="|",
    )
    frame[schema.target] = frame[schema.target].str.rstrip(".")
    return Data.of(Raw(frame=frame), schema)


source = Source(
    name="adult",
    facts=Schema(columns=COLUMNS, target="income", classes=("<=50K", ">50K"), rows=32_561),
    test_rows=16_281,
    public_rows=3_256,
    read=_read,
    files=tuple(File(name=name, urls=(HOME + name,), sha256=digest) for name, digest in CHECKSUMS.items()),
    origin="https://archive.ics.uci.edu/dataset/2/adult",
)
load, schema = source.load, source.schema
