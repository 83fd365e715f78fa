"""CIFAR-10: natural images of ten kinds of things, 32 x 32 in colour.

Rows: 50,000 train, 10,000 test (official); the public part is the last 5,000 training rows.
Origin: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009 (binary version).
Licence: none stated; research use with citation.
Used by: Bao et al. (50,000 train; the test part split into 5,000 for validation and 5,000 for test),
Tramer and Boneh (official), DPNAS (training rows split 0.6 : 0.4), DPMLBench (halves).

>>> schema().shape, schema().classes[3]
((3, 32, 32), 'cat')
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

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + 3 * 32 * 32
"""Number of bytes of an image with its label, which comes first."""
FOLDER = "cifar-10-batches-bin"
CHECKSUMS = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    assert folder is not None
    batches = [_batch(folder / FOLDER / f"{name}.bin") for name in CHECKSUMS]
    train = np.concatenate(batches[:-1])
    return _data(schema, train), _data(schema, batches[-1])


def _batch(path: Path) -> np.ndarray:
    raw = np.fromfile(path, np.uint8)
    if len(raw) % RECORD:
        raise WrongInput(f"expected {path.name!r} in records of {RECORD} bytes, got {len(raw)} bytes")
    return raw.reshape(-1, RECORD)


def _data(schema: Schema, records: np.ndarray) -> Data:
    return image_data(schema, records[:, 1:].reshape(-1, *schema.shape), records[:, 0])


source = Source(
    name="cifar10",
    facts=Schema(target="thing", classes=CLASSES, rows=50_000, form="image", shape=(3, 32, 32)),
    test_rows=10_000,
    public_rows=5_000,
    read=_read,
    files=tuple(
        File(
            name=f"{FOLDER}/{name}.bin",
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            sha256=digest,
            member=f"{FOLDER}/{name}.bin",
        )
        for name, digest in CHECKSUMS.items()
    ),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html",
)
load, schema = source.load, source.schema
