"""The IDX files of MNIST and Fashion-MNIST: a big-endian header, then bytes."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from privaware.data import Data
from privaware.datasets._dataset import image_data
from privaware.datasets._download import File
from privaware.errors import WrongInput
from privaware.schema import Schema

PARTS = ("train", "t10k")
"""Names of the training and the test part in file names."""
KINDS = ("images-idx3", "labels-idx1")
"""Names of images and labels in file names."""


def files(mirrors: tuple[str, ...], checksums: tuple[str, ...]) -> tuple[File, ...]:
    """Return the four files, each with its address on every mirror.

    `mirrors` are addresses of folders, with a slash at the end. `checksums` are in the order training images, training
    labels, test images, test labels.
    """
    names = [f"{part}-{kind}-ubyte.gz" for part in PARTS for kind in KINDS]
    return tuple(
        File(name=name, urls=tuple(mirror + name for mirror in mirrors), sha256=digest)
        for name, digest in zip(names, checksums, strict=True)
    )


def read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    """Return training and test images, with their class codes, from the four IDX files in `folder`.

    Raise `WrongInput` if a file is damaged or does not fit the schema.
    """
    assert folder is not None
    train, test = (_part(folder, part, schema) for part in PARTS)
    return train, test


def _part(folder: Path, part: str, schema: Schema) -> Data:
    images, labels = (_array(folder / f"{part}-{kind}-ubyte.gz") for kind in KINDS)
    return image_data(schema, images[:, None], labels)


def _array(path: Path) -> np.ndarray:
    """Return the array in a gzipped IDX file: uint8, read-only, of the shape in its header.

    Raise `WrongInput` if the file is damaged, or if its entries are no bytes.
    """
    try:
        raw = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise WrongInput(f"expected {path.name!r} as a gzip file, got damaged or other bytes; fetch it again") from None
    axes = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = tuple(int(size) for size in np.frombuffer(raw, ">u4", count=axes, offset=4)) if axes else ()
    if not axes or len(raw) != 4 + 4 * axes + math.prod(shape):
        raise WrongInput(f"expected {path.name!r} as an IDX file of bytes, got something else")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)
