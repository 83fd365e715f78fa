"""Rows of a table with texts or images: features of the texts or images, followed by features of all other columns.

The texts of a row are joined by a blank and read by the feature that `text` describes, such as `sentences` or `hashed`.
The image of a row is read by the features that `image` describes, such as `prior`, one after the other. The other
columns become random Fourier features (`table_fourier`) of norm at most 1. Their mean over public typical rows is
subtracted, because a large common part would act as a bias: in a typical row the rank of a number among its bins, and
the level of a category, are uniform. The block of the texts or the image is scaled to norm 1 (a block of zeros stays
zero), and the block of c other columns is multiplied by `columns * c ** (2 / 3)`, so that one column has little weight
beside the texts or the image, and many columns have more.

Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a table has columns of free text, or a column of images, beside numbers and categories. `auto` takes it there.

>>> from privaware.schema import Column, Schema
>>> columns = (Column(name="note", kind="text", slots=0), Column(name="age", low=0, high=90))
>>> facts = Schema(columns=columns, classes=("n", "y"))
>>> feature = Mixed(text={"name": "hashed", "slots": 8}, count=4)
>>> feature(np.array([["free entry", 45.0]], dtype=object), facts).shape
(1, 12)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from privaware import features
from privaware._validate import expect_between, expect_count
from privaware.data import from_bytes
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["Mixed"]

GROWTH = 2 / 3
"""Exponent with which the scale of the block of other columns grows with their number; see docs/results/mixed.md."""

TYPICAL_ROWS = 1024
"""Number of rows, drawn from the schema alone, over which random Fourier features are averaged."""


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Features of the texts or the image of a row of a table, followed by features of its other columns.

    The block of the texts or the image is scaled to norm 1. The other columns become random Fourier features
    (`table_fourier`), from which their mean over typical rows, drawn from the schema alone, is subtracted. With `text`
    a table must have a column of texts that are not hashed and none of images; with `image` it must have one column of
    images. Any other table raises `WrongInput`, as do rows of another shape than the schema says.

    Parameters
    ----------
    text : mapping
        Description of the feature that reads the texts, as `privaware.features.build` takes it.
    image : sequence of mappings
        Descriptions of the features that read the image, in order. Exactly one of `text` and `image` must be given.
    columns : float
        Weight of the other columns: random Fourier features of c other columns are multiplied by
        `columns * c ** GROWTH`, where `GROWTH` is 2/3.
    count : int
        Number of random Fourier features of the other columns.
    """

    text: Mapping[str, Any] = field(default_factory=dict)
    image: Sequence[Mapping[str, Any]] = ()
    columns: float = 0.5
    count: int = 1024

    def __post_init__(self) -> None:
        expect_between("mixed", 1e-3, 1e3, columns=self.columns)
        expect_count("mixed", count=self.count)
        if bool(self.text) == bool(self.image):
            raise WrongInput("mixed: expected features of either text or image, got both or none of them")
        self._chain  # noqa: B018  raises if a description is wrong

    @cached_property
    def _chain(self) -> tuple[Any, ...]:
        """Return the features of the image, in the order in which they are applied, or else the one for the texts."""
        return tuple(features.build(dict(each)) for each in self.image or (self.text,))

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        whole, numbers, others = _places(schema)
        fits = len(whole) == 1 if self.image else bool(whole)
        fits = fits and schema.has_images == bool(self.image)
        if x.ndim != 2 or x.shape[1] != len(schema.used) or not fits:
            needed = "exactly one with images and none" if self.image else "none with images and at least one"
            raise WrongInput(
                f"mixed: expected rows of {len(schema.used)} columns, {needed} with texts (slots = 0), got shape "
                f"{x.shape} and a schema with {len(whole)} columns of images or such texts"
            )
        unit, fourier = features.build({"name": "bounded"}), {"name": "table_fourier", "count": self.count}
        inputs = from_bytes(x[:, whole[0]], schema.shape) if self.image else _joined(x[:, whole])
        read = unit(features.apply(self._chain, inputs, self._whole_schema(schema)))
        beside = np.zeros((len(x), self.count), np.float32)
        if numbers:
            beside = features.build(fourier)(x[:, numbers].astype(float), others) - _typical_mean(self.count, others)
        norm = np.float32(self.columns * len(others.declared) ** GROWTH)
        return np.concatenate([read, norm * beside], axis=1, dtype=np.float32)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return sum(columns for columns, _ in self.parts(schema))

    def parts(self, schema: Schema) -> tuple[tuple[int, float], ...]:
        """Return (number of columns, norm) of each feature block: of the texts or the image, then of the other columns.

        For the block of the other columns, the second number is not its norm but the factor that multiplies the block.
        If the feature that reads the image makes several blocks, as `extractor` does, each block has its own entry.
        """
        of_whole = self._whole_schema(schema)
        read: Sequence[tuple[int, float]] = getattr(self._chain[0], "parts", ()) if len(self._chain) == 1 else ()
        if not read:
            empty = np.zeros((1, *schema.shape), np.float32) if self.image else np.array([""], dtype=object)
            read = ((features.apply(self._chain, empty, of_whole).size, 1.0),)
        length = math.hypot(*(norm for _, norm in read))
        beside = self.columns * len(_places(schema)[2].declared) ** GROWTH
        return (*((columns, norm / length) for columns, norm in read), (self.count, beside))

    def _whole_schema(self, schema: Schema) -> Schema:
        """Return the schema that the features of the texts or the image get.

        For an image its form is "image" and it has no columns; for texts it is `schema` itself.
        """
        return replace(schema, form="image", columns=()) if self.image else schema


@lru_cache(maxsize=8)
def _places(schema: Schema) -> tuple[list[int], list[int], Schema]:
    """Return the positions of columns in a row, and the schema without texts and images.

    The positions are two lists: of the columns that hold a text (not hashed) or an image, and of all other columns.
    """
    whole = [at for at, column in enumerate(schema.used) if column.is_whole]
    numbers = [at for at, column in enumerate(schema.used) if not column.is_whole]
    return whole, numbers, replace(schema, columns=tuple(each for each in schema.columns if not each.is_whole))


@lru_cache(maxsize=8)
def _typical_mean(count: int, schema: Schema) -> np.ndarray:
    """Return the mean (count,) of `count` random Fourier features over `TYPICAL_ROWS` typical rows of `schema`.

    The rows are drawn from the schema alone, with a fixed seed.
    """
    uniform = np.random.Generator(np.random.PCG64(0)).random((TYPICAL_ROWS, len(schema.used)))
    rows = np.stack([_typical(uniform[:, at], column) for at, column in enumerate(schema.used)], axis=1)
    mean = features.build({"name": "table_fourier", "count": count})(rows, schema).mean(axis=0, dtype=np.float64)
    return np.asarray(mean, np.float32)


def _typical(uniform: np.ndarray, column: Column) -> np.ndarray:
    """Return a value of `column` for each rank from 0 to 1 in `uniform`.

    It is a number, interpolated between the bounds and the edges of the bins, or the code of a level of a category.
    """
    if column.kind == "category":
        return np.floor(uniform * len(column.categories))
    edges = (column.low or 0.0, *column.bins, column.high or 0.0)
    return np.interp(uniform, np.linspace(0, 1, len(edges)), edges)


def _joined(texts: np.ndarray) -> np.ndarray:
    """Return the texts (rows, columns) of each row joined by a blank; a value that is no text counts as empty."""
    rows = np.empty(len(texts), dtype=object)
    rows[:] = [" ".join(text for text in row if isinstance(text, str)) for row in texts.tolist()]
    return rows
