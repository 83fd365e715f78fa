"""A column of text as it arrives block by block, held as numbers where that loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._values import spelling_of_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TextColumn"]

CHECKED_ONE_BY_ONE = 0.05
"""Up to this share of the values of a block is compared with its spelling in Python, the others by Arrow."""


@dataclass
class TextColumn:
    """Blocks of numbers, each of which spells exactly the text that was read, or of text."""

    blocks: list[Any] = field(default_factory=list)

    def append(self, texts: Any) -> None:
        """Adds an Arrow array of strings."""
        numbers = _numbers_that_spell(texts)
        self.blocks.append(texts.dictionary_encode() if numbers is None else numbers)

    def series(self) -> pd.Series:
        """The column as numbers (NaN where empty) if all blocks are, else as text with each spelling held once."""
        import pandas as pd
        import pyarrow as pa

        if all(isinstance(block, np.ndarray) for block in self.blocks):
            numbers = np.concatenate(self.blocks) if self.blocks else np.empty(0)
            self.blocks.clear()
            return pd.Series(numbers, copy=False)
        texts = [_spelt(block) if isinstance(block, np.ndarray) else block for block in self.blocks]
        self.blocks.clear()
        joined = pa.chunked_array(texts).unify_dictionaries()
        spellings = joined.chunk(0).dictionary.to_numpy(zero_copy_only=False)
        codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in joined.chunks])
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(spellings, dtype=object)), copy=False)


def _spelt(numbers: np.ndarray) -> Any:
    import pyarrow as pa

    texts = ["" if np.isnan(number) else spelling_of_number(number) for number in numbers.tolist()]
    return pa.array(texts, pa.string()).dictionary_encode()


def _numbers_that_spell(texts: Any) -> np.ndarray | None:
    """The texts as numbers, or None where a text is neither empty nor exactly how its number is spelt."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    try:
        parsed = filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    size = pc.abs(parsed)
    plain = pc.and_(pc.greater_equal(size, 1e-4), pc.less(size, 1e15))
    alike = pc.or_(pc.and_(plain, pc.equal(parsed.cast(pa.string()), filled)), pc.equal(filled, "0"))
    doubtful = np.flatnonzero(~alike.fill_null(True).to_numpy(zero_copy_only=False))
    if len(doubtful) > CHECKED_ONE_BY_ONE * len(texts) + 1:
        return None
    numbers: np.ndarray = parsed.to_numpy(zero_copy_only=False)
    spelt = all(spelling_of_number(numbers[at]) == texts[int(at)].as_py() != "nan" for at in doubtful)
    return numbers if spelt else None
