"""Clipped sums in a loop of a user."""

from __future__ import annotations

import copy
import functools
import gc
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from privaware.descent import _clipped_sum, clipped_sum, cross_entropy, squared
from privaware.descent._precision import matmul_precision
from privaware.errors import Refused
from tests.descent.small_training import examples, net


def test_dropout_uses_one_mask_in_norm_and_sum():
    x, y = examples(1)
    module = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 3))
    seen = set()
    for seed in range(5):
        torch.manual_seed(seed)
        sums, norms = clipped_sum(module, cross_entropy, x, y, 0.01)
        size = math.sqrt(sum(float(part.square().sum()) for part in sums.values()))
        assert size == pytest.approx(0.01, rel=1e-5)
        dropped = sums["2.weight"].abs().sum(0) == 0
        assert torch.equal(dropped, sums["0.bias"] == 0)
        seen.add(round(float(norms), 6))
    assert len(seen) == 5


def test_dropout_masks_differ_between_examples():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1, bias=False))
    x = torch.ones(30, 64)
    _, norms = clipped_sum(module, lambda out, goal: out[:, 0], x, torch.zeros(30), 1.0)
    assert len(norms.unique()) > 5


class Flagged(nn.Module):
    """Mixes examples when `mixing` is set; holds settings of several kinds."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.drop, self.head = nn.Linear(4, 6), nn.Dropout(0.0), nn.Linear(6, 3)
        self.register_buffer("shift", torch.zeros(6))
        self.scale = nn.Parameter(torch.ones(6), requires_grad=False)
        self.mixing, self.factors, self.act = False, [1.0, 2.0], torch.tanh

    def forward(self, inputs):
        hidden = self.drop(self.act(self.inner(inputs) * self.scale + self.shift))
        outputs = self.head(hidden * self.factors[0])
        return outputs - outputs.mean(0) if self.mixing else outputs


@pytest.fixture
def setups(monkeypatch):
    """Counts how often a module is probed, with no setup kept from before."""
    counted = []
    plain = _clipped_sum.prepare
    monkeypatch.setattr(_clipped_sum, "prepare", lambda *a: counted.append(1) or plain(*a))
    monkeypatch.setattr(_clipped_sum, "_SETUPS", _clipped_sum._Setups())
    return counted


def assert_fresh(module, loss=cross_entropy, data=None):
    """The sums are those of a copy that was never seen before."""
    x, y = data or examples(6)
    sums, norms = clipped_sum(module, loss, x, y, 0.5)
    fresh, fresh_norms = clipped_sum(copy.deepcopy(module), loss, x, y, 0.5)
    assert torch.equal(norms, fresh_norms)
    assert sums.keys() == fresh.keys()
    assert all(torch.equal(sums[name], fresh[name]) for name in sums)


def test_a_users_loop_probes_its_module_once(setups):
    module = Flagged()
    optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.5)
    for step in range(5):
        x, y = examples(3 + step, seed=step)  # as a Poisson sampler would: batches of different sizes
        sums, _ = clipped_sum(module, cross_entropy, x, y, 0.5)
        for name, gradient in sums.items():
            module.get_parameter(name).grad = gradient
        optimiser.step()
        assert len(setups) == 1
    assert_fresh(module)
    assert len(setups) == 2  # the copy


def test_a_loss_defined_inside_the_loop_is_recognised(setups):
    module, (x, y) = net(), examples(6)
    for weight in (2.0, 2.0, 3.0):
        clipped_sum(module, lambda outputs, targets, weight=weight: weight * cross_entropy(outputs, targets), x, y, 0.5)
    assert len(setups) == 2


def replace_layer(module):
    module.head = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def prune_buffer(module):
    module.shift = torch.zeros(1)


class Rectified(Flagged):
    def forward(self, inputs):
        return self.head(torch.relu(self.inner(inputs) * self.scale))


CHANGES = {
    "evaluation mode": lambda m: m.eval(),
    "evaluation mode of one layer": lambda m: m.drop.eval(),
    "dropout rate": lambda m: setattr(m.drop, "p", 1.0),
    "frozen parameter": lambda m: m.inner.bias.requires_grad_(False),
    "trained parameter": lambda m: m.scale.requires_grad_(True),
    "values of a frozen parameter": lambda m: m.scale.data.fill_(0.5),
    "values of a buffer": lambda m: m.shift.fill_(1.0),
    "shape of a buffer": prune_buffer,
    "layer": replace_layer,
    "forward of another class": lambda m: setattr(m, "__class__", Rectified),
    "function attribute": lambda m: setattr(m, "act", torch.relu),
    "item of a list": lambda m: m.factors.__setitem__(0, 0.5),
    "forward hook": lambda m: m.inner.register_forward_hook(lambda *call: 2 * call[2]),
    "forward pre-hook": lambda m: m.inner.register_forward_pre_hook(lambda _, call: (2 * call[0],)),
    "double precision": lambda m: m.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_is_set_up_and_probed_anew(change, setups):
    module = Flagged()
    data = examples(6, kind=torch.float64) if change == "double precision" else examples(6)
    clipped_sum(module, cross_entropy, *examples(6), 0.5)
    CHANGES[change](module)
    assert_fresh(module, data=data)
    assert len(setups) == 3  # before, after, and the copy


def test_weights_tied_after_a_call_are_clipped_as_tied(setups):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    clipped_sum(module, cross_entropy, *examples(6), 0.5)
    module[2].weight = module[0].weight
    assert_fresh(module)
    assert len(setups) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "mixing", True),
        lambda m: m.inner.register_forward_hook(lambda *call: call[2] - call[2].mean(0)),
        lambda m: m.register_module("head", nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))),
        lambda m: setattr(m, "idle", nn.Linear(2, 2)),
    ],
    ids=["attribute", "hook", "batch norm", "idle parameter"],
)
def test_module_that_begins_to_mix_examples_is_refused_next_call(change):
    module, (x, y) = Flagged(), examples(6)
    clipped_sum(module, cross_entropy, x, y, 0.5)
    change(module)
    for _ in range(2):
        with pytest.raises(Refused):
            clipped_sum(module, cross_entropy, x, y, 0.5)


def test_a_class_that_begins_to_mix_examples_is_refused():
    class Net(nn.Linear):
        mixing = False

        def forward(self, inputs):
            outputs = super().forward(inputs)
            return outputs - outputs.mean(0) if self.mixing else outputs

    module, (x, y) = Net(4, 3), examples(6)
    clipped_sum(module, cross_entropy, x, y, 0.5)
    Net.mixing = True
    with pytest.raises(Refused, match="not independent"):
        clipped_sum(module, cross_entropy, x, y, 0.5)


def test_a_loss_that_begins_to_mix_examples_is_refused(setups):
    mixing = []

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.over_batch = False

        def forward(self, outputs, targets):
            losses = cross_entropy(outputs, targets)
            return losses * losses.mean() if self.over_batch or mixing else losses

    module, loss, (x, y) = net(), Loss(), examples(6)

    def closed(outputs, targets):
        return loss(outputs, targets)

    for function in (loss, closed, functools.partial(closed)):
        clipped_sum(module, function, x, y, 0.5)
        loss.over_batch = True
        with pytest.raises(Refused, match="not independent"):
            clipped_sum(module, function, x, y, 0.5)
        loss.over_batch = False
    mixing.append(True)
    with pytest.raises(Refused, match="not independent"):
        clipped_sum(module, closed, x, y, 0.5)
    assert len(setups) == 7


class Settings:
    """An object that may change without notice."""

    factor = 1.0


@pytest.mark.parametrize("held", [torch.ones(()), Settings(), functools.partial(torch.mul, 1.0)])
def test_modules_with_untracked_state_are_never_cached(held, setups):
    class Holding(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.held = nn.Linear(4, 3), held

        def forward(self, inputs):
            return self.inner(inputs)

    module, (x, y) = Holding(), examples(6)
    for _ in range(3):
        clipped_sum(module, cross_entropy, x, y, 0.5)
    assert len(setups) == 3


def test_other_shapes_and_precisions_are_probed_anew(setups):
    module = nn.Linear(4, 3)
    x, y = examples(6)
    clipped_sum(module, cross_entropy, x, y, 0.5)
    clipped_sum(module, cross_entropy, x[:2], y[:2], 0.1)
    assert len(setups) == 1
    clipped_sum(module, lambda o, t: cross_entropy(o.mean(1), t), x[:, None].repeat(1, 5, 1), y, 0.5)
    clipped_sum(module, squared, x, torch.zeros(6, 3), 0.5)
    with matmul_precision("tf32"):
        clipped_sum(module, squared, x, torch.zeros(6, 3), 0.5)
    assert len(setups) == 4


def test_nested_calls_have_separate_setups(setups):
    module, (x, y) = net(), examples(6)
    inner = []

    def loss(outputs, targets):
        if len(targets) == 6 and not inner:
            inner.append(clipped_sum(module, cross_entropy, x, y, 0.5)[1])
        return cross_entropy(outputs, targets)

    sums, norms = clipped_sum(module, loss, x, y, 0.5)
    expected, _ = clipped_sum(copy.deepcopy(module), cross_entropy, x, y, 0.5)
    torch.testing.assert_close(sums, expected)
    torch.testing.assert_close(inner[0], norms)


def test_threads_do_not_share_a_setup(setups):
    module, (x, y) = net(), examples(6)
    expected, _ = clipped_sum(module, cross_entropy, x, y, 0.5)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: clipped_sum(module, cross_entropy, x, y, 0.5)[0], range(40)))
    assert all(torch.equal(sums[name], expected[name]) for sums in results for name in expected)


def test_setups_are_released_with_their_modules_and_bounded(setups):
    setups_kept, (x, y) = _clipped_sum._SETUPS, examples(6)
    modules = [net(seed=seed) for seed in range(setups_kept.SIZE + 3)]
    for module in modules:
        clipped_sum(module, cross_entropy, x, y, 0.5)
    assert len(setups_kept.by_module) == setups_kept.SIZE
    del module, modules
    gc.collect()
    assert len(setups_kept.by_module) == 0


def test_an_error_leaves_no_setup_behind(setups):
    module, (x, y) = net(), examples(6)
    clipped_sum(module, cross_entropy, x, y, 0.5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        clipped_sum(module, cross_entropy, x, y + 7, 0.5)
    assert_fresh(module)
