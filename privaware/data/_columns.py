"""A column of text as it arrives block by block, held as numbers where that loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._decimals import decimal_styles
from privaware.data._values import spelling_of_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TextBlock", "TextColumn"]

SPELLINGS: dict[str, Callable[[float], str]] = {"plain": spelling_of_number, "pointed": repr}
"""How a column spells its numbers: whole ones without a point, or all with one, as other programs write floats."""
CHECKED_ONE_BY_ONE = 0.05
"""Up to this share of the values of a block is compared with its spelling in Python, the others by Arrow."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TextBlock:
    """Some values: numbers and the first of the styles in which they spell exactly what was read, or encoded text."""

    values: Any
    styles: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Any) -> TextBlock:
        """The values of an Arrow array of strings."""
        parsed = _parsed(texts)
        if parsed is None:
            return cls(values=_encoded(texts))
        numbers = parsed.to_numpy(zero_copy_only=False)
        looks = decimal_styles(texts, numbers)
        doubtful = ~np.logical_or.reduce(list(looks.values()))
        styles = [style for style, fits in looks.items() if (fits | doubtful).all()]
        if styles and doubtful.any():
            rows = np.flatnonzero(doubtful)
            styles = [style for style in _styles(texts.take(rows), parsed.take(rows), len(texts)) if style in styles]
        return cls(values=(numbers, styles[0]) if styles else _encoded(texts), styles=frozenset(styles))


@dataclass
class TextColumn:
    """Blocks of values, and the styles that spell all of them."""

    blocks: list[Any] = field(default_factory=list)
    styles: set[str] = field(default_factory=lambda: set(SPELLINGS))

    def append(self, block: TextBlock) -> None:
        """Adds the next values."""
        self.styles &= block.styles
        self.blocks.append(block.values)

    def series(self) -> pd.Series:
        """The column as numbers (NaN where empty) if one style spells all of it, else as text, each spelling once.

        Numbers in the style with a point are of an Arrow type, by which `words_of` knows how they are spelt.
        """
        import pandas as pd
        import pyarrow as pa

        blocks, self.blocks = self.blocks, []
        if self.styles:
            numbers = np.concatenate([block[0] for block in blocks]) if blocks else np.empty(0)
            if "plain" in self.styles:
                return pd.Series(numbers, copy=False)
            return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(numbers, from_pandas=False)), copy=False)
        texts = [_spelt(*block) if isinstance(block, tuple) else block for block in blocks]
        joined = pa.chunked_array(texts).unify_dictionaries()
        spellings = joined.chunk(0).dictionary.to_numpy(zero_copy_only=False)
        codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in joined.chunks])
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(spellings, dtype=object)), copy=False)


def _encoded(texts: Any) -> Any:
    """Texts, each spelling once; -0 is 0, as it is where all values are numbers."""
    import pyarrow.compute as pc

    nought = pc.equal(texts, "-0")
    return (pc.if_else(nought, "0", texts) if pc.any(nought).as_py() else texts).dictionary_encode()


def _spelt(numbers: np.ndarray, style: str) -> Any:
    import pyarrow as pa

    texts = ["" if np.isnan(number) else SPELLINGS[style](number) for number in numbers.tolist()]
    return pa.array(texts, pa.string()).dictionary_encode()


def _parsed(texts: Any) -> Any:
    """The texts as numbers, an empty one as null, or None where one of them is no finite number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = pc.equal(texts, "")
    filled = pc.if_else(empty, pa.scalar(None, pa.string()), texts) if pc.any(empty).as_py() else texts
    try:
        parsed = filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return parsed if pc.all(pc.is_finite(parsed), min_count=0).as_py() else None


def _styles(texts: Any, numbers: Any, rows: int) -> list[str]:
    """In which styles every text is exactly how its number is spelt.

    Those that Arrow spells otherwise are compared in Python, where they are few of the `rows` of their block.
    """
    import pyarrow.compute as pc

    spelt = numbers.cast(texts.type)
    with_point = pc.if_else(pc.match_substring(spelt, "."), spelt, pc.binary_join_element_wise(spelt, ".0", ""))
    size = pc.abs(numbers)
    usual = pc.and_(pc.greater_equal(size, 1e-4), pc.less(size, 1e15))
    styles = []
    for style, expected, nought in (("plain", spelt, "0"), ("pointed", with_point, "0.0")):
        alike = pc.or_(pc.and_(usual, pc.equal(expected, texts)).fill_null(True), pc.equal(texts, nought))
        doubtful = np.flatnonzero(~alike.to_numpy(zero_copy_only=False))
        few = len(doubtful) <= CHECKED_ONE_BY_ONE * rows + 100
        if few and all(SPELLINGS[style](numbers[int(at)].as_py()) == texts[int(at)].as_py() for at in doubtful):
            styles.append(style)
    return styles
