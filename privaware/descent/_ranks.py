"""Train one stack with several ranks; 1 to 8 ranks on devices of one type give the same model, bit for bit.

1. Every rank holds a part of the examples, by position. It holds the same parameters as all other ranks, and the
   streams for sampling and initial values. So every rank knows the whole sample of a step, which depends on the
   positions of examples only, and fetches the examples of its own microbatches (`_row_parts.py`).
2. The sample is put into microbatches of one shape, about `ranks.shares(size)` of them or more. Up to 8 ranks, neither
   the shape nor the order depends on the number of ranks. Rank r sums the microbatches r, r + size, r + 2 * size and so
   on. A microbatch holds whole groups, so the sum of a group has the same bits on every rank of the same type of
   device.
3. Group sums are rounded to multiples of a public power of two, and sums of such multiples are exact in any order
   (`_exact_sum.py`). So the total of all ranks is the total that one rank alone would compute.
4. Rank 0 gets the total, adds noise from its own stream and sends the noisy sums. All ranks take the same update.

Rounding: the proof in `_rounding.py` is about microbatches of one public shape in random order, whichever process sums
them. It holds without a change, because point 3 adds no error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from privaware.descent._checkpoint import share_generator
from privaware.descent._code_facts import tensor_digest
from privaware.descent._microbatches import microbatch_size
from privaware.descent._population import Member
from privaware.descent._precision import matmul_precision
from privaware.descent._recipe import DescentRecipe
from privaware.descent._row_parts import RowParts, bounds
from privaware.descent._training import Prepared, Training, prepare
from privaware.errors import PrivawareError
from privaware.noise import Rng
from privaware.ranks import Ranks, current


class Trainer(Protocol):
    """The part of `Descent` that every rank uses."""

    @property
    def precision(self) -> str: ...

    def train_together(self, job: TrainingJob, rng: Rng, ranks: Ranks | None, callbacks: Any = None) -> list[nn.Module]:
        """Train the members of `job`, together with `ranks` unless that is None, and return trained copies of them.

        `rng` draws samples and, on rank 0, noise. `callbacks` are `Callbacks` or None; only rank 0 has them.
        """
        ...


@dataclass(frozen=True)
class TrainingJob:
    """What a stack is trained on: its members, its examples, the declared number of rows and the device.

    If ranks train together, `inputs` and `targets` are the part of this rank, `bounds` says where parts begin, and
    `shapes` holds the shape and type of one example of each input and of the target. On rank 0 `whole` holds all
    examples; elsewhere it is None.
    """

    members: Sequence[Member]
    inputs: Any
    targets: Any
    rows: int
    device: str
    bounds: list[int] | None = None
    shapes: Sequence[Any] = ()
    whole: Sequence[Tensor] | None = None

    def run(self, trainer: Trainer, rng: Rng, callbacks: Any = None) -> list[nn.Module]:
        """Train the members, and return their trained modules.

        If this process leads ranks (other processes that `torchrun` started), all train together: each calls
        `trainer.train_together`, with `callbacks` on this rank only. This process trains alone if it leads no ranks, if
        a member has noise multiplier 0, or if `rng` is of a subclass of `Rng`.
        """
        with self.sent(_follow, trainer, rng) as (own, ranks):
            return trainer.train_together(own, rng, ranks, callbacks)

    @contextlib.contextmanager
    def sent(self, follow: Callable[..., None], what: Any, rng: Rng) -> Iterator[tuple[TrainingJob, Ranks | None]]:
        """Let all ranks take part in a job: yield the job of this rank with its part of the examples, and the ranks.

        Every other rank calls `follow(ranks, what, job, streams)` with its own job. `what` is passed on unchanged, and
        `streams` is the state of `rng` without the stream of noise. In three cases no other rank takes part, and this
        job with all examples and None are yielded: this process leads no ranks; a member has noise multiplier 0 (sums
        without noise are not rounded, so adding them is not exact); or `rng` is of a subclass of `Rng`, such as the
        recorder of an audit, whose samples other ranks could not draw.
        """
        ranks = current()
        if ranks is None or type(rng) is not Rng or not all(member.noise > 0 for member in self.members):
            yield self, None
            return
        whole = examples_of(self.inputs, self.targets)
        cuts = bounds(len(whole[0]), ranks.size)
        shapes = [(tuple(item.shape[1:]), item.dtype) for item in whole]
        job = replace(self, inputs=None, targets=None, bounds=cuts, shapes=shapes)
        with ranks.job(follow, what, job, rng.state_without_noise()):
            ranks.send_parts(whole, cuts)
            *inputs, targets = (item[: cuts[1]] for item in whole)
            yield replace(job, inputs=tuple(inputs), targets=targets, whole=whole), ranks

    def digest(self, prepared: Prepared) -> str:
        """Return a text that identifies all examples: type, shape and SHA-256 hash of each input and of the targets.

        Floating-point tensors are first converted to the type of `prepared.stack`. If `whole` is None, the examples are
        those of `prepared`.
        """
        kind = prepared.stack.dtype
        whole = (item.to(kind) if item.is_floating_point() else item for item in self.whole or ())
        items = (*prepared.inputs, prepared.targets) if self.whole is None else whole
        return repr([tensor_digest(item) for item in items])


def prepared_training(
    recipe: DescentRecipe, job: TrainingJob, rng: Rng, ranks: Ranks | None, mask: Tensor | None = None
) -> tuple[Training, Prepared]:
    """Return the training of the members of `job`, and the stack with the examples in the order of `job`.

    If `ranks` train together, each rank calls this function with its own part of the examples. Then all ranks get the
    same size of microbatches and the same coordinates of a projection, and if one rank raises a `PrivawareError`, every
    rank leaves (`agreed`). `recipe` has the settings. `mask` (models, trainable parameters) is 0 for parameters that a
    model does not train; None if each model trains all.
    """
    modules: list[Any] = [member.module for member in job.members]
    with agreed(ranks):
        prepared = prepare(modules, recipe.loss, job.inputs, job.targets, job.device)
    if ranks is not None:
        fitting = recipe.microbatch or microbatch_size(prepared.stack, prepared.inputs, recipe.copies)
        recipe = replace(recipe, microbatch=int(min(ranks.gathered(fitting))))
        if job.bounds is not None and ranks.size > 1:
            parts = RowParts(ranks, job.bounds, (*prepared.inputs, prepared.targets))
            prepared = replace(prepared, parts=parts)
        if recipe.projection is not None:
            share_generator(rng, prepared.stack.device, ranks)
    with agreed(ranks):
        training = Training(recipe, job.members, prepared, rows=job.rows, rng=rng, mask=mask, ranks=ranks)
    return training, prepared


@contextlib.contextmanager
def followed(ranks: Ranks, job: TrainingJob, precision: str) -> Iterator[TrainingJob]:
    """Receive this rank's part of the examples from rank 0, and yield `job` with this part, on the device of this rank.

    Inside the block torch's TF32 switches are set for `precision`. `Disagreed` ends the block without an error: all
    ranks left the training together, and rank 0 reports why.
    """
    assert job.bounds is not None
    count = job.bounds[ranks.rank + 1] - job.bounds[ranks.rank]
    *inputs, targets = ranks.receive_part([((count, *shape), kind) for shape, kind in job.shapes])
    device = ranks.device(job.device)
    at_home = torch.cuda.device(device) if torch.device(device).type == "cuda" else contextlib.nullcontext()
    with contextlib.suppress(Disagreed), at_home, matmul_precision(precision):
        yield replace(job, inputs=tuple(inputs), targets=targets, device=device)


def _follow(ranks: Ranks, trainer: Trainer, job: TrainingJob, streams: dict[str, Any]) -> None:
    """Take part in a training that rank 0 leads, and drop the result, because rank 0 has it too.

    Rank 0 sends all arguments but `ranks`; `streams` is the state of its `Rng` without the stream of noise.
    """
    with followed(ranks, job, trainer.precision) as own:
        trainer.train_together(own, Rng.restore(streams), ranks)


class Disagreed(Exception):
    """Raised on every rank except rank 0 if all ranks leave a training, because one of them raised an error."""


@contextlib.contextmanager
def agreed(ranks: Ranks | None) -> Iterator[None]:
    """Let every rank leave the training if one of them raises a `PrivawareError` inside the block.

    Rank 0 raises its own error, or `WrongInput` with the message of another rank's error. The other ranks raise
    `Disagreed`. Without `ranks` an error is raised as it is.
    """
    if ranks is None:
        yield
        return
    try:
        with ranks.agreed():
            yield
    except PrivawareError as problem:
        if ranks.leads:
            raise
        raise Disagreed from problem


def examples_of(inputs: Any, targets: Any) -> list[Tensor]:
    """Return all inputs and then the targets, as tensors."""
    several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    return [item if isinstance(item, Tensor) else torch.as_tensor(item) for item in (*several, targets)]
