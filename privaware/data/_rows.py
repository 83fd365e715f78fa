"""Rows of declared meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._raw import MISSING, Raw, numbers_of, some, words_of
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Data:
    """Private rows: `x` as the schema declares it, `y` class codes or numbers, `unit` whose row it is.

    Tables are float64 (rows, columns) with numbers clipped to their bounds and category codes; NaN
    stands for a missing value that has a slot of its own, and the code after the last category for
    an unseen one. Images are float32 (rows, channels, height, width) in [0, 1]; text is text.
    """

    schema: Schema
    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Data({self.schema.form} of {len(self.schema.used)} columns, rows private)"

    def take(self, index: np.ndarray) -> Data:
        """Some of the rows, by mask or position."""
        return replace(self, x=self.x[index], y=self.y[index])

    def keep(self, names: tuple[str, ...]) -> Data:
        """Some of the columns, by name."""
        chosen = [at for at, column in enumerate(self.schema.used) if column.name in names]
        return replace(self, schema=self.schema.keep(names), x=self.x[:, chosen])

    def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Data, ...]:
        """Disjoint parts by an independent draw for each row, so that one row never moves another."""
        part = rng.shards(len(self), shares)
        return tuple(self.take(part == at) for at in range(len(shares)))

    @classmethod
    def of(cls, raw: Raw, schema: Schema, *, labelled: bool = True) -> Data:
        """The rows of `raw` against `schema`; what does not fit is refused with a sentence."""
        made = _images(raw, schema) if schema.form == "image" else _table(raw, schema)
        y = _targets(raw, schema, len(made)) if labelled else np.zeros(len(made), dtype=np.int64)
        data = cls(schema=schema, x=made, y=y)
        if labelled and raw.frame is not None and schema.unit not in ("row", "label"):
            return data.take(_capped(raw.frame, schema))
        return data


def _table(raw: Raw, schema: Schema) -> np.ndarray:
    frame = raw.frame
    if frame is None:
        raise WrongInput(f"expected a table for a schema of form {schema.form!r}, got images")
    absent = [column.name for column in schema.used if column.name not in frame.columns]
    if absent:
        raise WrongInput(
            f"the schema names {some(absent)}, the data have {some(list(frame.columns))}; edit one to match the other"
        )
    if schema.form == "text":
        words = [words_of(frame[column.name]) for column in schema.used]
        return np.array([" ".join(row) for row in zip(*words, strict=True)], dtype=object)
    made = np.zeros((len(frame), len(schema.used)))
    for at, column in enumerate(schema.used):
        reader = _read_categories if column.kind == "category" else _read_numbers
        made[:, at] = reader(frame[column.name], column)
    return made


def _read_numbers(values: pd.Series, column: Column) -> np.ndarray:
    if column.kind != "number" or column.low is None or column.high is None:
        raise WrongInput(
            f"column {column.name!r}: expected kind number with low and high in a table schema, got {column.kind}"
        )
    numbers, gaps = numbers_of(values)
    wrong = np.isnan(numbers) & ~gaps
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongInput(
            f"column {column.name!r}, row {at + 1}: expected a number, got {str(values.iloc[at])!r:.60}; mend the row or declare the column a category"
        )
    gone = gaps | ~np.isfinite(numbers)
    if gone.any() and column.missing == "refuse":
        at = int(np.argmax(gone))
        raise WrongInput(
            f'column {column.name!r}, row {at + 1}: the value is missing or infinite; declare missing = "category" or a number to fill in'
        )
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(
        gone, fill, np.clip(np.where(gone, column.low, numbers), column.low, column.high)
    )


def _read_categories(values: pd.Series, column: Column) -> np.ndarray:
    words = words_of(values)
    codes = {word: float(at) for at, word in enumerate(column.categories)}
    gaps = np.array([word not in codes and word.lower() in MISSING for word in words], dtype=bool)
    if gaps.any() and column.missing == "refuse" and column.unseen == "refuse":
        raise WrongInput(
            f'column {column.name!r}, row {int(np.argmax(gaps)) + 1}: the value is missing; declare missing = "category"'
        )
    unseen = np.array([word not in codes for word in words], dtype=bool) & ~gaps
    if unseen.any() and column.unseen == "refuse":
        at = int(np.argmax(unseen))
        raise WrongInput(
            f'column {column.name!r}, row {at + 1}: {words[at]!r:.60} is not a declared category; add it or declare unseen = "other"'
        )
    return np.array([codes.get(word, float(len(codes))) for word in words])


def _targets(raw: Raw, schema: Schema, rows: int) -> np.ndarray:
    if raw.frame is not None and schema.target not in raw.frame.columns:
        raise WrongInput(
            f"expected the target {schema.target!r} among the columns, got {some(list(raw.frame.columns))}"
        )
    if raw.frame is None and raw.labels is None:
        raise WrongInput("expected labels beside the images, got none; store them as the array y")
    if schema.task == "regression":
        assert raw.frame is not None
        numbers, _ = numbers_of(raw.frame[schema.target])
        if not np.isfinite(numbers).all():
            at = int(np.argmin(np.isfinite(numbers)))
            raise WrongInput(
                f"target {schema.target!r}, row {at + 1}: expected a finite number, got {raw.frame[schema.target].iloc[at]!r:.60}"
            )
        return numbers if schema.low is None else np.clip(numbers, schema.low, schema.high)
    words = (
        words_of(raw.frame[schema.target])
        if raw.frame is not None
        else np.array([str(label) for label in raw.labels], dtype=object)
    )  # type: ignore[union-attr]
    if len(words) != rows:
        raise WrongInput(
            f"expected as many labels as rows, got {len(words)} labels for {rows} rows"
        )
    codes = {word: at for at, word in enumerate(schema.classes)}
    unknown = np.array([word not in codes for word in words], dtype=bool)
    if unknown.any():
        at = int(np.argmax(unknown))
        raise WrongInput(
            f"target {schema.target!r}, row {at + 1}: {words[at]!r:.60} is not among the declared classes {some(schema.classes)}"
        )
    return np.array([codes[word] for word in words], dtype=np.int64)


def _images(raw: Raw, schema: Schema) -> np.ndarray:
    if raw.images is None:
        raise WrongInput("expected images for a schema of form 'image', got a table")
    if raw.images.shape[1:] != schema.shape:
        raise WrongInput(
            f"expected images of shape {list(schema.shape)}, got {list(raw.images.shape[1:])}"
        )
    if raw.images.dtype == np.uint8:
        return raw.images.astype(np.float32) / 255
    scaled = np.clip(
        np.nan_to_num(raw.images.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0), 0, 1
    )
    return np.asarray(scaled)


def _capped(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """The first `cap` rows of each person: which rows stay never depends on another person."""
    if schema.unit not in frame.columns:
        raise WrongInput(
            f"expected the unit column {schema.unit!r} among {some(list(frame.columns))}"
        )
    seen = frame.groupby(words_of(frame[schema.unit])).cumcount().to_numpy()
    return np.asarray(seen < schema.cap)
