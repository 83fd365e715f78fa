"""One example moves a step's exact sum by at most the declared sensitivity, in the arithmetic really done."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware import models
from privaware.descent import Descent, FullBatch, Poisson, flat, members, per_layer, quantile, sgd
from privaware.descent._accumulate import Batch
from privaware.descent._exact_sum import ExactSum
from privaware.descent._layers import linear as linear_rule
from privaware.descent._layers.rules import stacked
from privaware.descent._losses import cross_entropy, output_gradient
from privaware.descent._per_example import combined
from privaware.descent._rounding import MAX_GROUP_SIZE, POSITION_ROUNDING, ROUNDING, Arithmetic
from privaware.descent._slot_checks import equal_examples, slot_distance
from privaware.descent._training import Training, prepare
from privaware.errors import Refused
from privaware.noise import Rng
from tests.descent.neighbours import CoupledRng, step_without_last
from tests.descent.small_training import RecordingRng

UNIT = 2.0**-24


def recipe(**changes):
    return Descent(**{"steps": 1, "sampler": FullBatch(), "clip": flat(0.5), "update": sgd(0.1), **changes})


def similar_rows(rows, columns=8):
    """One class and rows alike: every addition rounds to the same side, and sums cross powers of two."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(rows, columns, generator=generator) * 0.1 + 0.9, torch.zeros(rows, dtype=torch.int64)


def unlike_sizes(rows, columns=8):
    """Rows of sizes from 2^-16 to 1: small gradients beside clipped ones."""
    x, y = similar_rows(rows, columns)
    return x * torch.exp2((torch.arange(rows) - rows + 1) % 17 - 16.0).flip(0)[:, None] * 1.0, y


def linear(columns=8):
    torch.manual_seed(0)
    return nn.Linear(columns, 2)


def test_p39_one_of_1e6_rows_moves_a_step_within_its_sensitivity(monkeypatch):
    moved, differing, groups = step_without_last(recipe(), [linear()], *similar_rows(1_000_000), monkeypatch)
    assert 0.9 < moved <= 1
    assert (differing, groups > 4_000) == (2, True)


class InOrder(RecordingRng):
    """A planted bug: examples stay in the order of the data, so that one row shifts all that come after it."""

    def __init__(self, removed=None):
        super().__init__()

    def shuffle(self, rows):
        rows[:] = rows[::-1].copy()


def test_p39_one_sum_in_single_precision_is_caught(monkeypatch):
    def start(self):
        self.single = torch.zeros_like(self.total, dtype=torch.float32)

    def add(self, sums):
        for group in sums.unbind(1):
            self.single += group

    monkeypatch.setattr(ExactSum, "start", start)
    monkeypatch.setattr(ExactSum, "add", add)
    monkeypatch.setattr(ExactSum, "value", lambda self: self.single.double())
    moved, *_ = step_without_last(recipe(), [linear()], *similar_rows(1_000_000), monkeypatch, rng=InOrder)
    assert moved > 1.1


@pytest.mark.slow
def test_p39_one_of_1e7_rows_moves_a_step_within_its_sensitivity(monkeypatch):
    for rows in (similar_rows, unlike_sizes):
        moved, differing, _ = step_without_last(recipe(), [linear()], *rows(10_000_000), monkeypatch)
        assert moved <= 1
        assert differing <= 2


@pytest.mark.parametrize("sampler", [FullBatch(), Poisson(rate=0.7)], ids=["full", "poisson"])
@pytest.mark.parametrize("rows", [similar_rows, unlike_sizes])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"microbatch": 50},
        {"clip": per_layer(0.5)},
        {"clip": quantile(norm=0.5, count_noise=9.0)},
        {"precision": "tf32"},
        {"precision": "bf16"},
    ],
    ids=["flat", "microbatches", "per_layer", "quantile", "tf32", "bf16"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_p39_a_thousand_rows_that_lose_bits_keep_the_sensitivity(rows, sampler, settings, count, monkeypatch):
    modules = [linear() for _ in range(count)]
    descent = recipe(sampler=sampler, **settings)
    moved, differing, _ = step_without_last(descent, modules, *rows(1_000), monkeypatch)
    assert 0.5 < moved <= 1
    assert differing <= 2


def test_p39_shifted_slots_are_caught(monkeypatch):
    x, y = similar_rows(5_000)
    _, differing, groups = step_without_last(recipe(), [linear()], x, y, monkeypatch, rng=InOrder)
    assert differing == groups > 20
    monkeypatch.undo()
    assert step_without_last(recipe(), [linear()], x, y, monkeypatch, rng=CoupledRng)[1] == 2


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.rnn = nn.Embedding(7, 24), nn.LSTM(24, 20, batch_first=True)
        self.mixed, self.out = nn.MultiheadAttention(20, 2, batch_first=True), nn.Linear(20, 3)

    def forward(self, codes):
        hidden = self.rnn(self.table(codes))[0]
        return self.out(self.mixed(hidden, hidden, hidden, need_weights=False)[0].mean(1))


def layers(kind):
    torch.manual_seed(0)
    if kind == "sequences":
        return Sequences(), torch.randint(7, (70, 6))
    images = torch.rand(70, 2, 8, 8)
    conv = models.StandardisedConv2d if kind == "standardised" else nn.Conv2d
    first = conv(2, 6, 3) if kind != "grouped" else nn.Conv2d(2, 6, 3, groups=2)
    return nn.Sequential(first, nn.GroupNorm(2, 6), nn.Tanh(), nn.Flatten(), nn.Linear(6 * 36, 3)), images


KINDS = ["sequences", "convolution", "grouped", "standardised"]


@pytest.mark.parametrize("kind", KINDS)
def test_p39_every_layer_rule_keeps_the_sensitivity(kind, monkeypatch):
    module, x = layers(kind)
    y = torch.zeros(len(x), dtype=torch.int64)
    descent = recipe(sampler=Poisson(rate=0.8), microbatch=20)
    moved, differing, _ = step_without_last(descent, [module], x, y, monkeypatch)
    assert moved <= 1
    assert differing <= 2


@pytest.mark.parametrize("limit", [0, None], ids=["recomputed", "materialised"])
@pytest.mark.parametrize("kind", KINDS)
def test_p39_no_group_sum_rounds_more_than_its_bound(kind, limit, monkeypatch):
    """Each rule's float32 sum against the float64 sum of the same examples one by one."""
    if limit is not None:
        for name in ("_example_sums", "_per_example", "_layers.convolution", "_layers.weight_standardisation"):
            monkeypatch.setattr(f"privaware.descent.{name}.materialised_limit", lambda device: limit)
    module, x = layers(kind)
    stack, y = stacked([module]), torch.zeros(len(x), dtype=torch.int64)
    outputs, tape = stack.forward((x,), len(x))
    uses = tape.per_example_gradients(outputs, output_gradient(cross_entropy, outputs, y, len(x)))
    factors = torch.rand(len(x), generator=torch.Generator().manual_seed(1))
    bound = (len(x) + 3) * UNIT / (1 - (len(x) + 3) * UNIT)
    for segment in stack.segments:
        for part in combined(uses[segment.name]):
            squares = part.squared_norms()
            total = torch.zeros(1, *segment.shape)
            part.add_sum(factors, total)
            target = total if part.part is None else total[:, part.part]
            each = part.materialise().double().flatten(1)
            terms = factors.double()[:, None] * each
            lengths = terms.norm(dim=1).sum()
            if squares is not None:
                counted = factors.double() * squares.double().sqrt()
                alone = terms.norm(dim=1) if not getattr(part, "with_bias", False) else 0 * counted
                assert (alone <= counted * (1 + POSITION_ROUNDING)).all()
            error = (target.double().flatten() - terms.sum(0)).norm()
            assert error <= (bound + POSITION_ROUNDING) * lengths
            if limit is None:
                assert error <= bound * lengths


def test_p39_rounding_bound_stays_below_two_percent():
    for precision in ("float32", "tf32", "bf16"):
        for parameters in (1, 10_000, 3_000_000, 130_000_000):
            facts = Arithmetic(parameters=parameters, precision=precision)
            group = facts.group_size()
            assert 100 <= group <= MAX_GROUP_SIZE
            assert facts.rounding(group) <= ROUNDING < 0.02
            assert facts.rounding(group) < facts.rounding(2 * group)
    assert Arithmetic(parameters=1_000, cancelling=16.0).group_size() < 60


def test_p39_parameters_whose_sums_round_too_much_are_refused():
    for facts in (Arithmetic(parameters=10, bits=16), Arithmetic(parameters=10**10)):
        with pytest.raises(Refused, match="use float32 parameters, fewer of them"):
            facts.group_size()
    x, y = similar_rows(20)
    with pytest.raises(Refused):
        recipe().run(linear().to(torch.bfloat16), x.to(torch.bfloat16), y, noise=1.0, rows=20, rng=Rng(0))


def uneven_slots(monkeypatch, slot, factor, above=3):
    """Multiply the outputs of one slot, in microbatches larger than the probe's three examples, or than `above`."""
    plain = linear_rule.multiply

    def uneven(inputs, weights, biases):
        output = plain(inputs, weights, biases)
        if len(output) > above:
            output[slot] *= factor
        return output

    monkeypatch.setattr(linear_rule, "multiply", uneven)


@pytest.mark.parametrize("slot", [0, -1])
def test_p39_arithmetic_that_depends_on_the_slot_is_refused(slot, monkeypatch):
    uneven_slots(monkeypatch, slot, 2.0)
    x, y = similar_rows(200)
    with pytest.raises(Refused, match="depends on its slot"):
        recipe().run(linear(), x, y, noise=1.0, rows=200, rng=Rng(0))


def test_p39_smaller_microbatches_avoid_uneven_slots(monkeypatch):
    uneven_slots(monkeypatch, 0, 2.0, above=70)
    x, y = similar_rows(200)
    prepared = prepare([linear()], cross_entropy, x, y, "cpu")
    training = Training(recipe(), members([linear()], noise=[1.0]), prepared, rows=200, rng=Rng(0))
    assert 50 <= training.layout.width <= 70


def test_p39_model_without_gradient_counts_as_alike_in_all_slots(monkeypatch):
    """In a population a dead model has gradients of length zero in every slot."""
    alive, dead = (nn.Sequential(linear(), nn.ReLU()) for _ in range(2))
    with torch.no_grad():
        alive[0].bias.fill_(10.0)
        dead[0].bias.fill_(-100.0)
    stack = stacked([alive, dead])
    batch = equal_examples((torch.zeros(1, 8),), torch.zeros(1), slots=20)
    plain, loss = linear_rule.multiply, lambda outputs, targets: outputs.square().sum(1)

    def uneven(inputs, weights, biases):
        output = plain(inputs, weights, biases)
        output[4, 0] *= 1.5  # of the first model
        return output

    assert slot_distance(stack, loss, batch, groups=1) == 0.0
    monkeypatch.setattr(linear_rule, "multiply", uneven)
    assert 0.1 < slot_distance(stack, loss, batch, groups=1) < 2.0


class RollsFirst(nn.Module):
    """Moves the entries of the first of more than three examples, so its gradient has another direction."""

    def forward(self, x):
        return torch.cat([x[:1].roll(1, 1), x[1:]]) if len(x) > 3 else x


def test_p39_direction_that_depends_on_the_slot_is_refused():
    module = nn.Sequential(RollsFirst(), linear())
    with torch.no_grad():
        module[1].weight.mul_(1e-6)  # so norms are nearly alike
    x, y = similar_rows(200)
    with pytest.raises(Refused, match="depends on its slot"):
        recipe().run(module, x, y, noise=1.0, rows=200, rng=Rng(0))


class TurnsGradients(torch.autograd.Function):
    """The identity, whose backward pass turns the gradients of the slots `slots` without a change of their norms."""

    @staticmethod
    def forward(ctx, x, turn, slots):
        ctx.turn, ctx.slots = turn, slots
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        turned = gradient.clone()
        turned[ctx.slots] = ctx.turn(gradient[ctx.slots])
        return turned, None, None


class Turns(nn.Module):
    """Turns the gradients of `slots` in the microbatches for which `when(inputs)` is true."""

    def __init__(self, turn, slots, when=lambda x: True):
        super().__init__()
        self.turn, self.slots, self.when = turn, slots, when

    def forward(self, x):
        return TurnsGradients.apply(x, self.turn, self.slots) if self.when(x) else x


@pytest.mark.parametrize("numbers", [2**21, 0], ids=["every_slot", "means_of_groups"])
@pytest.mark.parametrize("slots", [slice(5, 6), slice(-1, None), slice(None, None, 2), slice(3, None)])
@pytest.mark.parametrize("turn", [torch.neg, lambda gradient: gradient.roll(1, 1)], ids=["negated", "swapped"])
def test_p39_direction_alone_depending_on_the_slot_is_refused(turn, slots, numbers, monkeypatch):
    """Norms keep their bits, and no example influences another one, so neither these nor the probe show it.

    The probe compares the sum over few examples with autograd, which runs the same backward pass.
    """
    monkeypatch.setattr("privaware.descent._slot_checks.MOST_NUMBERS", numbers)
    x, y = similar_rows(200)
    with pytest.raises(Refused, match="depends on its slot"):
        recipe().run(nn.Sequential(linear(), Turns(turn, slots)), x, y, noise=1.0, rows=200, rng=Rng(0))


def test_p39_direction_that_depends_on_the_slot_in_training():
    turns = Turns(torch.neg, slice(5, 6), when=lambda x: turns.training)
    x, y = similar_rows(200)
    with pytest.raises(Refused, match="depends on its slot"):
        recipe().run(nn.Sequential(linear(), turns), x, y, noise=1.0, rows=200, rng=Rng(0))


def test_p39_smaller_microbatches_avoid_turned_gradients():
    x, y = similar_rows(200)
    module = nn.Sequential(linear(), Turns(torch.neg, slice(0, 1), when=lambda x: len(x) > 70))
    prepared = prepare([module], cross_entropy, x, y, "cpu")
    training = Training(recipe(), members([module], noise=[1.0]), prepared, rows=200, rng=Rng(0))
    assert 50 <= training.layout.width <= 70


def test_p24_direction_alone_depending_on_others_is_refused():
    """Norms keep their bits, and all slots are turned alike, if the first example differs from the second."""
    others = Turns(torch.neg, slice(1, None), when=lambda x: len(x) > 1 and not torch.equal(x[0], x[1]))
    x, y = similar_rows(200)
    with pytest.raises(Refused, match="not independent in microbatches of 200"):
        recipe().run(nn.Sequential(linear(), others), x, y, noise=1.0, rows=200, rng=Rng(0))


def layout_of_half(module):
    x, y = similar_rows(300)
    prepared = prepare([module], cross_entropy, x, y, "cpu")
    sampled = recipe(sampler=Poisson(rate=0.5))
    return Training(sampled, members([module], noise=[1.0]), prepared, rows=300, rng=Rng(0)).layout


def test_p39_slot_dependent_bits_force_one_batch_shape(monkeypatch):
    assert layout_of_half(linear()).narrower
    uneven_slots(monkeypatch, 0, 1 + 2.0**-20)
    assert not layout_of_half(linear()).narrower


def test_p39_direction_by_the_shape_forces_one_batch_shape():
    plain, tried = layout_of_half(linear()), []

    def in_the_narrowest(x):
        tried.append(len(x))
        return len(x) == plain.narrower[0]

    turned = nn.Sequential(linear(), Turns(torch.neg, slice(None), when=in_the_narrowest))
    assert not layout_of_half(turned).narrower
    assert plain.narrower[0] in tried


def test_dropout_is_no_dependence_on_the_slot():
    x, y = similar_rows(20)
    module = nn.Sequential(nn.Linear(8, 30), nn.Dropout(0.5), nn.Linear(30, 2))
    assert module.training
    recipe().run(module, x, y, noise=1.0, rows=20, rng=Rng(0))
    assert Batch((x,), y, 20).valid is None
