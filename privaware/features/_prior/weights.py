"""The weights file of the feature `prior`: a pretrained network in eight bits, and the statistics of its feature maps.

Its metadata record how it was computed: command, seed, commit, recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from privaware.errors import WrongInput
from privaware.features._prior.maps import backbone
from privaware.features._prior.scattering import ScatteringStatistics
from privaware.features._prior.whitening import Statistics
from privaware.features._rounded_tensors import read_rounded


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorWeights:
    """The content of a weights file of `prior`: the pretrained `network`, and the `statistics` of its feature maps.

    `shape` is depth and width of the network, and the stride of its first convolution. `normed` tells whether
    `statistics` are of feature maps after the next group norm. `metadata` is all text that the file stores. `tensors`
    are the stored tensors of scattering statistics; there are none if the file has no such statistics.
    """

    network: nn.Sequential
    shape: tuple[int, int, int]
    statistics: Statistics
    normed: bool
    metadata: Mapping[str, str]
    tensors: Mapping[str, Tensor]

    @property
    def scattering(self) -> ScatteringStatistics:
        """The statistics of scattering coefficients; a file without them raises `WrongInput`."""
        return ScatteringStatistics.read(self.tensors)


def load(file: str | Path, device: Any = "cpu") -> PriorWeights:
    """Return the content of the weights file `file`, with the network in single precision on `device`.

    Raise `WrongInput` if `file` is missing or cannot be read as such a file.
    """
    if not Path(file).is_file():
        raise WrongInput(
            f"prior: its weights {Path(file).name!r} are missing; install a release of privaware that ships them, "
            "or write them with `privaware reproduce ours/prior/weights` and name the file as weights"
        )
    with read_rounded(file, "prior", "ours/prior/weights") as (tensors, metadata):
        shape = int(metadata["depth"]), int(metadata["width"]), int(metadata.get("stride", "1"))
        network = backbone(*shape[:2], device="meta", stride=shape[2])
        state = {
            name.removeprefix("network."): value.float()
            for name, value in tensors.items()
            if name.startswith("network.")
        }
        network.load_state_dict(state, assign=True)
        statistics = Statistics.read(tensors, metadata)
    network = network.eval().requires_grad_(False)
    network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return PriorWeights(
        network=network,
        shape=shape,
        statistics=statistics,
        normed=metadata["normed"] == "1",
        metadata=metadata,
        tensors={name: value for name, value in tensors.items() if name.startswith("scatter.")},
    )
