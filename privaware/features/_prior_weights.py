"""The file that holds a pretrained network and the statistics of its maps: half precision, no pickle.

Beside the tensors it says in words how it was made: command, seed, commit, recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from privaware.errors import WrongInput
from privaware.features._prior_maps import pooled, prepared, trunk
from privaware.features._prior_scattering import Scattered, scatter
from privaware.features._prior_images import Images
from privaware.features._prior_whitening import Statistics

__all__ = ["Stored", "load", "measure", "measure_scattering", "save"]

ROWS_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Stored:
    """What the file holds. `shape` is depth and width of the network."""

    network: nn.Sequential
    shape: tuple[int, int]
    statistics: Statistics
    normed: bool
    facts: Mapping[str, str]
    tensors: Mapping[str, Tensor]

    @property
    def scattered(self) -> Scattered:
        """The statistics of scattering, where the file has them."""
        return Scattered.read(self.tensors)


def measure(
    network: nn.Module,
    source: Images,
    *,
    rows: int,
    first: int,
    device: Any,
    depths: Sequence[int],
    pools: Sequence[int],
    normed: bool,
) -> Statistics:
    """Statistics over `rows` synthetic images, from chunk number `first` on: ones the network did not learn from."""

    batches = (
        pooled(network, images, depths, pools, mirror=True, normed=normed)
        for images in _synthetic(source, rows, first, device)
    )
    with torch.no_grad():
        return Statistics.of(batches, depths, pools)


def measure_scattering(source: Images, *, rows: int, first: int, device: Any) -> Scattered:
    """The same of scattering coefficients; an image and its mirror image are averaged as in use."""
    run = scatter(device)
    images = ((some + 1) / 2 for some in _synthetic(source, rows, first, device))
    with torch.no_grad():
        return Scattered.of((run(some) + run(some.flip(3))) / 2 for some in images)


def _synthetic(source: Images, rows: int, first: int, device: Any) -> Iterator[Tensor]:
    """Prepared images, a few at a time."""
    seen = 0
    for chunk in source.chunks(device, first):
        for some in chunk[: rows - seen].split(ROWS_AT_ONCE):
            yield prepared(some.float() / 255)
        seen += len(chunk)
        if seen >= rows:
            return


def save(
    file: Path,
    network: nn.Module,
    statistics: Statistics,
    scattered: Scattered | None,
    normed: bool,
    facts: Mapping[str, str],
) -> None:
    """Writes everything in half precision."""
    from safetensors.torch import save_file

    tensors = {
        f"network.{name}": value.detach().cpu().half().contiguous() for name, value in network.state_dict().items()
    }
    kept = {**facts, **statistics.facts(), "normed": str(int(normed))}
    beside = {} if scattered is None else scattered.tensors()
    save_file({**tensors, **statistics.tensors(), **beside}, str(file), kept)


def load(file: str | Path, device: Any = "cpu") -> Stored:
    """Reads what `save` wrote, in single precision, onto a device."""
    from safetensors import SafetensorError, safe_open

    if not Path(file).is_file():
        raise WrongInput(
            f"prior: its weights {Path(file).name!r} are not here; install a release of privaware that brings them, "
            "or make them with `python -m benchmarks.prior` and name the file as weights"
        )
    try:
        with safe_open(str(file), framework="pt") as opened:
            facts = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        shape = int(facts["depth"]), int(facts["width"])
        network = trunk(*shape, device="meta")
        own = {
            name.removeprefix("network."): value.float()
            for name, value in tensors.items()
            if name.startswith("network.")
        }
        network.load_state_dict(own, assign=True)
        statistics = Statistics.read(tensors, facts)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise WrongInput(
            f"prior: expected {Path(file).name!r} as `python -m benchmarks.prior` writes it: {reason:.160}"
        ) from None
    network = network.eval().requires_grad_(False)
    network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Stored(
        network=network,
        shape=shape,
        statistics=statistics,
        normed=facts["normed"] == "1",
        facts=facts,
        tensors={name: value for name, value in tensors.items() if name.startswith("scatter.")},
    )
