"""Modules and losses are refused if their examples influence one another, or if no gradient can be bounded."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import _isolation_checks, clipped_sum, cross_entropy
from privaware.errors import Refused, WrongInput
from tests.descent.small_training import examples, net, recipe, train


def test_p24_examples_do_not_influence_each_other():
    x, y = examples(6)
    changed = x.clone()
    changed[2] = 5.0
    _, before = clipped_sum(net(), cross_entropy, x, y, 1.0)
    _, after = clipped_sum(net(), cross_entropy, changed, y, 1.0)
    keep = [0, 1, 3, 4, 5]
    assert torch.equal(before[keep], after[keep])
    assert before[2] != after[2]


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, inputs):
        out = self.inner(inputs)
        return out - out.mean(0)


class OneForAll(nn.Module):
    """Subtracts the inputs of the example at the place `at` from the inputs of all others."""

    def __init__(self, at):
        super().__init__()
        self.inner, self.at = nn.Linear(4, 3), at

    def forward(self, inputs):
        return self.inner(inputs - inputs[self.at])


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, inputs):
        self.seen += inputs.sum(0).detach()
        return self.inner(inputs)


class PowerIteration(nn.Module):
    """Its buffer stays as it is until the weights change; then it depends on the number of forward passes."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        with torch.no_grad():
            self.inner.weight.fill_(1.0)
        self.register_buffer("direction", torch.full((4,), 0.5))

    def forward(self, inputs):
        with torch.no_grad():
            self.direction.copy_(
                nn.functional.normalize(self.inner.weight.T @ self.inner.weight @ self.direction, dim=0)
            )
        return self.inner(inputs) + self.direction.sum()


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.idle = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.inner(inputs)


class Opaque(nn.Module):
    """Uses its parameter where neither a rule nor vmap can follow."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs):
        return self.inner(inputs) * self.scale * (2.0 if float(inputs.sum()) > -1e9 else 1.0)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)), "replace_batch_norm"),
        (Mixing(), "not independent"),
        (OneForAll(0), "not independent"),
        (OneForAll(-1), "not independent"),
        (Remembering(), "buffer 'seen'"),
        (PowerIteration(), "buffer 'direction'"),
        (Idle(), "takes no part"),
        (Opaque(), "per-example gradients cannot be computed"),
        (nn.Sequential(nn.LazyLinear(3)), "not initialised"),
    ],
    ids=["batch norm", "mixing", "first", "last", "remembering", "power iteration", "idle", "opaque", "lazy"],
)
def test_p24_p29_modules_without_bounded_gradients_are_refused(module, words):
    x, y = examples(6)
    with pytest.raises(Refused, match=words):
        clipped_sum(module, cross_entropy, x, y, 1.0)
    with pytest.raises(Refused, match=words):
        train(recipe(), module=module)


def balanced(outputs, targets):
    """Cross-entropy with weights by the number of examples of each class in the batch."""
    counts = torch.bincount(targets, minlength=outputs.shape[1])
    return cross_entropy(outputs, targets) / counts[targets]


def hardest(outputs, targets):
    """Cross-entropy of the two examples in three with the largest loss."""
    losses = cross_entropy(outputs, targets)
    return losses * (losses >= losses.detach().topk(len(losses) * 2 // 3).values[-1])


def centred(outputs, targets):
    return (outputs.sum(1) - (targets - targets.float().mean())).square()


@pytest.mark.parametrize("loss", [balanced, hardest, centred])
def test_p24_a_loss_that_compares_targets_or_losses_is_refused(loss):
    x, y = examples(6)
    with pytest.raises(Refused, match="not independent"):
        clipped_sum(net(), loss, x, y, 1.0)


def calling(function, layer=None):
    """Return a module that calls `function(inputs, module)` and then a linear layer."""

    class Calling(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = layer or nn.Linear(4, 3)

        def forward(self, inputs):
            return self.inner(function(inputs, self))

    return Calling()


def without_weights():
    layer = nn.Linear(4, 3)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def centred_where_negative(inputs, module):
    return inputs - inputs.clamp(max=0).mean(0)


def scaled_if_large(inputs, module):
    return inputs / 255 if inputs.max() > 1 else inputs


def centred_with_gradients(inputs, module):
    return inputs - inputs.mean(0) if torch.is_grad_enabled() else inputs


def centred_if_many(inputs, module):
    return inputs - inputs.mean(0) if len(inputs) > 8 else inputs


@pytest.mark.parametrize(
    "module",
    [
        calling(lambda inputs, module: inputs - inputs.mean(0), without_weights()),
        calling(centred_where_negative),
        calling(scaled_if_large),
        calling(centred_with_gradients),
        calling(centred_if_many),
    ],
    ids=["behind zeros", "negative", "large", "with gradients", "many"],
)
def test_p24_mixing_that_few_usual_examples_hide_is_refused(module):
    x, y = examples(6)
    with pytest.raises(Refused, match="not independent"):
        clipped_sum(module, cross_entropy, x, y, 1.0)


def averaged(outputs, targets):
    return cross_entropy(outputs, targets) / len(targets)


@pytest.mark.parametrize(
    ("module", "loss"),
    [
        (net(), averaged),
        (calling(lambda inputs, module: inputs / len(inputs)), cross_entropy),
        (calling(lambda inputs, module: inputs * (1 + (len(inputs) > 8))), cross_entropy),
    ],
    ids=["loss", "module", "from some number on"],
)
def test_p24_a_loss_that_depends_on_the_batch_size_is_refused(module, loss):
    x, y = examples(6)
    with pytest.raises(Refused, match="depends on the number of examples in its batch"):
        clipped_sum(module, loss, x, y, 1.0)


def test_p24_mixing_in_a_microbatch_of_the_run_is_refused(monkeypatch):
    monkeypatch.setattr(_isolation_checks, "CROWD", 2)
    x, y = examples(60)
    with pytest.raises(Refused, match="not independent in microbatches of"):
        train(recipe(), module=calling(centred_if_many), data=(x, y))


def cox(outputs, targets):
    """Cox's partial likelihood of targets (time, event), which compares examples only if there is an event."""
    risk = (targets[None, :, 0] >= targets[:, None, 0]).float()
    return targets[:, 1] * (torch.log((risk * outputs[:, 0].exp()[None]).sum(1) + 1e-9) - outputs[:, 0])


def ranked(outputs, targets):
    above = (targets[:, None] > targets[None]).float()
    return (above * (1 - outputs[:, :1] + outputs[:, :1].T).clamp(min=0)).sum(1)


def mean_of_known(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none") / (targets != -100).sum()


@pytest.mark.parametrize(
    ("loss", "targets"),
    [(cox, torch.rand(6, 2)), (ranked, torch.rand(6)), (mean_of_known, torch.zeros(6, dtype=torch.long))],
    ids=["cox", "ranked", "ignored classes"],
)
def test_p24_a_loss_that_equal_targets_hide_is_refused(loss, targets):
    with pytest.raises(Refused, match="not independent"):
        clipped_sum(net(), loss, torch.rand(6, 4), targets, 1.0)


class Normalised(torch.autograd.Function):
    """The identity, whose gradient is divided by its length over the whole batch."""

    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / gradient.norm()


class NormalisedInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, inputs):
        outputs = self.inner(inputs)
        return Normalised.apply(outputs) if self.training else outputs


def test_p24_a_backward_over_the_batch_in_training_is_refused():
    x, y = examples(6)
    with pytest.raises(Refused, match="per-example gradients cannot be computed"):
        clipped_sum(NormalisedInTraining(), cross_entropy, x, y, 1.0)
    clipped_sum(NormalisedInTraining().eval(), cross_entropy, x, y, 1.0)


class Renormed(nn.Module):
    """Looks up tokens in its parameter, and shortens the entries of these tokens."""

    def __init__(self, norm):
        super().__init__()
        self.table, self.norm = nn.Parameter(torch.randn(10, 4)), norm

    def forward(self, tokens):
        return nn.functional.embedding(tokens[:, 0], self.table, max_norm=self.norm)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("norm", [0.5, 100.0])
def test_a_forward_that_writes_into_parameters_is_refused(norm):
    tokens, y = torch.randint(10, (6, 2)), torch.zeros(6, dtype=torch.long)
    with pytest.raises(Refused, match="changes its parameters in its forward pass"):
        clipped_sum(Renormed(norm), cross_entropy, tokens, y, 1.0)


def test_a_module_that_fails_on_unusual_values_is_trained():
    def columns(inputs, module):
        assert inputs.min() >= 0
        return nn.functional.one_hot(inputs[:, 0].long(), 4).float()

    x, y = torch.rand(6, 4), torch.zeros(6, dtype=torch.long)
    _, norms = clipped_sum(calling(columns), cross_entropy, x, y, 1.0)
    assert len(norms) == 6


def test_a_loss_reduced_over_the_batch_is_refused():
    x, y = examples(6)
    with pytest.raises(WrongInput, match="one value for each example"):
        clipped_sum(net(), nn.functional.cross_entropy, x, y, 1.0)
