"""Wisconsin: is a breast mass malignant? Thirty measurements of cell nuclei. Needs no download.

Rows: 569 as scikit-learn ships them: 455 train and 114 test (a fifth), in a fixed public order
(by a hash of the row number); the public part is the last 45 training rows (a tenth).
Origin: W. H. Wolberg, W. N. Street, O. L. Mangasarian, Breast Cancer Wisconsin (Diagnostic), UCI Machine
Learning Repository, 1995, doi 10.24432/C5DW2B; comes with scikit-learn. This is not the Ljubljana data.
Licence: CC BY 4.0.

Schema: bounds are the ranges printed in the data set's public description, rounded outwards. No bins:
cross-validation on the training part (not the test part) preferred plain numbers to 2 to 12 bins.

>>> load().train.x.shape
(455, 30)
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data, Raw
from privaware.datasets._dataset import Source
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 569
"""Published number of rows."""

BOUNDS: dict[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    # of each measurement: its mean, its standard error, its worst value
    "radius": ((6, 29), (0.1, 3), (7, 37)),
    "texture": ((9, 40), (0.3, 5), (12, 50)),
    "perimeter": ((43, 190), (0.7, 22), (50, 252)),
    "area": ((140, 2_510), (6, 550), (180, 4_260)),
    "smoothness": ((0.05, 0.17), (0.001, 0.032), (0.07, 0.23)),
    "compactness": ((0.01, 0.35), (0.002, 0.14), (0.02, 1.1)),
    "concavity": ((0, 0.43), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.21), (0, 0.053), (0, 0.3)),
    "symmetry": ((0.1, 0.31), (0.007, 0.08), (0.15, 0.67)),
    "fractal dimension": ((0.04, 0.1), (0.0008, 0.03), (0.05, 0.21)),
}
STATISTICS = ("mean {}", "{} error", "worst {}")


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    from sklearn.datasets import load_breast_cancer

    shipped = load_breast_cancer(as_frame=True)
    labels = [str(shipped.target_names[code]) for code in shipped.target]
    frame = shipped.data.assign(**{schema.target: labels})
    return source.split(Data.of(Raw(frame=frame), schema), ROWS)


source = Source(
    name="wisconsin",
    facts=Schema(
        columns=tuple(
            Column(name=words.format(name), low=bounds[at][0], high=bounds[at][1])
            for at, words in enumerate(STATISTICS)
            for name, bounds in BOUNDS.items()
        ),
        target="diagnosis",
        classes=("malignant", "benign"),
        rows=455,
    ),
    test_rows=114,
    public_rows=45,
    read=_read,
    origin="scikit-learn",
)
load, schema = source.load, source.schema
