"""SVHN: digits of house numbers cut from street photographs, 32 x 32 in colour.

Rows: 73,257 train, 26,032 test (official, cropped digits). Digits of one house lie next to each
other in the file and overlap in the picture, so the public part is the last 5,257 training rows:
the split falls between two houses. One row is still the unit of privacy; a house has several.
Origin: Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Y. Ng, Reading Digits in Natural Images
with Unsupervised Feature Learning, 2011. In the files the digit 0 is written as 10.
Licence: for non-commercial use only.
Used by: Bao et al. (42,000 train, 5,000 validation, 5,000 test, grey), DPMLBench (halves).

>>> schema().shape, schema(public=True).rows
((3, 32, 32), 68000)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privaware.data import Data
from privaware.datasets._dataset import Source, image_data
from privaware.datasets._download import File
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["source", "load", "schema"]

CHECKSUMS = {
    "train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    "test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
}


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    assert folder is not None
    train, test = (_part(folder / name, schema) for name in CHECKSUMS)
    return train, test


def _part(path: Path, schema: Schema) -> Data:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        arrays = loadmat(path, variable_names=("X", "y"))
        pixels, labels = arrays["X"].transpose(3, 2, 0, 1), arrays["y"].ravel().astype(np.int64)
    except (MatReadError, KeyError, ValueError, TypeError, NotImplementedError):
        raise WrongInput(f"expected {path.name!r} as a MATLAB file with X and y, got something else") from None
    if len(labels) and labels.min() < 1:
        raise WrongInput(f"expected labels 1 to 10 in {path.name!r}, the digit 0 as 10, got others")
    return image_data(schema, pixels, np.where(labels == 10, 0, labels))


source = Source(
    name="svhn",
    facts=Schema(target="digit", classes=tuple("0123456789"), rows=73_257, form="image", shape=(3, 32, 32)),
    test_rows=26_032,
    public_rows=5_257,
    read=_read,
    files=tuple(
        File(name=name, urls=(f"http://ufldl.stanford.edu/housenumbers/{name}",), sha256=digest)
        for name, digest in CHECKSUMS.items()
    ),
    origin="http://ufldl.stanford.edu/housenumbers",
)
load, schema = source.load, source.schema
