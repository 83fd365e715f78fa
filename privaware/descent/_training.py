"""Prepare the training of one stack (models of one architecture that are trained together), and take its steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware._validate import expect_count
from privaware.descent._accumulate import Batch, Loss, accumulate
from privaware.descent._checkpoint import TrainingState
from privaware.descent._clip import quantile
from privaware.descent._exact_sum import ExactSum, expect_exact_total
from privaware.descent._example_draws import ExampleDraws, ExampleKey
from privaware.descent._layer_checks import check_layers
from privaware.descent._layers.rules import stacked
from privaware.descent._microbatches import (
    FIT_CHANCE,
    SUM_NUMBERS,
    WIDE_CHANCE,
    Microbatch,
    MicrobatchLayout,
    expected_slots,
    microbatch_size,
    microbatches,
    narrower_sizes,
)
from privaware.descent._population import Member, Population, StepSettings
from privaware.descent._precision import TF32_MARGIN
from privaware.descent._probe import has_other_code, needs_materialising
from privaware.descent._recipe import DescentRecipe
from privaware.descent._release import GaussianRelease
from privaware.descent._rounding import MAX_GROUP_SIZE, ROUNDING, SLOT_ROUNDING, Arithmetic
from privaware.descent._row_parts import RowParts
from privaware.descent._sampling import FullBatch
from privaware.descent._slot_checks import alike_in_all_slots, check_neighbours, equal_examples, slot_distance
from privaware.descent._stack import Stack
from privaware.descent._subsets import Subsets, settings_digest
from privaware.errors import Refused, WrongInput
from privaware.noise import Rng
from privaware.ranks import Ranks, shares

SMALLER_MICROBATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 32)
"""Numbers of parts into which a microbatch is cut, one after another, while gradients depend on the slot."""


@dataclass(frozen=True)
class Prepared:
    """A stack of models that is ready for per-example gradients, and the examples as tensors on the stack's device.

    If several ranks (processes) each hold a part of the examples, `parts` describes the division, and `inputs` and
    `targets` hold the part of this rank. Otherwise `parts` is None, and `inputs` and `targets` hold all examples.
    """

    stack: Stack
    inputs: tuple[Tensor, ...]
    targets: Tensor
    parts: RowParts | None = None


def prepare(modules: Sequence[nn.Module], loss: Loss, inputs: Any, targets: Any, device: Any) -> Prepared:
    """Stack `modules`, copy the examples to `device`, and probe whether the first module can be trained privately.

    If it cannot, raise `Refused`. The probe uses synthetic examples: per-example gradients by layer rules (formulas for
    known types of layers) are compared with autograd. If the rules fail, `torch.func.vmap` computes the per-example
    gradients of the returned stack instead. `loss(outputs, targets)` returns one value for each example. An attribute
    `loss.watch` names classes of modules whose inputs the stack records for the loss. Raise `WrongInput` if the modules
    differ in architecture, or unless there is one target for each example.
    """
    first, watch = modules[0], getattr(loss, "watch", ())
    check_layers(first)
    prepared = on_device(stacked(modules, device=device, watch=watch), inputs, targets)
    examples = (prepared.inputs, prepared.targets)
    if needs_materialising(first, loss, *examples, prepared.stack.device, len(modules)):
        return Prepared(stacked(modules, device=device, materialise=True, watch=watch), *examples)
    return prepared


def on_device(stack: Stack, inputs: Any, targets: Any) -> Prepared:
    """Return `stack` with the examples `inputs` and `targets` as tensors on its device.

    `inputs` is one array, or a tuple of arrays for a module with several inputs. Floating-point values get the type of
    the stack's parameters. Raise `WrongInput` unless there is one target for each example.
    """
    examples, labels = stack.inputs(inputs), stack.tensor(targets)
    if len(labels) != len(examples[0]):
        raise WrongInput(f"expected one target for each example, got {len(labels)} for {len(examples[0])} examples")
    return Prepared(stack, examples, labels)


class Training:
    """The training of one stack: its models, their examples, and the state that steps change."""

    def __init__(
        self,
        recipe: DescentRecipe,
        members: Sequence[Member],
        prepared: Prepared,
        *,
        rows: int,
        rng: Rng,
        mask: Tensor | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """Prepare the first step.

        `prepared` has the modules of `members` as one stack, and the examples. Sums are divided by `rows`, the declared
        number of rows, times `recipe.sampler.rate`. `mask` (models, parameters) is 0 for parameters that a model does
        not train. With `ranks`, each rank sums some microbatches. `lay_out` says when `Refused` is raised.
        """
        expect_count("", rows=rows)
        self.recipe, self.rng, self.ranks = recipe, rng, ranks
        self.modules: list[Any] = [member.module for member in members]
        self.stack, self.inputs, self.targets = prepared.stack, prepared.inputs, prepared.targets
        self.parts = prepared.parts
        self.order: np.ndarray | None = None
        self.subsets = Subsets.of([member.subset for member in members], self.examples)
        self.population = Population.of(members, recipe)
        theta = self.stack.theta
        if self.stack.has_dropout or recipe.augment is not None:
            self.stack.key = ExampleKey(rng.by_example(self.examples), self.stack.device)
        key = self.stack.key
        if recipe.projection is not None:
            self.stack.projection = recipe.projection.bind(self.stack, rng)
        projection = self.stack.projection
        self.mask = None if mask is None else mask.to(theta)
        if self.mask is not None:
            self.stack.exclude_untrained(self.mask)
            self.untrained = theta * (1 - self.mask)
        self.state = TrainingState(
            theta=theta,
            norms=torch.tensor(self.population.norm, dtype=theta.dtype, device=theta.device),
            rng=rng,
            fingerprint=settings_digest(recipe, self.population, self.stack, int(rows), self.mask, self.subsets),
            update=recipe.update.initial_state(theta),
            averages={} if recipe.average is None else recipe.average.initial_state(theta),
            projection={} if projection is None else projection.tensors,
            draws={} if key is None else {"key": key.key},
        )
        self.rows, self.divisor = int(rows), recipe.sampler.rate * int(rows)
        sensitivity = (1 + ROUNDING) * math.sqrt(1 if projection is None else projection.parts)
        self.release = GaussianRelease(recipe.clip, self.state.norms, self.divisor, sensitivity, rng, ranks)
        self.tracks_quantile = isinstance(recipe.clip, quantile)
        self.noisy = self.population.noise[0] > 0
        self.exact_sum = ExactSum(self.state.norms, self.stack.columns, counts=self.tracks_quantile, noisy=self.noisy)
        finite = all(bool(torch.isfinite(item).all()) for item in self.inputs)
        self.stack.finite_inputs = recipe.augment is None and (finite if ranks is None else all(ranks.gathered(finite)))
        self.microbatch = recipe.microbatch or microbatch_size(self.stack, self.inputs, recipe.copies)
        if projection is not None:
            projection.refresh(self.loss_at(0.0), 0)
        self.lay_out(expected_slots(recipe.sampler, self.rows, self.models))
        if isinstance(recipe.sampler, FullBatch):
            self._shuffle()

    def lay_out(self, slots: int) -> None:
        """Choose the shape of microbatches and allocate group sums, for samples of about `slots` examples of a model.

        A slot is the place of one example in a microbatch. A group is a set of slots whose gradients are added in one
        sum. The results are `self.layout`, and `self.group_sums` with one row for each model and group. With noise,
        microbatches are made smaller while an example's gradient depends on its slot. Raise `Refused` if it still does
        in the smallest ones tried, if it depends on another example in a module of other code than ours and torch's, or
        if rounding exceeds its bound. With ranks, raise it too if there are too many rows for exact sums.
        """
        arithmetic = Arithmetic(
            parameters=self.stack.columns,
            bits=self.stack.dtype.itemsize * 8,
            precision=self.recipe.precision,
            cancelling=self.stack.cancelling * self.projected_cancelling,
        )
        most = arithmetic.group_size() if self.noisy else MAX_GROUP_SIZE
        room = SUM_NUMBERS[self.stack.device.type] // (arithmetic.parameters * self.models)
        microbatch = min(self.microbatch, max(1, room) * most)
        if self.ranks is not None:
            expect_exact_total(self.rows, arithmetic.parameters)
            microbatch = min(microbatch, math.ceil(slots / shares(self.ranks.size)))
        self.layout = MicrobatchLayout.of(slots, microbatch=microbatch, most=most)
        if self.noisy and self.examples:
            self.layout = self._safe_layout(slots, most)
            if has_other_code(self.stack.module):
                batch, groups = self._alike(self.layout), self.layout.groups
                tolerance = self.slot_tolerance
                check_neighbours(
                    self.stack, self.recipe.loss, batch, groups=groups, tolerance=tolerance, bf16=self.bf16
                )
        if self.stack.device.type == "cpu" and self.examples and slots <= self.layout.width:
            self.layout = self._with_narrower(arithmetic, self.layout.width, most)
        shape = (self.models * self.layout.groups, self.exact_sum.total.shape[1])
        self.group_sums = torch.zeros(shape, dtype=self.stack.dtype, device=self.stack.device)

    def _safe_layout(self, slots: int, most: int) -> MicrobatchLayout:
        """Return `self.layout`, or a layout of smaller microbatches in which gradients hardly depend on the slot.

        Libraries may round differently in different slots of a microbatch, and do so for some sizes and not for others.
        The layout is the widest one tried in which the clipped gradients of an example in two slots differ by at most
        `slot_tolerance` times their norm. All ranks choose the same layout. Raise `Refused` if there is none. The other
        arguments are as in `MicrobatchLayout.of`.
        """
        for parts in SMALLER_MICROBATCHES:
            layout = MicrobatchLayout.of(slots, microbatch=math.ceil(self.layout.width / parts), most=most)
            batch, groups = self._alike(layout), layout.groups
            distance = slot_distance(self.stack, self.recipe.loss, batch, groups=groups, bf16=self.bf16)
            safe = distance <= self.slot_tolerance
            if safe if self.ranks is None else all(self.ranks.gathered(safe)):
                return layout
        raise Refused(
            f"the gradient of an example depends on its slot in microbatches of {self.layout.width} to {layout.width} "
            "examples, so one example would change how others are rounded; set `microbatch` to 1"
        )

    def _with_narrower(self, arithmetic: Arithmetic, microbatch: int, most: int) -> MicrobatchLayout:
        """Return a layout whose last microbatch may be narrower, or `self.layout` if that is not safe.

        The new layout has as many groups as `self.layout`, and is wide enough for the sample sizes expected. With noise
        it is safe only if the rounding bound given by `arithmetic` holds, and an example has the same gradient in all
        shapes (`_alike_in_all`). `microbatch` and `most` are the largest numbers of slots (places of examples)
        of a microbatch and of a group, as in `MicrobatchLayout.of`.
        """
        sampler, groups = self.recipe.sampler, self.layout.groups
        for chance in (WIDE_CHANCE, FIT_CHANCE):
            slots = expected_slots(sampler, self.rows, self.models, chance)
            layout = MicrobatchLayout.of(slots, microbatch=microbatch, most=most)
            sizes = narrower_sizes(layout, sampler, self.rows, self.models)
            fits = layout.groups == groups and layout.width >= slots
            if sizes and fits and (not self.noisy or self._alike_in_all(layout, sizes, arithmetic)):
                return replace(layout, narrower=sizes)
        return self.layout

    def _alike_in_all(self, layout: MicrobatchLayout, sizes: Sequence[int], arithmetic: Arithmetic) -> bool:
        """Return whether microbatches round alike in all shapes: `layout`, and `layout` with groups of each of `sizes`.

        Two conditions must hold. `arithmetic` bounds the rounding error by `ROUNDING` if all groups of the last
        microbatch differ. The squared gradient norm of an example has the same bits in every slot of every shape, and
        its clipped gradient has the same direction.
        """
        if not arithmetic.may_narrow(layout.groups, layout.group):
            return False
        batches = [self._alike(replace(layout, group=size)) for size in (*sizes, layout.group)]
        groups, tolerance = layout.groups, self.slot_tolerance
        return alike_in_all_slots(
            self.stack, self.recipe.loss, batches, groups=groups, tolerance=tolerance, bf16=self.bf16
        )

    def _shuffle(self) -> None:
        """Put the examples into random order once, for full batches. (Sampled batches are shuffled at each step.)

        If models have subsets, each subset is shuffled instead. If ranks hold parts of the examples, no example moves,
        and `self.order` keeps the random order.
        """
        if self.subsets is not None:
            self.subsets.shuffle(self.rng)
            return
        order = np.arange(self.examples)
        self.rng.shuffle(order)
        if self.parts is not None:
            self.order = order
            return
        index = torch.from_numpy(order).to(self.stack.device)
        self.inputs, self.targets = tuple(item[index] for item in self.inputs), self.targets[index]
        if self.stack.key is not None:
            self.stack.key.numbers = self.stack.key.numbers[index]

    def _alike(self, layout: MicrobatchLayout) -> Batch:
        """Return a batch of the shape `layout` whose slots (places of examples) all hold the same synthetic example."""
        slots = self.models * layout.width
        return equal_examples(self.inputs, self.targets, slots=slots, copies=self.recipe.copies)

    @property
    def projected_cancelling(self) -> float:
        """Upper bound on `|summed vector| / |released vector|` of one example, which is 1 without a projection."""
        return 1.0 if self.stack.projection is None else self.stack.projection.cancelling

    @property
    def slot_tolerance(self) -> float:
        """Largest difference of an example's summed vector between two slots, divided by its norm."""
        return SLOT_ROUNDING / self.projected_cancelling

    @property
    def bf16(self) -> bool:
        return self.recipe.precision == "bf16"

    @property
    def models(self) -> int:
        return self.stack.models

    @property
    def examples(self) -> int:
        """The number of examples, on all ranks together."""
        return len(self.inputs[0]) if self.parts is None else self.parts.examples

    @property
    def sampled_from(self) -> int:
        """The number of examples that a sample is drawn from; if models have subsets, the size of the largest."""
        return self.examples if self.subsets is None else self.subsets.longest

    @property
    def step(self) -> int:
        """The number of steps taken so far."""
        return self.state.step

    def released(self) -> list[nn.Module]:
        """Return copies of the modules with the trained parameters, or with their average if the recipe has an average.

        Before the first step these are the initial parameters.
        """
        theta = self.state.averages.get("average", self.state.theta) if self.step else self.state.theta
        return self.stack.trained(self.modules, theta)

    def one_step(self) -> None:
        """Take one step: sample, clip and sum, add noise, divide by a public number, update."""
        self.refresh()
        settings = self.population.settings(self.recipe, self.step, self.state.theta)
        samples = self.samples()
        if self.parts is not None:
            self.parts.fetch(samples, self.layout)
        self.step_on(settings, microbatches(samples, self.layout, self.stack, self.ranks))
        self.state.step += 1

    def refresh(self) -> None:
        """Let the projection choose what gradients are projected on in the next step.

        Nothing is done without a projection, and before the first step, because `__init__` has done it.
        """
        if self.stack.projection is not None and self.step:
            self.stack.projection.refresh(self.loss_at(self.step / self.recipe.steps), self.step)

    def loss_at(self, progress: Any) -> Any:
        """Return the loss function to use when the fraction `progress` (0 to 1) of the steps is over.

        It is `loss.at(progress)` if the recipe's loss has a method `at`, and the loss itself otherwise.
        """
        loss = self.recipe.loss
        return loss.at(progress) if hasattr(loss, "at") else loss

    def samples(self) -> list[np.ndarray]:
        """Draw a sample for each model; return one array of positions of examples for each model, in random order.

        The bound on rounding errors needs the random order (`_rounding.py`). Full batches are not shuffled again here:
        their order was drawn once, before training.
        """
        sizes = [self.examples] * self.models if self.subsets is None else self.subsets.sizes.tolist()
        samples = [self.recipe.sampler.draw(self.rng, size) for size in sizes]
        if not isinstance(self.recipe.sampler, FullBatch):
            for sample in samples:
                self.rng.shuffle(sample)
        if self.order is not None:
            return [self.order[sample] for sample in samples]
        if self.subsets is None:
            return samples
        return [subset[sample] for subset, sample in zip(self.subsets.positions, samples, strict=True)]

    def step_on(self, settings: StepSettings, selections: Iterable[Microbatch], capturing: bool = False) -> None:
        """Take one step on the microbatches `selections`; the caller adds 1 to `state.step` afterwards.

        `settings` has the public numbers of the step, such as the learning rate. With `capturing` no tensor value is
        read on the host, as a CUDA graph requires.
        """
        self.exact_sum.start()
        self.accumulate(settings, selections, capturing)
        noisy, deviation = self.noisy_sum(settings)
        self.update(settings, noisy, deviation)

    def accumulate(self, settings: StepSettings, selections: Iterable[Microbatch], capturing: bool) -> None:
        """Add the clipped per-example gradients of the microbatches `selections` to `self.exact_sum`.

        `settings` has the public numbers of the step. With `capturing` no tensor value is read on the host.
        """
        loss = self.loss_at(settings.progress)
        margin = 1.0 if self.recipe.precision == "float32" else 1 - TF32_MARGIN
        for selection in selections:
            batch = self._batch(selection, settings.step)
            norm = self._example_norms(batch.examples, margin)
            sums = self.group_sums.zero_()
            accumulate(self.stack, loss, batch, self.recipe.clip, norm, sums, capturing=capturing, bf16=self.bf16)
            self.exact_sum.add(sums.view(self.models, -1, sums.shape[1]))

    def _batch(self, selection: Microbatch, step: Any) -> Batch:
        """Return the examples of the microbatch `selection` as a batch.

        Each example is repeated `recipe.copies` times, and the copies are augmented by `recipe.augment`. Random draws
        depend on `step`, the number of the step. If `copies` is 1 and `selection.index` is a slice of examples that
        this rank holds, examples are not copied in memory before augmentation.
        """
        index, whole = selection.index, (*self.inputs, self.targets)
        *selected, targets = [_selected(item, index) for item in whole] if self.parts is None else self.parts.at(index)
        inputs = tuple(selected)
        examples, copies, augment = len(targets), self.recipe.copies, self.recipe.augment
        if copies > 1:
            inputs = tuple(item.repeat_interleave(copies, 0) for item in inputs)
            targets = targets.repeat_interleave(copies, 0)
        draws = self._draws(selection, step)
        if augment is not None and draws is not None:
            inputs = (augment(inputs[0], draws), *inputs[1:])
        return Batch(inputs, targets, examples, selection.valid, draws)

    def _draws(self, selection: Microbatch, step: Any) -> ExampleDraws | None:
        """Return the random draws for dropout and augmentation of the examples in `selection`; None if neither is used.

        `step` is the number of the step, on which the draws depend.
        """
        key = self.stack.key
        if key is None:
            return None
        return key.draws(_selected(key.numbers, selection.index), step, self.models, self.recipe.copies)

    def _example_norms(self, examples: int, margin: float) -> Any:
        if self.models == 1 and not self.tracks_quantile:
            return self.population.norm[0] * margin
        return (self.state.norms * margin).repeat_interleave(examples // self.models)[:, None]

    def noisy_sum(self, settings: StepSettings) -> tuple[Tensor, Any]:
        """Return the sums of the step (models, columns) with noise, and the standard deviation of each model's noise.

        The standard deviation is a float, or a (models, 1) tensor. Without noise the results are the exact sums and 0.
        If ranks train together, their exact sums are added up first. A projection turns the exact sums into the sums
        that it releases. The sums of a `quantile` clip have the count as last column.
        """
        exact = self.exact_sum.value()
        if self.ranks is not None:
            self.ranks.add_up(exact)
        if self.mask is not None and self.stack.excluded:
            # Gradients of parameters that a model does not train were not clipped, so they must not be released.
            exact[:, : self.state.theta.shape[1]] *= self.mask
        if self.stack.projection is not None:
            exact = self.stack.projection.released(exact)
        if not self.noisy:
            return exact, 0.0
        return self.release.noisy(exact, settings, self.population.norm[0])

    def update(self, settings: StepSettings, noisy: Tensor, deviation: Any) -> None:
        """Divide the noisy sums by `recipe.sampler.rate * rows`, and update the parameters and their average in place.

        This is post-processing. A projection first rebuilds gradients from the sums `noisy`. `deviation` is the
        standard deviation of the noise in `noisy`. Parameters that a model does not train keep their values.
        """
        theta = self.state.theta
        if self.stack.projection is not None:
            noisy = self.stack.projection.gradient(noisy)
        gradient = noisy[:, : theta.shape[1]].to(theta.dtype).div_(self.divisor)
        if self.mask is not None:
            gradient = gradient * self.mask
        self.recipe.update.apply(theta, gradient, self.state.update, settings.lr, deviation / self.divisor)
        if self.mask is not None:  # weight decay would change untrained parameters too
            torch.where(self.mask != 0, theta, self.untrained, out=theta)
        if self.recipe.average is not None:
            self.recipe.average.update(theta, self.state.averages, settings.average_weight)


def _selected(values: Tensor, index: Tensor | slice) -> Tensor:
    """Return `values[index]`; on a CPU by `index_select`, which is faster."""
    return values[index] if isinstance(index, slice) or values.is_cuda else values.index_select(0, index)
