"""A built-in data set: public facts without reading a row, its rows on request, and splits used in papers."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from privaware.data import Data
from privaware.datasets._download import File, locate, present
from privaware.errors import WrongInput
from privaware.schema import Schema


def parts(data: Data, *sizes: int, shuffled: bool = True) -> tuple[Data, ...]:
    """Return disjoint parts of `data` with these `sizes`, one after the other in a fixed order.

    Bao et al. split Adult as `parts(adult.train, 22750, 9750)` and the test part of the image sets as
    `parts(mnist.test, 5000, 5000)` for validation and test. DPNAS trains on `parts(mnist.train, 36000, 24000)[0]` and
    validates on the other part.

    Parameters
    ----------
    data : Data
        The rows.
    *sizes : int
        The size of each part; rows beyond the sum of `sizes` are in no part. `WrongInput` is raised without sizes, for
        a size below 1, and if the sum exceeds the number of rows.
    shuffled : bool
        Whether rows are taken in a fixed public order, by a hash of the row number (`order`), instead of file order.

    Returns
    -------
    tuple of Data
        The parts; the schema of each declares its own number of rows.
    """
    if min(sizes, default=0) < 1 or sum(sizes) > len(data):
        raise WrongInput(f"expected sizes of at least 1 that sum to at most {len(data)}, got {list(sizes)}")
    permutation = order("parts", len(data)) if shuffled else np.arange(len(data))
    ends = np.cumsum(sizes)
    return tuple(
        replace(data.take(permutation[end - size : end]), schema=replace(data.schema, rows=size))
        for size, end in zip(sizes, ends, strict=True)
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Halves:
    """Four disjoint parts: `train` and `test` for a target model, the `shadow` parts for an attacker's shadow model."""

    train: Data
    test: Data
    shadow_train: Data
    shadow_test: Data


def halves(dataset: Dataset, *, shuffled: bool = True) -> Halves:
    """Return the split of DPMLBench: half of the training rows for the target model, half for its shadow model.

    The test rows are halved in the same way; if there are more than 10,000, only the first 10,000 in the order of the
    split are used. If a number of rows is odd, one row is in no half.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    shuffled : bool
        Whether rows are taken in a fixed public order, by a hash of the row number (`order`), because some files are
        sorted. The paper splits in file order.

    Returns
    -------
    Halves
        The four parts.
    """
    half, test_half = len(dataset.train) // 2, min(len(dataset.test), 10_000) // 2
    train, shadow_train = parts(dataset.train, half, half, shuffled=shuffled)
    test, shadow_test = parts(dataset.test, test_half, test_half, shuffled=shuffled)
    return Halves(train=train, test=test, shadow_train=shadow_train, shadow_test=shadow_test)


Read = Callable[[Path | None, Schema], tuple[Data, Data]]
"""A function from the folder of the files (or None) and the schema to training and test rows."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Dataset:
    """Rows of a built-in data set: private training rows, test rows, and public auxiliary rows on request.

    The parts `train`, `test` and `public` are disjoint. All have the same `schema`, whose `rows` is the number of rows
    in `train`. `public` has no labels: its `y` is all zero, as in a file without a target. `public` is None if it was
    not asked for.
    """

    name: str
    schema: Schema
    train: Data
    test: Data
    public: Data | None = None

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.schema.form}, rows private)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A built-in data set before a row is read.

    Attributes
    ----------
    name : str
        The name of the data set.
    facts : Schema
        Its schema, whose `rows` is the size of the training part, the public part included.
    test_rows : int
        The size of the test part.
    public_rows : int
        The number of last training rows that `load(public=True)` returns as the public part, for learners that need
        auxiliary rows, and leaves out of the training part.
    read : callable
        Returns training and test rows from two arguments: the folder with the official files (None if an installed
        package contains the rows) and the schema.
    files : tuple of File
        The official files.
    origin : str
        Where the data come from.
    """

    name: str
    facts: Schema
    test_rows: int
    public_rows: int
    read: Read
    files: tuple[File, ...] = ()
    origin: str = ""

    def schema(self, *, public: bool = False) -> Schema:
        """Return the schema, without reading a row; with `public` its `rows` is smaller by `public_rows`."""
        return replace(self.facts, rows=self.facts.rows - self.public_rows) if public else self.facts

    def folder(self) -> Path | None:
        """Return the folder with the files on this machine; None if they are missing, or a package ships the rows."""
        return present(self.name, self.files) if self.files else None

    def fetch(self) -> Path | None:
        """Return the folder with the files, downloaded if necessary; None if a package ships the rows."""
        return locate(self.name, self.files) if self.files else None

    def load(self, *, public: bool = False) -> Dataset:
        """Return the rows; with `public` the last `public_rows` training rows become the public part, without labels.

        Missing files are downloaded. Raise `WrongInput` if that fails, if a file cannot be read, or if the number of
        training or test rows is not the published one. Checksums are compared after a download only.
        """
        schema = self.schema(public=public)
        try:
            train, test = self.read(self.fetch(), self.facts)
        except WrongInput as problem:
            raise WrongInput(f"{self.name}: {str(problem).removeprefix(f'{self.name}: ')}") from None
        except (OSError, EOFError, ValueError, KeyError, BadZipFile, zlib.error) as problem:
            raise WrongInput(
                f"{self.name}: its files cannot be read ({' '.join(str(problem).split()):.160}); fetch them again"
            ) from None
        for part, got, rows in (("training", len(train), self.facts.rows), ("test", len(test), self.test_rows)):
            if got != rows:
                raise WrongInput(
                    f"{self.name}: expected {rows} {part} rows as published, got {got}; fetch the files again"
                )
        train, test = replace(train, schema=schema), replace(test, schema=schema)
        if not public:
            return Dataset(name=self.name, schema=schema, train=train, test=test)
        auxiliary = train.take(np.arange(schema.rows, self.facts.rows))
        auxiliary = replace(auxiliary, y=np.zeros_like(auxiliary.y))
        train = train.take(np.arange(schema.rows))
        return Dataset(name=self.name, schema=schema, train=train, test=test, public=auxiliary)

    def split(self, data: Data, rows: int) -> tuple[Data, Data]:
        """Return training and test rows of a data set without an official split.

        `data` has all rows of the files. In a fixed public order, by a hash of the data set's name and the row number,
        the first `facts.rows` rows are for training, the next `test_rows` for testing, and any further rows are left
        out. Raise `WrongInput` unless `data` has the published number `rows` of rows.
        """
        if len(data) != rows:
            raise WrongInput(f"expected {rows} rows as published, got {len(data)}; fetch the files again")
        train, used = self.facts.rows, self.facts.rows + self.test_rows
        permutation = order(self.name, rows)
        return data.take(permutation[:train]), data.take(permutation[train:used])


def order(name: str, rows: int) -> np.ndarray:
    """Return the row numbers in a fixed public order: sorted by the SHA-256 of the text "NAME:NUMBER".

    The order depends on no row and on no random generator, so it is the same on every machine.

    Parameters
    ----------
    name : str
        A public text, such as the name of the data set.
    rows : int
        The number of rows.

    Returns
    -------
    numpy.ndarray
        A permutation of the row numbers 0 to `rows - 1`.

    >>> order("example", 5).tolist()
    [2, 0, 1, 3, 4]
    """
    keys = [hashlib.sha256(f"{name}:{at}".encode()).digest() for at in range(rows)]
    return np.array(sorted(range(rows), key=keys.__getitem__), dtype=np.int64)


def image_data(schema: Schema, pixels: np.ndarray, labels: np.ndarray, white: int = 255) -> Data:
    """Return `Data` of images: float32 pixels scaled from [0, white] to [0, 1], and int64 class codes.

    `pixels` has the shape (rows, channels, height, width), and `labels` (rows,) has class codes from 0. Raise
    `WrongInput` if the shape of an image, the number of labels or a label does not fit the schema.
    """
    if pixels.shape[1:] != schema.shape or labels.shape != (len(pixels),):
        raise WrongInput(
            f"expected images of shape {list(schema.shape)} and a label for each image, got the shapes "
            f"{list(pixels.shape)} and {list(labels.shape)}"
        )
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(schema.classes)):
        raise WrongInput(f"expected labels 0 to {len(schema.classes) - 1}, got others; fetch the files again")
    scaled = pixels.astype(np.float32, order="C")
    scaled /= np.float32(white)
    return Data(schema=schema, x=scaled, y=labels.astype(np.int64))


def binary_table(schema: Schema, table: np.ndarray, labels: np.ndarray) -> Data:
    """Return `Data` of a table of binary attributes `table` (rows, columns) and class codes `labels` (rows,).

    The attributes become float64, the codes int64. Raise `WrongInput` for an attribute other than 0 and 1, and for a
    number of columns, a number of labels or a label that does not fit the schema; labels count from 0.
    """
    if table.ndim != 2 or table.shape[1] != len(schema.used) or labels.shape != (len(table),):
        raise WrongInput(
            f"expected a table of {len(schema.used)} columns and a label for each row, got the shapes "
            f"{list(table.shape)} and {list(labels.shape)}"
        )
    if not np.isin(table, (0, 1)).all():
        raise WrongInput("expected attributes 0 or 1, got others")
    if not np.isin(labels, np.arange(len(schema.classes))).all():
        raise WrongInput(f"expected {len(schema.classes)} classes of labels, got others")
    return Data(schema=schema, x=table.astype(np.float64), y=labels.astype(np.int64))
