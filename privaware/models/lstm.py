"""A word embedding, one LSTM layer, dense layers and the output.

A row is `length` word codes below `words`. Shorter texts are padded with code 0 on the left, because the state after
the last word is the output. The recurrent layer has one bias vector, as in Keras; PyTorch's own layer has two, with 4 x
units more parameters.

Paper: Bao, Bauer and Bindschaedler, Tables XXVII, XXVIII and XXXI. The number 150 next to the embedding in these tables
is the length of a text: 1,000 words of 50 numbers are the embedding's 50,000 parameters.
Privacy: no cost of its own; no layer mixes rows.
Use when: rows are short texts and the order of words matters.

>>> from privaware.models import count
>>> count(Lstm(units=4, hidden=(16,), outputs=2))
50994
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import Activated

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Lstm"]


@dataclass(frozen=True, kw_only=True)
class Lstm(Activated):
    """A recurrent network for texts.

    Parameters
    ----------
    words : int
        Number of word codes.
    length : int
        Number of words of a text.
    embedding : int
        Width of the word embedding.
    units : int
        Units of the LSTM.
    hidden : tuple of int
        Units of each dense layer.
    outputs : int
        Number of outputs.
    dropout : float
        Dropout rate before the output.
    activation, tempered
        Name of the activation of the dense layers; scale, temperature and offset of the activation "tempered".
    """

    name: ClassVar[str] = "lstm"

    words: int = 1000
    length: int = 150
    embedding: int = 50
    units: int
    hidden: tuple[int, ...]
    outputs: int
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("words", "length", "embedding", "units", "outputs"):
            self._check_count(field)
        self._check_counts("hidden")
        self._check_fraction("dropout")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def codes(self) -> int | None:
        return self.words

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import LSTM, LastStep, dense_layers

        layers: list[tuple[str, nn.Module]] = [
            ("embedding", nn.Embedding(self.words, self.embedding)),
            ("lstm", LSTM(self.embedding, self.units)),
            ("last", LastStep()),
        ]
        hidden = [(units, self._activation()) for units in self.hidden]
        layers += dense_layers(self.units, hidden, self.outputs, dropout=self.dropout)
        return nn.Sequential(OrderedDict(layers))
