"""Fully connected layers, each with its activation and dropout, and a linear output.

Paper: Bao, Bauer and Bindschaedler, appendices B and D; dropout 0.2 after each hidden layer as in their section VIII.
Privacy: no cost of its own; no layer mixes rows.
Use when: columns are few or come from PCA; under privacy prefer one narrow layer to several wide ones.

>>> from privaware.models import count
>>> count(Fcn(inputs=300, hidden=(64,), outputs=10))
19914
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import ACTIVATIONS, Activated

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Fcn"]


@dataclass(frozen=True, kw_only=True)
class Fcn(Activated):
    """A fully connected network.

    Parameters
    ----------
    inputs, outputs : int
        Number of inputs and outputs.
    hidden : tuple of int
        Width of each hidden layer.
    activation : str or tuple of str
        One activation, or one for each hidden layer.
    tempered : tuple of float
        Scale, temperature and offset of the activation "tempered".
    dropout : float
        Dropout rate after each hidden layer.
    """

    name: ClassVar[str] = "fcn"

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: str | tuple[str, ...] = "relu"  # type: ignore[assignment]
    dropout: float = 0.2

    def __post_init__(self) -> None:
        self._check_count("inputs")
        self._check_counts("hidden")
        self._check_count("outputs")
        self._check_fraction("dropout")
        super().__post_init__()

    def _check_activation(self) -> None:
        if isinstance(self.activation, str):
            self._check_choice("activation", ACTIVATIONS)
        else:
            names = self._activations()
            if len(names) != len(self.hidden) or not names or any(name not in ACTIVATIONS for name in names):
                expected = f"one name, or one for each of the {len(self.hidden)} hidden layers, of"
                raise self._error("activation", f"{expected} {', '.join(ACTIVATIONS)}")
            self._set("activation", names)
        self._check_tempered()

    def _activations(self) -> tuple[str, ...]:
        if isinstance(self.activation, str):
            return (self.activation,) * len(self.hidden)
        return tuple(self.activation) if isinstance(self.activation, (list, tuple)) else ()

    def _uses_tempered(self) -> bool:
        return "tempered" in self._activations()

    def _module(self) -> nn.Module:
        from torch import nn

        from privaware.models._layers import activation, dense_layers

        activations = (activation(name, self.tempered) for name in self._activations())
        hidden = list(zip(self.hidden, activations))
        layers = dense_layers(self.inputs, hidden, self.outputs, dropout=self.dropout, after_each=True)
        return nn.Sequential(OrderedDict([("flatten", nn.Flatten()), *layers]))
