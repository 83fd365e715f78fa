"""Whitening of pooled feature maps by the covariance of synthetic images, in a compact form.

A map pooled to 4 x 4 is written as coefficients of the sixteen Walsh functions of the square (mean, left minus right,
and so on), a map pooled to 2 x 2 as coefficients of the first four. Coefficients of different functions are nearly
uncorrelated. For each function, the channels of all depths are whitened together. A covariance of 5,120 columns thus
becomes four blocks of 704 columns and twelve of 192, with about a tenth of the entries. The square
root of each block is stored, rounded to eight bits: an error of the root hardly moves the small eigenvalues of a block.
An equal error of the block itself would.

Whitening multiplies by (covariance + ridge)^(-power). The ridge is a fraction of the mean eigenvalue over all blocks. A
power of 0.5 would give all directions equal variance; a smaller power keeps part of their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privaware.errors import WrongInput
from privaware.features._rounded_tensors import restored_symmetric, symmetric

RIDGE = 0.01
"""Ridge as a fraction of the mean eigenvalue over all blocks."""
SIGNS = ((1, 1, 1, 1), (1, 1, -1, -1), (1, -1, -1, 1), (1, -1, 1, -1))
"""Walsh functions of four points; the first two, at every second point, are the Walsh functions of two points."""


def walsh(pool: int) -> Tensor:
    """Return the orthonormal Walsh functions of a pool x pool square, one in each row; `pool` is 1, 2 or 4.

    The functions of a smaller square correspond to the first functions of a larger one. Another `pool` raises
    `WrongInput`.

    >>> walsh(2)[1]
    tensor([ 0.5000, -0.5000,  0.5000, -0.5000])
    """
    if pool not in (1, 2, 4):
        raise WrongInput(f"expected maps pooled to 1, 2 or 4 for whitening, got {pool!r}")
    line = torch.tensor(SIGNS, dtype=torch.float64)[:pool, :: 4 // pool]
    order = sorted(((a, b) for a in range(pool) for b in range(pool)), key=lambda ab: (max(ab) > 1, ab))
    functions = torch.stack([torch.outer(line[a], line[b]).flatten() for a, b in order])
    return (functions / pool).to(torch.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """Means, scales and covariances of Walsh coefficients over synthetic images.

    The map of the residual block `depths[i]` is pooled to a square of side `pools[i]`. `means[i]` (channels, modes) and
    `scales[i]` (channels,) are of its coefficients; a mode is the number of a Walsh function. `covariances[mode]`
    covers the channels of all depths that have this mode; each coefficient is divided by the scale of its channel.
    """

    depths: tuple[int, ...]
    pools: tuple[int, ...]
    means: tuple[Tensor, ...]
    scales: tuple[Tensor, ...]
    covariances: tuple[Tensor, ...]

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Statistics:
        """Return the statistics from the `tensors` and the `metadata` of a weights file.

        Raise `KeyError` if one of them is missing.
        """
        depths, pools = (tuple(json.loads(metadata[name])) for name in ("depths", "pools"))
        means = tuple(tensors[f"mean.{depth}"].float() for depth in depths)
        blocks = []
        for mode in range(max(pools) ** 2):
            size = sum(len(m) for m, p in zip(means, pools, strict=True) if p * p > mode)
            blocks.append(_stored_block(tensors, mode, size))
        scales = tuple(tensors[f"scale.{depth}"].float() for depth in depths)
        return cls(depths=depths, pools=pools, means=means, scales=scales, covariances=tuple(blocks))

    def whitening(self, depths: Sequence[int], pools: Sequence[int], power: float) -> Whitening:
        """Return the whitening by `power` of maps at `depths`, each averaged to its entry of `pools`.

        `depths` are some of `self.depths`, and a map is pooled as in the statistics or to a coarser grid; otherwise
        raise `WrongInput`.
        """
        chosen = [self._index(depth, pool) for depth, pool in zip(depths, pools, strict=True)]
        means, scales, blocks = [], [], []
        for at, pool in zip(chosen, pools, strict=True):
            # Pooling from 4 to 2 (or 2 to 1) halves the remaining coefficients, and so their means and scales.
            means.append(self.means[at][:, : pool * pool] * (pool / self.pools[at]))
            scales.append(self.scales[at] * (pool / self.pools[at]))
        for mode in range(max(pools) ** 2):
            remaining = [at for at, pool in zip(chosen, pools, strict=True) if pool * pool > mode]
            columns = torch.cat([self._columns(at, mode) for at in remaining])
            blocks.append(self.covariances[mode][columns][:, columns])
        return Whitening(means=means, scales=scales, matrices=powers(blocks, power))

    def _index(self, depth: int, pool: int) -> int:
        at = self.depths.index(depth) if depth in self.depths else -1
        if at < 0 or pool > self.pools[at]:
            known = ", ".join(f"{d} to {p}" for d, p in zip(self.depths, self.pools, strict=True))
            raise WrongInput(
                f"expected depths with stored statistics (pooled at most: {known}), got depth {depth} pooled to "
                f"{pool}; choose among them or set whiten to 0"
            )
        return at

    def _columns(self, at: int, mode: int) -> Tensor:
        """Return the positions of the channels of `depths[at]` in `covariances[mode]`."""
        sizes = [len(m) if p * p > mode else 0 for m, p in zip(self.means, self.pools, strict=True)]
        return sum(sizes[:at]) + torch.arange(sizes[at])


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitening:
    """A function from pooled maps, one tensor (rows, channels, side, side) for each depth, to whitened rows.

    Each map is written as Walsh coefficients, which are centred by `means` (channels, modes) and divided by `scales`
    (channels,), one tensor for each depth. A mode is the number of a Walsh function. For each mode, the coefficients of
    all channels of all depths are multiplied by its matrix in `matrices`; the results stand side by side, mode after
    mode.
    """

    means: list[Tensor]
    scales: list[Tensor]
    matrices: list[Tensor]

    def to(self, device: Any) -> Whitening:
        """Return the same whitening on another device."""
        parts = (self.means, self.scales, self.matrices)
        means, scales, matrices = ([tensor.to(device) for tensor in part] for part in parts)
        return Whitening(means=means, scales=scales, matrices=matrices)

    def tensors(self, pools: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors, by name, with which a network applies the same whitening to maps averaged to `pools`.

        For each depth they are the transposed Walsh functions, the mean and the scale; for each mode, the matrix.
        """
        named = {f"basis{at}": walsh(pool).T.contiguous() for at, pool in enumerate(pools)}
        for at, (mean, scale) in enumerate(zip(self.means, self.scales, strict=True)):
            named |= {f"mean{at}": mean.clone(), f"scale{at}": scale.clone()}
        return named | {f"matrix{mode}": matrix.clone() for mode, matrix in enumerate(self.matrices)}

    def __call__(self, maps: Sequence[Tensor]) -> Tensor:
        coefficients = [
            (walsh_coefficients(m) - mean) / scale[:, None]
            for m, mean, scale in zip(maps, self.means, self.scales, strict=True)
        ]
        return torch.cat([m @ w for m, w in zip(by_mode(coefficients), self.matrices, strict=True)], 1)


def _stored_block(tensors: Mapping[str, Tensor], mode: int, size: int) -> Tensor:
    """Return the covariance (size, size) of a mode, which is the square of its stored root.

    `tensors` are the tensors of a file by name. Files of earlier versions store the upper triangle of the covariance
    instead.
    """
    if f"covariance.{mode}" not in tensors:
        root = restored_symmetric(f"root.{mode}", tensors).double()
        return (root @ root).float()
    return symmetric(tensors[f"covariance.{mode}"], size)


def walsh_coefficients(maps: Tensor) -> Tensor:
    """Return pooled maps (rows, channels, p, p) as orthonormal Walsh coefficients (rows, channels, p * p).

    `p` is 1, 2 or 4.
    """
    return maps.flatten(2) @ walsh(maps.shape[-1]).T.to(maps.device, maps.dtype)


def by_mode(coefficients: Sequence[Tensor]) -> list[Tensor]:
    """Return one tensor for each mode (Walsh function): its coefficients for the channels of all depths, side by side.

    `coefficients` has a tensor (rows, channels, modes) for each depth; depths with fewer modes are left out of the
    later ones. Each result is (rows, channels of these depths).
    """
    most = max(c.shape[2] for c in coefficients)
    return [torch.cat([c[:, :, m] for c in coefficients if c.shape[2] > m], 1) for m in range(most)]


def powers(blocks: list[Tensor], power: float, share: float = RIDGE) -> list[Tensor]:
    """Return (block + ridge)^(-power) for each block; the ridge is `share` times the mean eigenvalue of all blocks."""
    total = sum(float(block.diagonal().sum()) for block in blocks)
    ridge = share * total / sum(len(block) for block in blocks)
    matrices = []
    for block in blocks:
        values, vectors = torch.linalg.eigh(block.double())
        scale = (values.clamp(min=0) + ridge).pow(-power)
        matrices.append(((vectors * scale) @ vectors.T).float())
    return matrices
