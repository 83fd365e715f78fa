"""Hold the examples of a training in parts, one part on each rank, and fetch the examples that a step computes with.

A microbatch holds examples of a random sample of all rows. So in each step every rank gets the examples of its
microbatches from the ranks that hold them. All ranks know the sample, so all ranks know who needs what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from privaware.descent._microbatches import MicrobatchLayout
from privaware.ranks import Ranks


def bounds(examples: int, size: int) -> list[int]:
    """Return the position at which the part of each of `size` ranks begins, and the number of examples at the end.

    Rank r holds the examples from `bounds[r]` to `bounds[r + 1] - 1`.

    >>> bounds(10, 3)
    [0, 3, 6, 10]
    """
    return [examples * rank // size for rank in range(size + 1)]


@dataclass
class RowParts:
    """The part of the examples that this rank holds, and the examples that it has fetched for the present step.

    `tensors` (inputs, then targets) hold the examples `bounds[rank]` to `bounds[rank + 1] - 1`. `positions` are the
    positions of the fetched examples among all examples, in increasing order. `fetched` are their values, one tensor
    for each of `tensors`. `last` are the samples that `fetch` was last called with.
    """

    ranks: Ranks
    bounds: list[int]
    tensors: Sequence[Tensor]
    positions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    fetched: list[Tensor] = field(default_factory=list)
    last: Sequence[np.ndarray] = ()

    @property
    def examples(self) -> int:
        """The number of examples of all ranks."""
        return self.bounds[-1]

    def fetch(self, samples: Sequence[np.ndarray], layout: MicrobatchLayout) -> None:
        """Fetch the examples of this rank's microbatches; all ranks have to call this with the same arguments.

        `samples` has, for each model, the positions of its sampled examples; `layout` cuts them into microbatches.
        Nothing is fetched if `samples` equal the samples of the previous call, as with full batches.
        """
        if len(self.last) == len(samples) and all(map(np.array_equal, self.last, samples)):
            return
        self.last = samples
        wanted = [self._wanted(samples, layout, rank) for rank in range(self.ranks.size)]
        rank, device = self.ranks.rank, self.tensors[0].device
        begin, end = self.bounds[rank], self.bounds[rank + 1]
        sent = [positions[(positions >= begin) & (positions < end)] - begin for positions in wanted]
        received = np.diff(np.searchsorted(wanted[rank], self.bounds)).tolist()
        index = torch.from_numpy(np.concatenate(sent)).to(device)
        counts = [len(positions) for positions in sent]
        self.fetched = [self.ranks.exchanged(item[index], counts, received) for item in self.tensors]
        self.positions = wanted[rank]

    def at(self, index: Tensor | slice) -> list[Tensor]:
        """Return the fetched examples at the positions `index` among all examples, in the order of `index`.

        There is one tensor for each of `tensors`. A position that was not fetched is padding, and gets the values
        of some fetched example.
        """
        if isinstance(index, slice):
            index = torch.arange(index.start, index.stop, device=self.tensors[0].device)
        here = torch.from_numpy(self.positions).to(index.device)
        local = torch.searchsorted(here, index).clamp_(max=len(here) - 1)
        return [item[local] for item in self.fetched]

    def _wanted(self, samples: Sequence[np.ndarray], layout: MicrobatchLayout, rank: int) -> np.ndarray:
        """Return the positions of the examples in the microbatches of `rank`, in increasing order, each once.

        These are the microbatches `rank`, `rank + ranks.size`, `rank + 2 * ranks.size` and so on of `samples`.
        """
        longest = max(len(sample) for sample in samples)
        starts = range(0, longest, layout.width)[rank :: self.ranks.size]
        chosen = [sample[start : start + layout.width] for start in starts for sample in samples]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *chosen]))
