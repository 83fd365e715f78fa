"""Private rows coded by a schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privaware.data._cells import Cells, uncoded_column
from privaware.data._code import coded, first, joined_texts, uncoded
from privaware.data._images import pixels, with_images
from privaware.data._outside import Outside
from privaware.data._parts import HeldParts, Parts
from privaware.data._persons import capped, of_persons
from privaware.data._raw import Raw
from privaware.data._values import got, listed, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.schema import CodedColumn, Schema

if TYPE_CHECKING:
    import pandas as pd

PART = 2**16
"""Number of rows in one part of a table that is in memory."""


class Rows(Protocol):
    """Private rows, in memory (`Data`) or not: the interface for mechanisms that learn from sums alone."""

    @property
    def schema(self) -> Schema: ...

    @property
    def parts(self) -> Parts[Data]:
        """The rows in parts of any size, over which sums are computed."""
        ...

    def mapped(self, function: Callable[[Data], Data]) -> Rows:
        """Return the rows after `function`, which maps `Data` to `Data`, each row by itself.

        An example is clipping to released bounds.
        """
        ...

    def keep(self, names: tuple[str, ...]) -> Rows:
        """Return the rows and their schema with only the columns in `names`, in the order of the schema.

        Rows of the form image or text stay as they are. For a table, raise `WrongInput` for an unknown name.
        """
        ...

    def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Rows, ...]:
        """Return `len(shares)` disjoint parts of the rows, by an independent draw for each row.

        A row is in part i with probability `shares[i] / sum(shares)`.
        """
        ...

    def gathered(self) -> Data:
        """Return all rows in memory."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Data:
    """Private rows coded by a schema.

    Attributes
    ----------
    schema : Schema
        The public facts about the rows.
    x : numpy.ndarray
        For tables float64 (rows, columns), with one column for each of `schema.used`: numbers clipped to their bounds,
        and category codes. A missing number is NaN unless its column fills in a number; a missing or unseen category
        has the code after the last one. If the schema keeps texts whole, an object array of these numbers and of str.
        If it has a column of images, an object array, in which an image is the bytes of its float32 pixels in [0, 1].
        For images float32 (rows, channels, height, width) in [0, 1]. For texts an object array of str. A missing text
        is empty.
    y : numpy.ndarray
        Class codes (rows,), or numbers for a regression; zeros if the rows have no target.
    begin : int, optional
        A number that identifies this part of a table; it is larger for a later part, and None if the rows are no part.
    """

    schema: Schema
    x: np.ndarray
    y: np.ndarray
    begin: int | None = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise WrongInput(f"expected as many labels as rows, got {len(self.y)} labels for {len(self.x)} rows")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Data({self.schema.form} of {len(self.schema.used)} columns, rows private)"

    @property
    def parts(self) -> HeldParts[Data]:
        """The rows in consecutive parts of `PART` rows (the last may have fewer), at least one part.

        The `begin` of a part is the position of its first row.
        """
        starts = range(0, max(len(self), 1), PART)
        return HeldParts(replace(self.take(slice(at, at + PART)), begin=at) for at in starts)

    def mapped(self, function: Callable[[Data], Data]) -> Data:
        """Return `function(self)`, where `function` maps each row by itself."""
        return function(self)

    def gathered(self) -> Data:
        """Return the rows, which are in memory."""
        return self

    def take(self, index: np.ndarray | slice) -> Data:
        """Return some of the rows, by mask, position or slice, with the same schema; a slice shares their memory."""
        return replace(self, x=self.x[index], y=self.y[index])

    def keep(self, names: tuple[str, ...]) -> Data:
        """Return a table with only the columns in `names`, in the order of the schema.

        Rows of the form image or text stay as they are. For a table, raise `WrongInput` for an unknown name.
        """
        if self.schema.form != "table":
            return self
        coded_names = [column.name for column in self.schema.used]
        declared = [column.name for column in self.schema.declared]
        if unknown := [name for name in names if name not in self.schema.known_names]:
            raise WrongInput(f"expected columns among {listed(coded_names)}, got {listed(unknown)}")
        kept = self.schema.keep(names)
        here, there = (declared, kept.declared) if isinstance(self.x, Cells) else (coded_names, kept.used)
        positions = {name: at for at, name in enumerate(here)}
        # single categories of columns that are coded as a whole here
        single = {at: c for at, c in enumerate(there) if isinstance(c, CodedColumn) and c.name not in positions}
        sources = [single[at].source if at in single else column.name for at, column in enumerate(there)]
        x = self.x[:, [positions[name] for name in sources]]
        for at, column in single.items():
            code = self.schema.used[positions[column.source]].categories.index(column.part)
            x[:, at] = (x[:, at] == code).astype(float)
        return replace(self, schema=kept, x=x)

    def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Data, ...]:
        """Return `len(shares)` disjoint parts of the rows, by an independent draw for each row.

        A row is in part i with probability `shares[i] / sum(shares)`.
        """
        part = rng.shards(len(self), shares)
        return tuple(self.take(part == at) for at in range(len(shares)))

    @classmethod
    def of(cls, raw: Raw, schema: Schema, *, labelled: bool = True, outside: Outside | None = None) -> Data:
        """Return the rows of `raw` coded by `schema`.

        A regression target is clipped to its bounds; if the schema declares none, as when a model is scored, it is not.
        If persons are protected and `labelled` is True, only the first `schema.cap` rows of each person are returned.

        Parameters
        ----------
        raw : Raw
            The rows.
        schema : Schema
            The public facts. A column without declared bounds or categories raises `WrongInput`.
        labelled : bool
            Whether the rows have a target. If not, `y` is zeros.
        outside : Outside, optional
            Counts the values that do not fit the schema and that it allows, such as numbers beyond their bounds. Values
            that it does not allow raise `WrongInput`.

        Returns
        -------
        Data
            The coded rows.
        """
        for column in schema.declared if schema.form == "table" else ():
            if not column.bounded:
                what = {"undecided": "a kind and its bounds", "category": "categories"}.get(column.kind, "low and high")
                raise WrongInput(
                    f"column {quoted(column.name)}: expected {what} in the schema; declare them, "
                    "or pay for them with --private-schema=True"
                )
        with raw.named():
            raw = _with_pixels(raw, schema)
            return cls._labelled(raw, schema, _rows(raw, schema, outside), labelled)

    @classmethod
    def uncoded(cls, raw: Raw, schema: Schema) -> Data:
        """Return the rows before bounds are known: `x` of a table is a `Cells`, with the columns `schema.declared`.

        Numbers, days, hours and words are as in the file; missing numbers are NaN, missing words are empty. Values that
        `of` would refuse under any bounds raise an error here too. `y`, images and texts are as in `of`. If persons are
        protected, only the first `schema.cap` rows of each person are returned.

        Parameters
        ----------
        raw : Raw
            The rows.
        schema : Schema
            The public facts; bounds and categories may be missing.

        Returns
        -------
        Data
            The uncoded rows.
        """
        with raw.named():
            raw = _with_pixels(raw, schema)
            x = uncoded(raw, schema) if schema.form == "table" else _rows(raw, schema, None)
            return cls._labelled(raw, schema, x, True)

    def coded_by(self, schema: Schema, outside: Outside | None = None) -> Data:
        """Return rows from `Data.uncoded` coded by a schema whose bounds have been released.

        Regression targets are clipped to its bounds. In a column whose released kind is number or date, any other value
        is missing.

        Parameters
        ----------
        schema : Schema
            The released schema.
        outside : Outside, optional
            Receives the counts of the values that the schema does not know.

        Returns
        -------
        Data
            The coded rows.
        """
        y = self.y if schema.classes or schema.low is None else np.clip(self.y, schema.low, schema.high)
        if schema.form != "table":
            return replace(self, schema=schema, y=y)
        cells = {column.name: uncoded_column(self.x, at) for at, column in enumerate(self.schema.declared)}
        coded_rows = type(self).of(Raw(cells=cells, rows=len(self)), schema, labelled=False, outside=outside)
        return replace(coded_rows, y=y, begin=self.begin)

    @classmethod
    def _labelled(cls, raw: Raw, schema: Schema, x: Any, labelled: bool) -> Data:
        y = coded_targets(raw, schema) if labelled else np.zeros(len(x), dtype=np.int64)
        data = cls(schema=schema, x=x, y=y)
        return data.take(capped(raw, schema)) if labelled and of_persons(schema) else data


def _with_pixels(raw: Raw, schema: Schema) -> Raw:
    """Return `raw` with the images that the image column names, if the schema has an image column.

    The names are relative to `raw.folder`. In a table these images become float32 pixels in [0, 1] of the declared
    shape. Anything else stays as it is.
    """
    raw = with_images(raw, schema.image)
    if schema.form != "table" or raw.image != schema.image:
        return raw
    return replace(raw, images=pixels(raw, schema.shape))


def _rows(raw: Raw, schema: Schema, outside: Outside | None) -> np.ndarray:
    if schema.form == "image":
        return pixels(raw, schema.shape)
    return joined_texts(raw, schema, outside) if schema.form == "text" else coded(raw, schema, outside)


def coded_targets(raw: Raw, schema: Schema) -> np.ndarray:
    """Return the target of each row: class codes, or for a regression numbers clipped to the declared bounds.

    Without declared bounds nothing is clipped. Raise `WrongInput` for a number that is not finite, and for a class that
    is not declared.

    Parameters
    ----------
    raw : Raw
        The rows.
    schema : Schema
        The public facts.

    Returns
    -------
    numpy.ndarray
        Int64 positions in `schema.classes`, or float64 numbers.
    """
    values = target_of(raw, schema.target)
    if schema.task == "regression":
        numbers, _ = numbers_of(values)
        if not np.isfinite(numbers).all():
            at = first(~np.isfinite(numbers))
            raise WrongInput(
                f"target {quoted(schema.target)}, {raw.place(at)}: expected a finite number{got(values.iloc[at])}"
            )
        return numbers if schema.low is None else np.clip(numbers, schema.low, schema.high)
    words = words_of(values)
    codes = {word: at for at, word in enumerate(schema.classes)}
    labels = words.map(lambda word: codes.get(word, -1), np.int64)
    if (labels < 0).any():
        at = first(labels < 0)
        raise WrongInput(
            f"target {quoted(schema.target)}, {raw.place(at)}: expected one of the declared classes "
            f"{listed(schema.classes)}{got(words.word(at))}"
        )
    return labels


def target_of(raw: Raw, target: str) -> pd.Series:
    """Return the target column of a table, or the labels of images.

    Raise `WrongInput` if a table has no column `target`, or if images have no labels.

    Parameters
    ----------
    raw : Raw
        The rows.
    target : str
        The name of the target column; for images only the name of the result.

    Returns
    -------
    pandas.Series
        The target of each row.
    """
    import pandas as pd

    if raw.frame is None:
        if raw.labels is None:
            raise WrongInput(
                "expected labels of the images, got none; store them as array y, or in one sub-folder for each class"
            )
        return pd.Series(raw.labels, name=target)
    if target not in raw.frame.columns:
        if raw.files and "class" not in raw.frame.columns:
            raise WrongInput("expected labels of the texts, got none; store them in one sub-folder for each class")
        single = raw.line is not None and len(raw.frame.columns) == 1
        other = "name one with --target"
        if single:
            other = "the file was read as a single column, so check the character between its columns (--sep)"
        advice = raw.advice(target) or f"; {other}"
        raise WrongInput(f"expected a target among the columns {raw.columns_shown()}, got {quoted(target)}{advice}")
    return raw.frame[target]
