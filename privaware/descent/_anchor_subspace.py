"""Gradient embedding perturbation: release gradients as coordinates in a public subspace and residuals outside it.

The parameters are cut into blocks. The gradients of public examples with random labels span a subspace of each block;
`power` power iterations give its orthonormal basis V. A per-example gradient g has the coordinates e = V^T g over all
blocks. The coordinates are clipped to the clip's `norm`. The residual g - V e, with the unclipped e, is clipped to
`residual * norm`. Both sums get noise, and the gradient is rebuilt from the two noisy sums. With `residual=None` only
the coordinates are released.

Privacy:

1. Both sums are computed on the same sample, so they are one release.
2. Residuals are divided by `residual` before they are summed. So each of an example's two parts is at most `norm` long.
3. The two parts together are at most `sqrt(2) * norm` long, which is the sensitivity.
4. Accounting for two releases on two independent samples would understate the cost.

Sensitivity in the arithmetic that is really done: residuals are never formed. With the clipping weight w of an
example's residual, the weighted gradients w g are summed, and so are the weighted coordinates w e. Once a step, in
float64, V times the sum of w e is subtracted from the sum of w g.

1. The residual's norm follows from |g|^2 - |e|^2 by Pythagoras. For any matrix V and e = V^T g, the squared norm of
   g - V e is |g|^2 - |e|^2 + e^T (V^T V - I) e. The Frobenius norm of V^T V - I is measured, and at most `ORTHONORMAL`
   (2^-26), or V comes from Householder QR. e is computed in float64. So the difference |g|^2 - |e|^2 is wrong by less
   than 2^-20 |g|^2. But |g| is a measured norm. The gradient that is projected to e and the gradient that is summed may
   each differ from g by `POSITION_ROUNDING * |g|` (see `_rounding.py`), so they differ from each other by up to
   2^-8 |g|, and |g|^2 is wrong by little more than 2^-8 |g|^2. `SQUARE_SLACK` (a fraction of |g|^2) and `LENGTH_SLACK`
   (a fraction of |g|) are twice as large as these errors.
2. The summed vector w g may be longer than the clipped residual, by at most the factor `CANCELLING`, because a residual
   counts as at least `|g| / CANCELLING`. Both sums round by up to this factor more. So groups of examples are smaller
   (`Arithmetic.cancelling`), and the tolerance for the difference between two places in a microbatch is divided by the
   same factor.
3. One lattice serves all columns together, and V lengthens no rounding error. So the two sums together are wrong by at
   most sqrt(2) times the lattice error of one sum. `Arithmetic.rounding` allows for the rounding of norms, which point
   1 covers already; this surplus allowance is larger than the additional lattice error.

Memory: the basis takes 8 bytes for each parameter and direction of its block, and twice as much while it is computed,
besides some copies of one block. Per-example gradients are materialised in slices only; the coordinates of all
examples are kept.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from privaware._validate import expect_between, expect_count
from privaware.descent._accumulate import Batch, Gradients, add_sums, example_gradients, squared_norms, zero_others
from privaware.descent._cholesky import inverse_factor
from privaware.descent._clip import Clip
from privaware.descent._example_draws import ExampleDraws
from privaware.descent._example_slices import example_slices
from privaware.descent._stack import Segment, Stack
from privaware.noise import Rng

CANCELLING = 8.0
"""Largest ratio of the norm of the vector summed for an example to the norm of its clipped residual."""

SQUARE_SLACK = 2.0**-7
"""Fraction of the gradient's squared norm that is added to the squared norm of its residual."""

LENGTH_SLACK = 2.0**-7
"""Fraction of the gradient's norm that is added to the norm of its residual."""

ORTHONORMAL = 2.0**-26
"""Largest Frobenius norm of V^T V - I at which the columns of V count as orthonormal.

The squared norm of a residual may be wrong by 2^-20 |g|^2, see point 1 above; this part of the error is 64 times less.
"""

CHOLESKY_STEPS = 4
"""Largest number of steps of Cholesky QR for a basis; if the columns are not orthonormal then, Householder QR is used.

Bases that are computed in float32 take two or three steps.
"""

FLOATS_AT_ONCE = {"cpu": 2**24, "cuda": 2**28}
"""Largest number of floats of public per-example gradients to materialise at once, by device type."""


@dataclass(frozen=True, kw_only=True)
class anchored:
    """Release gradients as coordinates in a subspace that gradients of public examples span, and as residuals.

    Paper: Yu, Zhang, Chen, Liu 2021, Do Not Let Privacy Overbill Utility: Gradient Embedding Perturbation for Private
    Learning.

    Parameters
    ----------
    inputs : callable
        Returns the inputs of the public examples; it is called without arguments, once for each stack.
    classes : int
        Number of classes of the random labels that public examples get; 0 for random targets in [-1, 1].
    directions : int
        Approximate number of basis vectors of all blocks together. The number for one block is proportional to the
        square root of the block's size: at least 1, and at most the block's size and the number of public examples.
    blocks : int
        Largest number of blocks into which the parameters are cut; each block has its own subspace.
    residual : float or None
        The clipping norm of residuals is `residual * norm`; `residual` is from 0.001 to 1000. None drops the residuals,
        which biases gradients.
    power : int
        Number of power iterations for a basis.
    refresh : int
        Number of steps for which a subspace is kept.
    """

    clips: ClassVar[tuple[str, ...]] = ("flat",)
    precisions: ClassVar[tuple[str, ...]] = ("float32",)

    inputs: Callable[[], Any] = field(repr=False, compare=False)
    classes: int
    directions: int = 1000
    blocks: int = 3
    residual: float | None = 0.4
    power: int = 1
    refresh: int = 1

    def __post_init__(self) -> None:
        expect_count("anchored", directions=self.directions, blocks=self.blocks)
        expect_count("anchored", power=self.power, refresh=self.refresh)
        if self.residual is not None:
            expect_between("anchored", 1e-3, 1e3, residual=self.residual)

    def bind(self, stack: Stack, rng: Rng) -> AnchorSubspace:
        return AnchorSubspace(self, stack, rng)


@dataclass(frozen=True)
class _Block:
    """A block of consecutive parameters, which has a subspace of its own.

    `segments` are the places of its parameters in the flat parameter vector. The coordinates in its subspace are the
    entries `start` to `stop - 1` of the vector of all coordinates.
    """

    segments: tuple[Segment, ...]
    start: int
    stop: int

    @property
    def parameters(self) -> slice:
        return slice(self.segments[0].start, self.segments[-1].stop)

    @property
    def size(self) -> int:
        return self.segments[-1].stop - self.segments[0].start


class AnchorSubspace:
    """The projection `anchored` for one stack of models: the bases of each model, and the sums that are released.

    `rng` draws the random labels of the public examples, and the start of the power iterations.
    """

    def __init__(self, settings: anchored, stack: Stack, rng: Rng) -> None:
        self.settings, self.stack, self.rng = settings, stack, rng
        self.public = stack.inputs(settings.inputs())
        digests = [hashlib.sha256(item.cpu().numpy().tobytes()).hexdigest() for item in self.public]
        self.fingerprint = f"{settings!r} {digests}"
        generator = rng.torch("initial", str(stack.device))
        self.labels = _random_labels(settings.classes, len(self.public[0]), stack, generator)
        self.blocks = list(_blocks(stack.segments, settings, len(self.labels)))
        self.directions = self.blocks[-1].stop
        self.tensors = {
            f"basis.{at}": torch.zeros(
                stack.models, block.size, block.stop - block.start, dtype=torch.float64, device=stack.device
            )
            for at, block in enumerate(self.blocks)
        }
        both = settings.residual is not None
        self.parts, self.cancelling = (2, 2 * CANCELLING) if both else (1, 1.0)
        self.columns = self.directions + both * (self.directions + stack.theta.shape[1])

    @property
    def bases(self) -> Iterator[tuple[_Block, Tensor]]:
        """Pairs of a block and its basis, a tensor (models, parameters, directions)."""
        return zip(self.blocks, self.tensors.values(), strict=True)

    def refresh(self, loss: Any, step: int) -> None:
        """Compute new bases from public gradients if `settings.refresh` divides `step`; otherwise keep them.

        Public gradients are the gradients of `loss` on the public examples at the current parameters.
        """
        if step % self.settings.refresh:
            return
        generator = self.rng.torch("initial", str(self.stack.device))
        for _, basis in self.bases:
            basis.normal_(generator=generator)
        for _ in range(self.settings.power):
            starts = [basis.to(self.stack.dtype) for _, basis in self.bases]
            products = [torch.zeros_like(start) for start in starts]
            for gradients in self._public_gradients(loss, step):
                for anchors, start, product in zip(gradients, starts, products, strict=True):
                    product.baddbmm_(anchors.mT, anchors @ start)
            for (_, basis), product in zip(self.bases, products, strict=True):
                basis.copy_(_orthonormal(product))

    def _public_gradients(self, loss: Any, step: int) -> Iterator[list[Tensor]]:
        """Yield per-example gradients of `loss` on the public examples, for one slice of the examples at a time.

        A slice is a list with a tensor (models, examples, parameters of the block) for each block. Every model gets the
        same examples. Dropout masks depend on `step`.
        """
        numbers = torch.arange(len(self.labels), device=self.stack.device)
        models, width = self.stack.theta.shape
        size = max(1, FLOATS_AT_ONCE[self.stack.device.type] // (models * width))
        for start in range(0, len(self.labels), size):
            some = slice(start, start + size)
            inputs = tuple(torch.cat([item[some]] * models) for item in self.public)
            labels = torch.cat([self.labels[some]] * models)
            batch = Batch(inputs, labels, len(labels), draws=self._draws(numbers[some], step))
            uses = example_gradients(self.stack, loss, batch)
            with torch.no_grad():
                yield [self._materialised(uses, block, len(labels) // models) for block in self.blocks]

    def _draws(self, numbers: Tensor, step: int) -> ExampleDraws | None:
        """Return the draws of dropout masks at `step` for the public examples `numbers`, which count from 0.

        Public examples have negative example numbers and private examples do not, so they never share a mask. The
        result is None if the training has no key, because it uses no dropout and no augmentation.
        """
        key, models = self.stack.key, self.stack.models
        return None if key is None else key.draws(torch.cat([-1 - numbers] * models), step, models)

    def _materialised(self, gradients: Gradients, block: _Block, examples: int) -> Tensor:
        """Return `gradients` of the parameters of `block`, as a tensor (models, examples, parameters)."""
        models = self.stack.models
        out = torch.zeros(models, examples, block.size, dtype=self.stack.dtype, device=self.stack.device)
        for segment in block.segments:
            for use in gradients.get(segment.name, ()):
                first, last = _rows_of(segment, use.part)
                part = out[:, :, first - block.parameters.start : last - block.parameters.start]
                part.copy_(use.materialise().reshape(part.shape))
        return out

    def accumulate(
        self, gradients: Gradients, batch: Batch, clip: Clip, norm: Any, total: Tensor, capturing: bool
    ) -> Tensor:
        """Add each example's clipped coordinates to `total`, and the sums from which residuals are computed.

        The last columns of `total` take the clipped coordinates. With residuals, two more sums come before them:
        gradients, and unclipped coordinates, both times the weight `w / residual`, where w is the clipping factor of
        the example's residual. Padding and examples that are not finite add nothing. Return (examples, 2): squared
        norms of the gradients, and of their coordinates before clipping. The arguments are as in `accumulate` of
        `_accumulate.py`.
        """
        squares = squared_norms(self.stack, gradients, batch.examples, by_layer=False)
        coordinates = self._coordinates(gradients, batch.examples)
        embedded = coordinates.square().sum(1, keepdim=True)
        finite = (torch.isfinite(squares) & torch.isfinite(embedded)).view(-1)
        if capturing or not bool(finite.all()):
            zero_others(gradients, finite)
            coordinates = torch.where(finite[:, None], coordinates, 0)
        keep = finite.to(squares.dtype)[:, None] if batch.valid is None else (finite * batch.valid)[:, None]
        coordinates = coordinates.to(squares.dtype)
        factors = clip.factors(embedded.to(squares.dtype), norm) * keep
        self._add_coordinates(factors, coordinates, total[:, -self.directions :])
        share = self.settings.residual
        if share is not None:
            lengths = _residual_lengths(squares.double(), embedded)
            weights = clip.factors(lengths.square().to(squares.dtype), norm * share) * (keep / share)
            add_sums(self.stack, self.stack.segments, gradients, weights, total)
            self._add_coordinates(weights, coordinates, total[:, -2 * self.directions : -self.directions])
        return torch.cat([squares, embedded.to(squares.dtype)], 1)

    def _coordinates(self, gradients: Gradients, examples: int) -> Tensor:
        """Return the coordinates of per-example gradients (products with the basis) as float64, (examples, directions).

        Gradients are materialised for some examples at a time.
        """
        models = self.stack.models
        out = torch.zeros(models, examples // models, self.directions, dtype=torch.float64, device=self.stack.device)
        for block, basis in self.bases:
            for segment in block.segments:
                for use in gradients.get(segment.name, ()):
                    first, last = _rows_of(segment, use.part)
                    rows = basis[:, first - block.parameters.start : last - block.parameters.start]
                    for model, part, values in example_slices(use, models, examples):
                        out[model, part, block.start : block.stop].addmm_(values.flatten(1).double(), rows[model])
        return out.flatten(0, 1)

    def _add_coordinates(self, factors: Tensor, coordinates: Tensor, out: Tensor) -> None:
        """Add the sum of `factors * coordinates` over each group of examples to the group's row of `out`, in place.

        `factors` are (examples, 1), `coordinates` (examples, directions), and `out` (groups, directions). A group is a
        run of `examples / groups` consecutive examples.
        """
        groups = len(out)
        weighted = torch.bmm(factors.view(groups, 1, -1), coordinates.view(groups, -1, self.directions))
        out.add_(weighted[:, 0])

    def released(self, exact: Tensor) -> Tensor:
        """Return the float64 sums that get noise: clipped residuals divided by `residual`, then clipped coordinates.

        The result is (models, columns). `exact` has the columns that `accumulate` fills. Without residuals
        (`settings.residual` is None) the result is the sum of clipped coordinates.
        """
        if self.settings.residual is None:
            return exact
        gradients, weighted, clipped = exact.split([self.stack.theta.shape[1], self.directions, self.directions], 1)
        return torch.cat([gradients - self._expanded(weighted), clipped], 1)

    def gradient(self, noisy: Tensor) -> Tensor:
        """Return the gradient sum (models, trainable parameters) that is rebuilt from the noisy sums.

        It is the basis times the noisy coordinates, plus `residual` times the noisy sum of residuals. Without residuals
        (`settings.residual` is None) the second term is left out.
        """
        along = self._expanded(noisy[:, -self.directions :])
        if self.settings.residual is None:
            return along
        return along + self.settings.residual * noisy[:, : -self.directions]

    def _expanded(self, coordinates: Tensor) -> Tensor:
        """Return the basis times `coordinates` (models, directions), as a float64 tensor (models, trainable)."""
        columns = coordinates.double()[:, :, None]
        return torch.cat(
            [torch.bmm(basis, columns[:, block.start : block.stop])[:, :, 0] for block, basis in self.bases], 1
        )


def _residual_lengths(squares: Tensor, embedded: Tensor) -> Tensor:
    """Return upper bounds on the norms of residuals, the parts of per-example gradients outside the subspace.

    `squares` are the squared norms of the gradients, and `embedded` the squared norms of their coordinates in the
    subspace. A bound is `sqrt(squares - embedded)`, raised to allow for rounding (`SQUARE_SLACK`, `LENGTH_SLACK`), and
    at least `sqrt(squares) / CANCELLING`.
    """
    sizes = squares.sqrt()
    lengths = (squares * (1 + SQUARE_SLACK) - embedded).clamp_min(0).sqrt() + LENGTH_SLACK * sizes
    return torch.maximum(lengths, sizes / CANCELLING)


def _orthonormal(vectors: Tensor) -> Tensor:
    """Return float64 orthonormal columns (models, parameters, directions) that span the columns of `vectors`.

    Entries of `vectors` that are not finite count as 0. If columns of a model depend on each other, further columns are
    added. The Frobenius norm of V^T V - I is at most `ORTHONORMAL` for each returned matrix V, unless Cholesky QR does
    not reach this; then the columns come from Householder QR.
    """
    vectors = vectors.double().nan_to_num(0.0, 0.0, 0.0)
    largest = vectors.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
    vectors = vectors / largest
    columns, unit = vectors, torch.eye(vectors.shape[2], dtype=vectors.dtype, device=vectors.device)
    for step in range(CHOLESKY_STEPS + 1):
        gram = columns.mT @ columns
        if bool((torch.linalg.matrix_norm(gram - unit) <= ORTHONORMAL).all()):
            return columns
        if step < CHOLESKY_STEPS:
            columns = columns @ inverse_factor(gram, vectors.shape[1])
    return torch.linalg.qr(vectors).Q


def _random_labels(classes: int, examples: int, stack: Stack, generator: torch.Generator) -> Tensor:
    if classes:
        return torch.randint(classes, (examples,), generator=generator, device=stack.device)
    uniform = torch.rand(examples, 1, generator=generator, device=stack.device, dtype=stack.dtype)
    return 2 * uniform - 1


def _rows_of(segment: Segment, part: slice | None) -> tuple[int, int]:
    """Return start and end (exclusive) of the columns of `segment`, or of the slice `part` of its first dimension."""
    if part is None:
        return segment.start, segment.stop
    each = (segment.stop - segment.start) // segment.shape[0]
    return segment.start + part.start * each, segment.start + part.stop * each


def _blocks(segments: Sequence[Segment], settings: anchored, rows: int) -> Iterator[_Block]:
    """Yield at most `settings.blocks` blocks with about equally many parameters, each of consecutive `segments`.

    `rows` is the number of public examples; a block has at most this many directions.
    """
    end = segments[-1].stop
    groups = [
        tuple(group)
        for _, group in itertools.groupby(
            segments, key=lambda segment: (segment.start + segment.stop) * settings.blocks // (2 * end + 1)
        )
    ]
    roots = [math.sqrt(group[-1].stop - group[0].start) for group in groups]
    start = 0
    for group, root in zip(groups, roots, strict=True):
        size = group[-1].stop - group[0].start
        count = max(1, min(int(settings.directions * root / sum(roots)), size, rows))
        yield _Block(group, start, start + count)
        start += count


def basis_numbers(shapes: Sequence[tuple[int, ...]], directions: int, blocks: int, rows: int) -> int:
    """Return how many floats the bases of the projection `anchored` hold for one network.

    `anchored` cuts the parameters of the network into blocks, and has a basis of several vectors for each block.

    Parameters
    ----------
    shapes : sequence of tuple of int
        Shapes of the network's parameters.
    directions : int
        The field of `anchored`: the approximate number of basis vectors of all blocks together.
    blocks : int
        The field of `anchored`: the largest number of blocks.
    rows : int
        Number of public examples; a block has at most this many basis vectors.

    Returns
    -------
    int
        The sum, over all blocks, of the number of parameters of the block times the number of its basis vectors.

    Examples
    --------
    >>> basis_numbers([(100, 10), (10,)], directions=4, blocks=1, rows=50)
    4040
    """
    ends = [0, *itertools.accumulate(math.prod(shape) for shape in shapes)]
    segments = [Segment(str(at), shape, ends[at], ends[at + 1]) for at, shape in enumerate(shapes)]
    settings = anchored(inputs=list, classes=0, directions=directions, blocks=blocks)
    return sum(block.size * (block.stop - block.start) for block in _blocks(segments, settings, rows))
