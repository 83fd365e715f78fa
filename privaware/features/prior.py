"""Frozen features of a network that learned from images made by random processes, and from nothing else.

A wide residual network was taught to recognise views of synthetic textures and dead leaves (no photograph, no row of
any data set); its weights, the seed and the command that made them are part of the package. A row is resized to
32 x 32, maps at several depths are rectified, averaged to a few points each, whitened by the covariance of synthetic
images and scaled to length `norm`. With scattering beside it, `Prior(scatter=1.0)`, it is better still.

Paper: Baradad et al. 2021, Learning to See by Looking at Noise, arXiv:2106.05963, for learning from noise; Tang et al.
2023, Differentially Private Image Classification by Learning Priors from Random Processes, arXiv:2306.06076, for its
use under privacy. Depths, whitening and the linear head are ours: see docs/results/prior.md.
Privacy: free. It uses one row at a time; everything else was fixed before any row was seen.
Use when: the data are natural images, grey or in colour. For digits and signs set `mirror` to false, or use scattering.

>>> Prior(depths=(3, 5), pools=(4, 1)).width()
2304

A private linear model on it: `fit(..., learner="linear", settings={"features": [{"name": "prior", "scatter": 1.0}]})`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.errors import WrongInput
from privaware.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from privaware.features._prior_weights import Stored
    from privaware.features._prior_whitening import Whitening

__all__ = ["Prior"]

SHIPPED = Path(__file__).with_name("prior.safetensors")
ROWS_AT_ONCE = {"cpu": 128, "cuda": 2048}


@dataclass(frozen=True, kw_only=True)
class Prior:
    """`depths` counts residual blocks from 0; map number i is averaged to pools[i] x pools[i].

    `whiten` is the power of the whitening, 0 for none; `mirror` averages the rows of an image and its mirror image;
    `normed` takes maps behind the next group norm; `scatter` is the weight of whitened scattering beside them;
    `weights` is a file made by `python -m benchmarks.prior`, where the package's own are not wanted.
    """

    depths: tuple[int, ...] = (1, 3, 4, 5)
    pools: tuple[int, ...] = (4, 4, 2, 2)
    whiten: float = 0.3
    mirror: bool = True
    normed: bool = False
    scatter: float = 0.0
    norm: float = 1.0
    weights: str | None = None

    def __post_init__(self) -> None:
        for name in ("depths", "pools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        whole = all(type(v) is int and v >= 0 for v in (*self.depths, *self.pools))
        if not self.depths or not whole or sorted(set(self.depths)) != list(self.depths):
            raise WrongInput(f"prior: expected depths as rising whole numbers, got {self.depths!r}")
        if len(self.pools) != len(self.depths) or not all(1 <= pool <= 8 for pool in self.pools):
            raise WrongInput(
                f"prior: expected pools as one whole number from 1 to 8 for each of {len(self.depths)} depths, "
                f"got {self.pools!r}"
            )
        if not 0 <= self.whiten <= 0.5:
            raise WrongInput(f"prior: expected whiten from 0 to 0.5, got {self.whiten!r}")
        if not 0 <= self.scatter <= 100:
            raise WrongInput(f"prior: expected scatter from 0 to 100, got {self.scatter!r}")
        if not 0 < self.norm < float("inf"):
            raise WrongInput(f"prior: expected norm > 0, got {self.norm!r}")

    def __call__(self, x: Any, schema: Schema | None = None) -> Any:
        """Rows for images (rows, 1 or 3, height, width) in [0, 1]; a tensor stays a tensor on its device."""
        import torch

        if x.ndim != 4 or x.shape[1] not in (1, 3) or not all(x.shape[2:]):
            raise WrongInput(f"prior: expected images of shape (rows, 1 or 3, height, width), got {tuple(x.shape)}")
        given = isinstance(x, torch.Tensor)
        here = x.device if given else ("cuda" if torch.cuda.is_available() else "cpu")
        make = self.on(here)
        size = ROWS_AT_ONCE.get(torch.device(here).type, 128)
        out = torch.empty(len(x), self.width(), device=here if given else "cpu")
        for at in range(0, len(x), size):
            some = torch.as_tensor(x[at : at + size]).to(here, torch.float32)
            out[at : at + size] = make(some)
        return out if given else out.numpy()

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """The same for one batch of tensors at a time, with everything already on `device`."""
        import torch
        from torch.nn import functional

        from privaware.features._prior_maps import prepared

        own, beside = self.columns(device), self._beside(str(device))

        @torch.no_grad()
        def make(images: Tensor) -> Tensor:
            ready = prepared(images)
            rows = functional.normalize(own(ready), dim=1)
            if beside:
                both = [rows, self.scatter * functional.normalize(beside(ready), dim=1)]
                rows = functional.normalize(torch.cat(both, 1), dim=1)
            return self.norm * rows

        return make

    def columns(self, device: Any) -> Callable[[Tensor], Tensor]:
        """What the network says of a batch of prepared images, before any length is set."""
        import torch

        from privaware.features._prior_maps import pooled

        self.width()  # refuses depths that are not there
        network = _stored(self._file, str(device)).network
        whitening = self._whitening(str(device))

        def make(ready: Tensor) -> Tensor:
            small = pooled(network, ready, self.depths, self.pools, mirror=self.mirror, normed=self.normed)
            return whitening(small) if whitening else torch.cat([m.flatten(1) for m in small], 1)

        return make

    def _beside(self, device: str) -> Callable[[Tensor], Tensor] | None:
        """Whitened scattering of prepared images, where it is wanted."""
        if not self.scatter:
            return None
        from privaware.features._prior_scattering import scatter

        run = scatter(device)
        whitening = _scattering(self._file, self.whiten, device)

        def make(images: Tensor) -> Tensor:
            images = (images + 1) / 2
            made = run(images)
            return whitening((made + run(images.flip(3))) / 2 if self.mirror else made)

        return make

    def width(self, schema: Schema | None = None) -> int:
        """How many entries a row has."""
        from privaware.features._prior_maps import channels_at
        from privaware.features._prior_scattering import COLUMNS

        depth, width = (16, 4) if self.weights is None else _stored(self._file, "cpu").shape
        channels = channels_at(depth, width)
        if self.depths[-1] >= len(channels):
            raise WrongInput(f"prior: expected depths from 0 to {len(channels) - 1}, got {self.depths!r}")
        own = sum(channels[at] * p**2 for at, p in zip(self.depths, self.pools, strict=True))
        return own + (COLUMNS if self.scatter else 0)

    @property
    def _file(self) -> str:
        return str(SHIPPED) if self.weights is None else self.weights

    def _whitening(self, device: str) -> Whitening | None:
        if not self.whiten:
            return None
        if self.normed != _stored(self._file, "cpu").normed:
            raise WrongInput(
                f"prior: the stored statistics are of maps with normed={not self.normed}; set it so, or whiten to 0"
            )
        return _whitening(self._file, self.depths, self.pools, self.whiten, device)


@lru_cache(maxsize=4)
def _stored(file: str, device: str) -> Stored:
    from privaware.features._prior_weights import load

    return load(file, device)


@lru_cache(maxsize=4)
def _whitening(file: str, depths: tuple[int, ...], pools: tuple[int, ...], power: float, device: str) -> Whitening:
    """Kept, because a model asks for it with every few thousand rows."""
    return _stored(file, "cpu").statistics.whitening(depths, pools, power).to(device)


@lru_cache(maxsize=4)
def _scattering(file: str, power: float, device: str) -> Callable[[Tensor], Tensor]:
    return _stored(file, "cpu").scattered.whitening(power, device)
