"""One linear layer: logistic regression under the cross-entropy, linear regression under the squared error.

With `inputs` as (channels, height, width) and `groups` above zero, the channels are first group-normalised without
weights. This is the linear head on scattering features of Tramer and Boneh, and the network that DPMLBench calls MLP.

Paper: Tramer and Boneh, section 2.2 and appendix C.3; Bao et al., section V; DPMLBench, appendix D.
Privacy: no cost of its own; no layer mixes rows.
Use when: features are informative, or the budget is small.

>>> Linear(inputs=3969, outputs=10).describe()
{'name': 'linear', 'inputs': 3969, 'outputs': 10, 'groups': 0}
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import Description

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Linear"]


@dataclass(frozen=True, kw_only=True)
class Linear(Description):
    """One linear layer.

    Parameters
    ----------
    inputs : int or tuple of int
        Number of columns, or channels, height and width; an input of any shape is flattened.
    outputs : int
        Number of outputs.
    groups : int
        Groups of the norm of the channels; 0 for none, and always 0 if `inputs` is one number.
    """

    name: ClassVar[str] = "linear"

    inputs: int | tuple[int, int, int]
    outputs: int
    groups: int = 0

    def __post_init__(self) -> None:
        self._check_count("outputs")
        self._check_count("groups", least=0)
        if isinstance(self.inputs, (list, tuple)):
            self._check_counts("inputs", size=3)
            self._check_groups("groups", self.shape[0])
            return
        self._check_count("inputs")
        if self.groups:
            raise self._error("groups", "0 unless inputs are (channels, height, width)")

    def _module(self) -> nn.Module:
        from torch import nn

        layers: list[tuple[str, nn.Module]] = []
        if self.groups:
            layers.append(("norm", nn.GroupNorm(self.groups, self.shape[0], affine=False)))
        layers.append(("flatten", nn.Flatten()))
        layers.append(("output", nn.Linear(math.prod(self.shape), self.outputs)))
        return nn.Sequential(OrderedDict(layers))
