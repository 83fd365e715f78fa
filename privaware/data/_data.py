"""Private rows coded by a schema."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._read import Raw
from privaware.data._values import Words, got, is_missing, listed, numbers_among, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Data:
    """Private rows: `x` as the schema declares it, `y` class codes or numbers.

    Tables are float64 (rows, columns) with numbers clipped to their bounds and category codes. A
    missing number that has a slot of its own is NaN; a missing or unseen category has the code
    after the last one. Images are float32 (rows, channels, height, width) in [0, 1]; text is an
    object array of str, a missing text being the empty one.
    """

    schema: Schema
    x: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise WrongInput(f"expected as many labels as rows, got {len(self.y)} labels for {len(self.x)} rows")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Data({self.schema.form} of {len(self.schema.used)} columns, rows private)"

    def take(self, index: np.ndarray) -> Data:
        """Some of the rows, by mask or position."""
        return replace(self, x=self.x[index], y=self.y[index])

    def keep(self, names: tuple[str, ...]) -> Data:
        """Some of the columns of a table, by name; images and text stay as they are."""
        if self.schema.form != "table":
            return self
        known = [column.name for column in self.schema.used]
        if unknown := [name for name in names if name not in known]:
            raise WrongInput(f"expected columns among {listed(known)}, got {listed(unknown)}")
        chosen = [at for at, name in enumerate(known) if name in names]
        return replace(self, schema=self.schema.keep(names), x=self.x[:, chosen])

    def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Data, ...]:
        """Disjoint parts by an independent draw for each row: adding a row never moves another."""
        part = rng.shards(len(self), shares)
        return tuple(self.take(part == at) for at in range(len(shares)))

    @classmethod
    def of(cls, raw: Raw, schema: Schema, *, labelled: bool = True) -> Data:
        """The rows of `raw` against `schema`; what does not fit is refused with a sentence.

        A regression target without declared bounds is left unclipped, for scoring a model.
        """
        for column in schema.used if schema.form == "table" else ():
            if not column.bounded:
                what = {"number": "low and high", "category": "categories"}.get(column.kind, "a kind and its bounds")
                raise WrongInput(
                    f"column {quoted(column.name)}: expected {what} in the schema; declare them, "
                    "or pay for them with --private-schema"
                )
        return cls._coded(raw, schema, labelled, clip=True)

    @classmethod
    def uncoded(cls, raw: Raw, schema: Schema) -> Data:
        """The rows before bounds are known: `x` of a table holds unclipped numbers and category names.

        It is an object array (rows, columns): a float, NaN if missing, in a number column; a str,
        empty if missing, in a category column or an undecided one. What `of` would refuse under any
        bounds is refused here.
        """
        return cls._coded(raw, schema, True, clip=False)

    def coded_by(self, schema: Schema) -> Data:
        """Uncoded rows, coded by a schema whose bounds have since been released; labels are clipped to it.

        In a column that was decided to hold numbers, anything else is missing.
        """
        import pandas as pd

        numbers = {column.name for column in schema.used if column.kind == "number"}
        columns = {
            column.name: numbers_among(self.x[:, at])
            if column.kind == "undecided" and column.name in numbers
            else self.x[:, at]
            for at, column in enumerate(self.schema.used)
        }
        frame = pd.DataFrame(columns, index=range(len(self)))
        coded = type(self).of(Raw(frame=frame), schema, labelled=False)
        y = self.y if schema.classes or schema.low is None else np.clip(self.y, schema.low, schema.high)
        return replace(coded, y=y)

    @classmethod
    def _coded(cls, raw: Raw, schema: Schema, labelled: bool, *, clip: bool) -> Data:
        with raw.named():
            x = _images(raw, schema) if schema.form == "image" else _columns(raw, schema, clip)
            y = _targets(raw, schema) if labelled else np.zeros(len(x), dtype=np.int64)
            data = cls(schema=schema, x=x, y=y)
            if labelled and schema.unit not in ("row", "label"):
                return data.take(_capped(raw, schema))
            return data


def _columns(raw: Raw, schema: Schema, clip: bool) -> np.ndarray:
    frame = raw.frame
    if frame is None:
        raise WrongInput(f"expected a table for a schema of form {schema.form!r}, got images")
    if absent := [column.name for column in schema.used if column.name not in frame.columns]:
        raise WrongInput(
            f"the schema names {listed(absent)}, the data have {raw.columns_shown()}; edit one to match the other"
        )
    if schema.form == "text":
        return _texts([frame[column.name] for column in schema.used], len(frame))
    x = np.zeros((len(frame), len(schema.used)), dtype=float if clip else object)
    for at, column in enumerate(schema.used):
        if column.kind == "text":
            raise WrongInput(
                f"column {quoted(column.name)}: expected kind number, category or ignore in a "
                'schema of form "table", got text'
            )
        reader = _numbers if column.kind == "number" else _categories
        x[:, at] = reader(raw, frame[column.name], column, clip)
    return x


def _texts(columns: list[pd.Series], rows: int) -> np.ndarray:
    texts = np.full(rows, "", dtype=object)
    for at, values in enumerate(columns):
        words = words_of(values).map(str, object)
        texts = words if at == 0 else texts + " " + words
    return texts


def _numbers(raw: Raw, values: pd.Series, column: Column, clip: bool) -> np.ndarray:
    numbers, missing = numbers_of(values)
    wrong = np.isnan(numbers) & ~missing
    if wrong.any():
        _refuse(
            raw,
            column,
            wrong,
            f"expected a number{got(values.iloc[_first(wrong)])}; "
            'mend the row or declare kind = "category" or "ignore"',
        )
    absent = ~np.isfinite(numbers)
    if column.missing == "refuse" and absent.any():
        _refuse(
            raw,
            column,
            absent,
            'the value is missing or infinite; mend the row or declare missing = "category" or a number to fill in',
        )
    if not clip:
        return np.where(absent, np.nan, numbers).astype(object)
    fill = np.nan if isinstance(column.missing, str) else float(column.missing)
    return np.where(absent, fill, np.clip(numbers, column.low, column.high))


def _categories(raw: Raw, values: pd.Series, column: Column, clip: bool) -> np.ndarray:
    words = words_of(values)
    codes = {word: at for at, word in enumerate(column.categories)}
    missing = words.map(lambda word: word not in codes and is_missing(word), bool)
    if column.missing == "refuse" and missing.any():
        _refuse(raw, column, missing, 'the value is missing; declare missing = "category"')
    broken = _over_lines(raw, words, known=codes)
    if broken.any():
        _refuse(
            raw,
            column,
            broken,
            'the value goes over several lines; close its quotation mark, or declare the category or kind = "ignore"',
        )
    if not clip:
        return np.where(missing, "", words.map(str, object))
    unseen = words.map(lambda word: word not in codes, bool) & ~missing
    if column.unseen == "refuse" and unseen.any():
        _refuse(
            raw,
            column,
            unseen,
            f'expected a declared category{got(words[_first(unseen)])}; add it or declare unseen = "other"',
        )
    return words.map(lambda word: codes.get(word, len(codes)), float)


def _over_lines(raw: Raw, words: Words, known: Container[str] = ()) -> np.ndarray:
    """Rows of a text file with a line end in a value that is a name: there a stray mark has swallowed a row."""
    if raw.line is None:
        return np.zeros(len(words.codes), dtype=bool)
    return words.map(lambda word: word not in known and ("\n" in word or "\r" in word), bool)


def _refuse(raw: Raw, column: Column, wrong: np.ndarray, sentence: str) -> None:
    raise WrongInput(f"column {quoted(column.name)}, {raw.place(_first(wrong))}: {sentence}")


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))


def _targets(raw: Raw, schema: Schema) -> np.ndarray:
    values = target_of(raw, schema.target)
    if schema.task == "regression":
        numbers, _ = numbers_of(values)
        if not np.isfinite(numbers).all():
            at = _first(~np.isfinite(numbers))
            raise WrongInput(
                f"target {quoted(schema.target)}, {raw.place(at)}: expected a finite number{got(values.iloc[at])}"
            )
        return numbers if schema.low is None else np.clip(numbers, schema.low, schema.high)
    words = words_of(values)
    codes = {word: at for at, word in enumerate(schema.classes)}
    labels = words.map(lambda word: codes.get(word, -1), np.int64)
    if (labels < 0).any():
        at = _first(labels < 0)
        raise WrongInput(
            f"target {quoted(schema.target)}, {raw.place(at)}: expected one of the declared classes "
            f"{listed(schema.classes)}{got(words[at])}"
        )
    return labels


def target_of(raw: Raw, target: str) -> pd.Series:
    """The target column, or the labels of images."""
    import pandas as pd

    if raw.frame is None:
        if raw.labels is None:
            raise WrongInput("expected labels of the images, got none; store them as array y")
        return pd.Series(raw.labels, name=target)
    if target not in raw.frame.columns:
        raise WrongInput(
            f"expected a target among the columns {raw.columns_shown()}, got {quoted(target)}; name one with --target"
        )
    return raw.frame[target]


def _images(raw: Raw, schema: Schema) -> np.ndarray:
    images = raw.images
    if images is None:
        raise WrongInput("expected images for a schema of form 'image', got a table")
    if images.shape[1:] == (3, *schema.shape[1:]) and schema.shape[0] == 1:
        images = _grey(images)
    if images.shape[1:] == (1, *schema.shape[1:]) and schema.shape[0] == 3:
        images = np.repeat(images, 3, axis=1)
    if images.shape[1:] != schema.shape:
        raise WrongInput(f"expected images of shape {list(schema.shape)}, got {list(images.shape[1:])}")
    if images.dtype.kind != "f":
        top = {"bool": 1, "uint16": 65535}.get(str(images.dtype), 255)
        return np.clip(images.astype(np.float32) / top, 0, 1)
    wrong = np.asarray(~((images >= 0) & (images <= 1)).all(axis=(1, 2, 3)))
    if wrong.any():
        raise WrongInput(
            f"image {_first(wrong) + 1}: expected finite values from 0 to 1, or whole numbers from "
            "0 to 255; scale the array x"
        )
    return images.astype(np.float32)


def _grey(images: np.ndarray) -> np.ndarray:
    """Colour to grey by the weights of ITU-R 601; whole numbers stay whole numbers."""
    grey = np.tensordot(images, np.array([0.299, 0.587, 0.114]), axes=(1, 0))[:, None]
    return grey if images.dtype.kind == "f" else np.round(grey).astype(images.dtype)


def _capped(raw: Raw, schema: Schema) -> np.ndarray:
    """A mask of the first `cap` rows of each person: it never depends on another person's rows."""
    frame = raw.frame
    if frame is None or schema.unit not in frame.columns:
        raise WrongInput(
            f"expected the unit column {quoted(schema.unit)} among the columns, got {raw.columns_shown() or 'images'}"
        )
    words = words_of(frame[schema.unit])
    wrong = words.missing() | _over_lines(raw, words)
    if wrong.any():
        raise WrongInput(
            f"unit column {quoted(schema.unit)}, {raw.place(_first(wrong))}: expected whose row it is, in one line; "
            "fill it in or remove the row"
        )
    people = words.map({word: at for at, word in enumerate(words.distinct())}.get, object)
    return np.asarray(frame.groupby(people).cumcount().to_numpy() < schema.cap)
