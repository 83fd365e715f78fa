"""Noise for releases, samples of rows and initial values.

An `Rng` holds three separate streams (sampling, noise, initialisation), each keyed with 256 bits of
the operating system's entropy. Single numbers and choices are drawn by OpenDP, whose floating-point
arithmetic is exact. Laplace noise for arrays is exact too (`_laplace`). Gaussian noise for arrays and tensors
comes from fast generators in float64, whatever it is added to. All sums are released on a lattice, so that
low-order bits carry nothing about the rows. (In float32 normal numbers are sparser than the lattice beyond
6.1 deviations, which a model of 2.7 million parameters draws once in 350 steps, and there a release shows
which sums it cannot come from. In float64 this begins at 11 deviations on the CPU and 8 on a device, where
tails end at 13 and 9.4: less than 1e-15 of the draws.)

A noisy release is one call that is given the exact value and its sensitivity, so neither
can be forgotten, and `privaware.testing.replay` can record every call and repeat it on neighbouring rows.

>>> rng = Rng(seed=7)
>>> float(rng.laplace(10.0, noise=0.001, sensitivity=1.0)) == 10.0
False
>>> rng.certified
False
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from privaware.errors import WrongInput
from privaware.noise._blocks import add_noise
from privaware.noise._laplace import add_laplace
from privaware.noise._opendp import noisy_max, noisy_number
from privaware.noise._positions import ExampleNumbers, PositionDraws
from privaware.noise._response import randomised_response, small_uniforms
from privaware.noise._streams import Streams

__all__ = ["LATTICE", "SMEAR", "Perturbed", "Rng", "lattice"]

LATTICE = 2.0**-12
"""Spacing of released values over their noise scale (rounded down to a power of two)."""


SMEAR = 1000.0
"""Final noise over that of the vector: it hides that minimisers are exact to a tolerance only."""


class Perturbed(Protocol):
    """What `Rng.perturb` asks of a set of problems, one row of every array for each.

    `solve` maps random vectors to what is released, one to one, with an error of length at most
    `slack` (because it stops at a gradient of length `tolerance`); `implied` goes back: the vectors
    that lead to these values, and the log of the volume that the way back stretches there.
    """

    @property
    def masks(self) -> np.ndarray: ...

    @property
    def tolerance(self) -> np.ndarray: ...

    @property
    def slack(self) -> np.ndarray: ...

    def solve(self, vectors: np.ndarray) -> np.ndarray: ...

    def implied(self, released: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Rng:
    """Randomness for one run. Without a seed it is fit for release; with one it is reproducible and marked as not.

    Without a seed, no copy and no forked or other process that is given the generator draws the same numbers as it.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
            raise WrongInput(f"expected seed as a whole number >= 0, or none at all, got {seed!r}")
        self.seed = None if seed is None else int(seed)
        self._streams = Streams(self.seed)

    @property
    def certified(self) -> bool:
        """Whether what this generator noised may be released."""
        return self.seed is None

    @property
    def initial(self) -> np.random.Generator:
        """Without privacy noise: initial weights, candidate settings, augmentation."""
        return self._streams.cpu["initial"]

    # What protects rows. Each takes the exact value, never returns it, and is overridden by the recorder of `testing`.

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        """`exact` (a number, array or tensor) plus Gaussian noise of deviation noise * sensitivity (L2)."""
        if isinstance(exact, float):
            return self._scalar("gaussian", exact, noise * sensitivity)
        if isinstance(exact, np.ndarray):
            return self._on_lattice(
                exact, np.asarray(self._streams.cpu["noise"].standard_normal(exact.shape)), noise * sensitivity
            )
        return self._gaussian_tensor(exact, noise * sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        """`exact` (a number or array) plus Laplace noise of scale noise * sensitivity (L1)."""
        if isinstance(exact, float):
            return self._scalar("laplace", exact, noise * sensitivity)
        scale = np.asarray(noise * sensitivity, dtype=float)
        noisy = add_laplace(exact, scale, np.asarray(lattice(scale)), self._streams.cpu["noise"])
        return noisy.astype(exact.dtype if exact.dtype.kind == "f" else float)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        """The index of a large score: the largest after exponential noise.

        It is epsilon-DP for scores that each move by at most `sensitivity`.
        """
        scale = 2 * sensitivity / epsilon
        if self.seed is not None:
            return int(np.argmax(exact + self._streams.cpu["noise"].exponential(scale, len(exact))))
        return int(noisy_max(scale)(np.ascontiguousarray(exact, dtype=float)))

    def respond(
        self, exact: np.ndarray, *, epsilon: float, classes: int, candidates: np.ndarray | None = None
    ) -> np.ndarray:
        """Each class code kept with probability e^epsilon / (e^epsilon + classes - 1), else another.

        With `candidates` (rows, classes), public for each row, responses are among a row's k candidates: its code is
        kept with probability e^epsilon / (e^epsilon + k - 1) if it is one of them, else all k are as likely.
        """
        stream = self._streams.cpu["noise"]
        if candidates is not None:
            return randomised_response(exact, candidates, epsilon, stream)
        odds = (classes - 1) * math.exp(-epsilon)
        other = (exact + stream.integers(1, classes, size=exact.shape)) % classes
        return np.where(small_uniforms(exact.shape, stream) < odds / (1 + odds), other, exact)

    def perturb(
        self,
        problem: Perturbed,
        *,
        distribution: str,
        noise: np.ndarray,
        sensitivity: np.ndarray,
        volume: np.ndarray,
        price: tuple[Any, ...],
    ) -> np.ndarray:
        """What `problem` makes of random vectors of scale noise * sensitivity, one for each problem.

        The distribution is "gaussian", or "gamma": density proportional to exp(-length / scale). One row moves
        the vector implied by any release by at most `sensitivity` and its log volume by at most
        `volume`; `price` names the event of each problem, which the caller proves. What `solve` leaves
        inexact is hidden by the same distribution at a thousandth of its cost (approximate minima).
        """
        vectors = (noise * sensitivity)[:, None] * self._vectors(distribution, problem.masks)
        exact = problem.solve(vectors)
        smear = (2 * SMEAR * noise * problem.slack)[:, None]
        return self._on_lattice(exact, self._vectors(distribution, problem.masks), smear)

    def iterate(
        self,
        initial: np.ndarray,
        maps: Sequence[Callable[[np.ndarray], np.ndarray]],
        *,
        noise: float,
        sensitivity: float,
        tail: int = 0,
    ) -> np.ndarray:
        """The last of a chain: each of `maps` in turn, plus Gaussian noise of deviation noise * sensitivity.

        No map may move two points apart, and one row may change one map, by at most `sensitivity`
        anywhere. `tail` more draws of noise follow. Only the end is seen.
        """
        at, scale = initial, noise * sensitivity
        for move in maps:
            at = move(at) + scale * self._streams.cpu["noise"].standard_normal(initial.shape)
        draw = math.sqrt(tail) * self._streams.cpu["noise"].standard_normal(initial.shape)
        return self._on_lattice(at, draw, scale)

    def runs(self, *, eta: float, gamma: float) -> int:
        """A secret number of runs, at least one: truncated negative binomial, or logarithmic at eta 0.

        >>> runs = [Rng(seed=seed).runs(eta=1.0, gamma=0.1) for seed in range(2000)]
        >>> min(runs), bool(abs(np.mean(runs) - 10) < 1)
        (1, True)
        """
        if eta < 0 or not 0 < gamma < 1:
            raise WrongInput(f"expected eta >= 0 and gamma in (0, 1), got {eta!r} and {gamma!r}")
        stream = self._streams.cpu["noise"]
        while True:
            runs = stream.negative_binomial(eta, gamma) if eta else stream.logseries(1 - gamma)
            if runs:
                return int(runs)

    def spawn(self) -> Rng:
        """A separate generator for a part of the work, possibly in another process."""
        return Rng(None if self.seed is None else int(self.initial.integers(2**63)))

    # What decides which rows take part.

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        """A mask over `rows`: each is in with probability `rate`, independently. At rate 1 every row is in."""
        return self.by_position().sample(0, rows, rate)

    def poisson_indices(self, rows: int, rate: float, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Several samples distributed as `poisson`'s at once: (samples, width) row positions, and which of them count.

        Independent geometric gaps lie between the rows of such a sample, so a draw is spent on a row that is in and
        none on the many that are not.
        """
        mean, scale = rate * rows, -1 / math.log1p(-rate)
        width = int(mean + 5 * math.sqrt(mean)) + 16
        last = np.full((samples, 1), -1.0)
        parts: list[np.ndarray] = []
        while not parts or (last < rows).any():
            gaps = self._streams.cpu["sampling"].standard_exponential((samples, width))
            gaps *= scale
            np.floor(gaps, out=gaps)
            gaps += 1.0
            gaps[:, :1] += last
            parts.append(np.cumsum(gaps, 1, out=gaps))
            last = gaps[:, -1:]
        positions = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        inside = positions < rows
        most = int(inside.any(0).sum())
        return np.where(inside, positions, 0)[:, :most].astype(np.int64), inside[:, :most]

    def shuffle(self, rows: np.ndarray) -> None:
        """Puts row positions into uniformly random order, in place."""
        self._streams.cpu["sampling"].shuffle(rows)

    def shuffle_each(self, samples: np.ndarray, inside: np.ndarray) -> None:
        """Puts the row positions that count of each of several samples into uniformly random order, in place.

        Those that count stand first. They keep the order that a random order of all of them has.
        """
        if len(samples) == 1:
            self.shuffle(samples[0, : int(inside.sum())])
        else:
            marked = np.where(inside, samples, -1)
            self._streams.cpu["sampling"].permuted(marked, axis=1, out=marked)
            samples[inside] = marked[marked >= 0]

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """The part of each row, by an independent draw for each: no row's part depends on another row."""
        return self.by_position().shards(0, rows, shares)

    def by_position(self) -> PositionDraws:
        """Draws for the rows of one sample or split, wherever they are, under a key of their own."""
        first, second = self._streams.cpu["sampling"].integers(2**64, size=2, dtype=np.uint64)
        return PositionDraws(key=(int(first), int(second)))

    def by_example(self, rows: int) -> ExampleNumbers:
        """A key for what a training draws for each example (dropout masks, augmentation), and the examples' numbers.

        The number of an example is its position. The recorder of `testing` keeps it where a neighbour has a row less.
        """
        return ExampleNumbers(key=self.by_position().key, numbers=np.arange(rows))

    def uniforms(self, shape: tuple[int, ...], device: Any) -> Any:
        """A float64 tensor of the sampling stream on a device: uniform in [0, 1), new at each replay of a graph."""
        return self._streams.on("sampling", device).uniform(shape)

    def counters(self, device: Any) -> list[Any]:
        """The tensors that drawing on a device changes: a capture of a graph restores them after its trial steps."""
        return [self._streams.on(stream, device).counter for stream in ("sampling", "noise")]

    def torch(self, stream: str, device: str = "cpu") -> Any:
        """A torch generator for one of the streams on a device: for what protects no row, as CUDA's has 64 bits."""
        return self._streams.torch(stream, str(device))

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to go on bit for bit. Secret: for checkpoints, never for a release."""
        return self._streams.state()

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Rng:
        """The generator that `state` described."""
        rng = cls(state["seed"])
        rng._streams = Streams.restore(state)
        return rng

    def _vectors(self, distribution: str, masks: np.ndarray) -> np.ndarray:
        """Standard vectors on the columns of each mask."""
        stream = self._streams.cpu["noise"]
        draw = np.where(masks, stream.standard_normal(masks.shape), 0.0)
        if distribution == "gaussian":
            return draw
        length = np.maximum(np.linalg.norm(draw, axis=1), 1e-300)
        return draw * (stream.gamma(np.maximum(masks.sum(axis=1), 1)) / length)[:, None]

    def _scalar(self, kind: str, exact: float, scale: float) -> float:
        if self.seed is not None:
            stream = self._streams.cpu["noise"]
            draw = stream.laplace() if kind == "laplace" else stream.standard_normal()
            return exact + scale * float(draw)
        return float(noisy_number(kind, scale)(exact))

    def _on_lattice(self, exact: np.ndarray, draw: np.ndarray, scale: Any) -> np.ndarray:
        step = lattice(scale)
        return (np.round((exact + scale * draw) / step) * step).astype(
            exact.dtype if exact.dtype.kind == "f" else float
        )

    def _gaussian_tensor(self, exact: Any, scale: Any) -> Any:
        import torch

        if exact.device.type == "cpu":
            normal, scales = self._streams.cpu["noise"], _row_scales(scale, exact)
            if scales is not None and exact.is_contiguous() and exact.dtype in (torch.float32, torch.float64):
                rows = exact.numpy().reshape(len(scales), -1)
                return torch.from_numpy(add_noise(rows, scales, lattice(scales), normal)).view(exact.shape)
            draw = torch.from_numpy(np.asarray(normal.standard_normal(tuple(exact.shape))))
        else:
            stream = self._streams.on("noise", exact.device)
            if stream.fits(exact, scale):
                return stream.noisy(exact, scale, LATTICE)
            draw = stream.normal(tuple(exact.shape))
        step = lattice(scale)
        draw.mul_(scale / step)
        draw = draw.add_(exact / step) if isinstance(step, torch.Tensor) else draw.add_(exact, alpha=1 / step)
        return draw.round_().to(exact.dtype).mul_(step)


def _row_scales(scale: Any, exact: Any) -> np.ndarray | None:
    """One scale a row as (rows, 1), or one for all numbers as (1, 1); None where scales are otherwise."""
    shape = getattr(scale, "shape", ())
    if shape != () and (exact.ndim != 2 or shape != (len(exact), 1)):
        return None
    return np.asarray(scale, dtype=np.float64).reshape(-1, 1)


def lattice(scale: Any) -> Any:
    """The power of two at or below `LATTICE` times the noise scale: the spacing of what is released.

    >>> float(lattice(1.0)) == 2.0**-12
    True
    """
    if hasattr(scale, "log2"):
        return (scale * LATTICE).log2().floor().exp2()
    return np.exp2(np.floor(np.log2(np.maximum(np.asarray(scale, dtype=float) * LATTICE, 1e-300))))[()]
