"""Digits: handwritten digits, 8 x 8 grey, small enough for a first try. Needs no download.

Rows: 1,797 as scikit-learn ships them: 1,438 train and 359 test (a fifth), in a fixed public order
(by a hash of the row number); the public part is the last 143 training rows (a tenth).
Origin: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (its test part), UCI
Machine Learning Repository, 1998, doi 10.24432/C50P49; comes with scikit-learn.
Licence: CC BY 4.0.

>>> load().train.x.shape
(1438, 1, 8, 8)
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data
from privaware.datasets._dataset import Source, image_data
from privaware.schema import Schema

__all__ = ["source", "load", "schema"]

ROWS = 1_797
"""Published number of rows."""

WHITE = 16
"""Largest value of a pixel."""


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    from sklearn.datasets import load_digits

    shipped = load_digits()
    images = image_data(schema, shipped.images[:, None], shipped.target, white=WHITE)
    return source.split(images, ROWS)


source = Source(
    name="digits",
    facts=Schema(target="digit", classes=tuple("0123456789"), rows=1_438, form="image", shape=(1, 8, 8)),
    test_rows=359,
    public_rows=143,
    read=_read,
    origin="scikit-learn",
)
load, schema = source.load, source.schema
