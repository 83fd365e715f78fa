"""Low-rank reparametrised gradients."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from privaware import models
from privaware.descent import (
    Callbacks,
    Checkpoint,
    FullBatch,
    Poisson,
    adam,
    cross_entropy,
    flat,
    low_rank,
    members,
    momentum,
    per_layer,
)
from privaware.descent import _low_rank as module_under_test
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision
from privaware.descent._stack import Segment
from privaware.descent._training import Training, prepare
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.descent.largest_tensor import LargestTensor
from tests.descent.neighbours import step_without_last
from tests.descent.small_training import flat_of, recipe

ROWS = 12


class Tokens(nn.Module):
    """A linear layer over several positions of an example."""

    def __init__(self):
        super().__init__()
        self.inner, self.output = nn.Linear(6, 7), nn.Linear(7, 3)

    def forward(self, x):
        return self.output(torch.tanh(self.inner(x.view(len(x), 4, 6))).mean(1))


def wide():
    return nn.Sequential(nn.Linear(24, 10), nn.Tanh(), nn.Linear(10, 8, bias=False), nn.Tanh(), nn.Linear(8, 3))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (2, 3, 4)),
        nn.Conv2d(2, 8, 3, padding=1, stride=(1, 2)),
        nn.Tanh(),
        nn.Conv2d(8, 6, 2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )


def standardised():
    return nn.Sequential(
        nn.Unflatten(1, (2, 3, 4)), models.StandardisedConv2d(2, 8, 3, padding=1), nn.Flatten(), nn.LazyLinear(3)
    )


def repeated():
    """Shapes of weights come again, and not one after another."""
    sizes = (24, 10, 8, 10, 8, 10, 3)
    return nn.Sequential(*[nn.Linear(*pair) for pair in itertools.pairwise(sizes)])


NETWORKS = {
    "linear": wide,
    "repeated": repeated,
    "positions": Tokens,
    "convolutions": convolutional,
    "standardised": standardised,
}


def network(kind, seed=0):
    torch.manual_seed(seed)
    net = NETWORKS[kind]()
    net(torch.zeros(1, 24))
    return net


def examples(count=ROWS, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 24, generator=generator), torch.randint(3, (count,), generator=generator)


def projected(nets, settings, seed=0, device="cpu"):
    stack = stacked(nets, device=device)
    stack.projection = settings.bind(stack, Rng(seed))
    stack.projection.refresh(None, 0)
    return stack


def by_autograd(stack, net, model, x, y):
    """Each example's gradient by left, right and all other parameters, through W = left right + constant."""
    projection, rows = stack.projection, []
    named = dict(net.named_parameters())
    for example, label in zip(x, y, strict=True):
        leaves, values = [], {}
        for segment in stack.segments:
            weight, factors = named[segment.name].detach(), projection.factors.get(segment.name)
            if factors is None:
                leaves.append(weight.clone().requires_grad_())
                values[segment.name] = leaves[-1]
                continue
            left, right = (part[model].clone().requires_grad_() for part in (factors.left, factors.right))
            constant = weight.flatten(1) - (left @ right).detach()
            values[segment.name] = (left @ right + constant).view(weight.shape)
            leaves += [left, right]
        outputs = torch.func.functional_call(net, values, (example[None],))
        gradients = torch.autograd.grad(cross_entropy(outputs, label[None]).sum(), leaves)
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(rows)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kind", NETWORKS)
def test_clipped_sums_equal_autograd_through_the_factors(kind, copies):
    nets = [network(kind, seed) for seed in (0, 1)]
    stack, (x, y) = projected(nets, low_rank(2)), examples(2 * ROWS * copies)
    total = torch.zeros(2, stack.columns)
    batch = Batch((x,), y, 2 * ROWS)
    assert stack.projection.factors
    squares = accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
    for model, net in enumerate(nets):
        mine = slice(model * ROWS * copies, (model + 1) * ROWS * copies)
        each = by_autograd(stack, net, model, x[mine], y[mine]).view(ROWS, copies, -1).mean(1)
        norms = each.norm(dim=1)
        clipped = each * (0.3 / norms).clamp(max=1)[:, None]
        torch.testing.assert_close(squares.view(2, -1)[model].sqrt(), norms, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(total[model], clipped.sum(0), rtol=1e-3, atol=1e-5)
        assert float(norms.max()) > 0.3


def always(segment, rank, sides):
    """Factors for every matrix, however small."""
    out, *wide = segment.shape
    width = (segment.stop - segment.start) // out
    left = Segment(f"{segment.name}/left", (out, rank), 0, out * rank)
    return (left, Segment(f"{segment.name}/right", (rank, *wide), 0, rank * width))


def one_step(descent, net, x, y, noise=0.0):
    training = Training(
        descent, members([net], [noise]), prepare([net], descent.loss, x, y, "cpu"), rows=len(x), rng=Rng(0)
    )
    training.one_step()
    return training


def test_full_rank_without_noise_is_the_full_gradient(monkeypatch):
    monkeypatch.setattr(module_under_test, "_carriers", always)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Unflatten(1, (2, 3, 4)), nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(18, 3))
    x, y = examples()
    settings = {"sampler": FullBatch(), "clip": flat(float("inf"))}
    plain = one_step(recipe(**settings), net, x, y)
    low = one_step(recipe(**settings, projection=low_rank(3)), net, x, y)
    assert set(low.stack.projection.factors) == {"1.weight", "4.weight"}
    torch.testing.assert_close(low.state.theta, plain.state.theta, rtol=1e-4, atol=1e-6)
    lower = one_step(recipe(**settings, projection=low_rank(1)), net, x, y)
    assert float((lower.state.theta - plain.state.theta).norm()) > 1e-3


def test_parameters_without_factors_get_their_own_gradient():
    """The output layer too, which is not trained any slower than the others."""
    net, (x, y) = network("linear"), examples()
    settings = {"sampler": FullBatch(), "clip": flat(float("inf"))}
    plain = one_step(recipe(**settings), net, x, y)
    low = one_step(recipe(**settings, projection=low_rank(3)), net, x, y)
    segments = [segment for segment in low.stack.segments if segment.name not in low.stack.projection.factors]
    assert {segment.name for segment in segments} == {"0.bias", "4.weight", "4.bias"}
    for segment in segments:
        part = slice(segment.start, segment.stop)
        torch.testing.assert_close(low.state.theta[:, part], plain.state.theta[:, part])


@pytest.mark.parametrize("sides", ["both", "left"])
def test_rebuilt_gradient_is_a_projection(sides):
    stack = projected([network("linear")], low_rank(3, sides))
    factors = stack.projection.factors["0.weight"]
    for part in (factors.left[0], factors.right[0].T):
        torch.testing.assert_close(part.T @ part, torch.eye(3), atol=1e-5, rtol=0)
    gradient = torch.randn(1, 10, 24, generator=torch.Generator().manual_seed(0))

    def rebuilt(values):
        by_right = factors.left.mT @ values if sides == "both" else None
        return factors.rebuilt(values @ factors.right.mT, by_right)

    once = rebuilt(gradient)
    assert float(once.norm()) < float(gradient.norm())
    torch.testing.assert_close(rebuilt(once), once, atol=1e-5, rtol=1e-4)


def test_factors_follow_the_change_of_the_weights():
    stack = projected([network("linear")], low_rank(2))
    generator = torch.Generator().manual_seed(0)
    change = torch.randn(10, 2, generator=generator) @ torch.randn(2, 24, generator=generator)
    segment = stack.segments[0]
    matrix = stack.view(stack.theta, segment)[0]
    before = matrix / matrix.norm()
    change *= -2 * (before * change).sum() / change.square().sum()  # then the sum has length 1 again
    matrix.copy_(3 * (before + change))
    stack.projection.refresh(None, 1)
    factors = stack.projection.factors[segment.name]
    inside = factors.left[0] @ factors.left[0].T @ change @ factors.right[0].T @ factors.right[0]
    torch.testing.assert_close(inside, change, atol=1e-5, rtol=1e-4)


def by_householder(stack, step, generator):
    """Factors by Householder QR, one matrix after another."""
    factors = {}
    for segment in stack.segments:
        if segment.name not in stack.projection.factors:
            continue
        matrix, before = (
            stack.view(flat, segment).flatten(2) for flat in (stack.theta, stack.projection.tensors["reference"])
        )
        if step:
            norms = (each.norm(dim=(1, 2), keepdim=True) for each in (matrix, before))
            matrix = matrix / next(norms) - before / next(norms)
        start = torch.empty_like(stack.projection.factors[segment.name].right).normal_(generator=generator)
        left = torch.linalg.qr(matrix @ start.mT).Q
        factors[segment.name] = left, torch.linalg.qr(matrix.mT @ left).Q.mT
    return factors


@pytest.mark.parametrize("kind", NETWORKS)
def test_factors_span_what_householder_qr_spans(kind):
    stack = projected([network(kind, seed) for seed in (0, 1)], low_rank(2))
    generator = Rng(0).torch("initial", "cpu")
    change = torch.randn(stack.theta.shape, generator=torch.Generator().manual_seed(0))
    for step in (0, 1):
        stack.theta.add_(0.1 * step * change)
        if step:
            stack.projection.refresh(None, step)
        for name, (left, right) in by_householder(stack, step, generator).items():
            found = stack.projection.factors[name]
            torch.testing.assert_close(found.left @ found.left.mT, left @ left.mT, atol=1e-4, rtol=0)
            torch.testing.assert_close(found.right.mT @ found.right, right.mT @ right, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["zeros", "rank 1", "one row", "one column", "not finite", "unchanged"])
def test_factors_of_matrices_of_low_rank_are_orthonormal(kind):
    stack = projected([network("repeated", seed) for seed in (0, 1)], low_rank(3))
    for segment in stack.segments:
        values = stack.view(stack.theta, segment)
        if kind == "rank 1" and values.ndim == 3:
            values.copy_(values[:, :, :1] * values[:, :1])
        elif kind == "one row":
            values[:, 1:] = 0
        elif kind == "one column" and values.ndim == 3:
            values[:, :, 1:] = 0
        elif kind in ("zeros", "not finite"):
            values[:1] = 0.0 if kind == "zeros" else float("nan")  # of one model
    stack.projection.refresh(None, 1 if kind == "unchanged" else 0)
    for factors in stack.projection.factors.values():
        for part in (factors.left, factors.right.mT):
            torch.testing.assert_close(part.mT @ part, torch.eye(3).expand(2, 3, 3), atol=1e-5, rtol=0)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", NETWORKS)
def test_factors_on_a_gpu_span_what_those_on_a_cpu_span(kind):
    """Of matrices with the rank of the factors, whose span the random start does not change."""
    nets, found = [network(kind, seed) for seed in (0, 1)], []
    for parameter in (parameter for net in nets for parameter in net.parameters() if parameter.ndim > 1):
        left, sizes, right = torch.linalg.svd(parameter.data.flatten(1), full_matrices=False)
        parameter.data.copy_((left[:, :2] * sizes[:2] @ right[:2]).view_as(parameter))
    for device in ("cpu", "cuda"):
        with matmul_precision("float32"):
            factors = projected(nets, low_rank(2), device=device).projection.factors
        found.append({name: (each.left @ each.left.mT, each.right.mT @ each.right) for name, each in factors.items()})
    for name, projectors in found[0].items():
        for one, other in zip(projectors, found[1][name], strict=True):
            torch.testing.assert_close(one, other.cpu(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["linear", "convolutions"])
def test_one_row_moves_the_sums_by_at_most_the_sensitivity(kind, monkeypatch):
    x, y = examples(80)
    descent = recipe(sampler=Poisson(rate=0.5), projection=low_rank(2), clip=flat(1e-3))
    ratio, _, _ = step_without_last(descent, [network(kind)], x, y, monkeypatch)
    assert 0.9 < ratio <= 1


def test_training_resumes_bit_for_bit(tmp_path):
    x, y = examples(40)
    net = network("linear")

    def trained(steps, path=None, net=net):
        descent = recipe(steps=6, update=momentum(0.5), projection=low_rank(2, warm_up=1))
        callbacks = Callbacks(checkpoint=None if path is None else Checkpoint(path, every=3), on_step=[stop_at(steps)])
        return flat_of(descent.run(net, x, y, noise=1.0, rows=40, rng=Rng(5), callbacks=callbacks))

    def stop_at(steps):
        def observer(training):
            if training.step == steps:
                raise KeyboardInterrupt

        return observer

    complete = trained(7)
    with pytest.raises(KeyboardInterrupt):
        trained(4, tmp_path / "state")
    assert torch.equal(trained(7, tmp_path / "state"), complete)


@pytest.mark.parametrize("wrong", [{"clip": per_layer(1.0)}, {"update": adam(0.1)}])
def test_clips_and_updates_that_do_not_fit_are_refused(wrong):
    with pytest.raises(WrongInput, match="projection: expected"):
        recipe(projection=low_rank(2), **wrong)


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"sides": "right"}, {"warm_up": -1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(WrongInput, match="low_rank: expected"):
        low_rank(**wrong)


def test_a_step_allocates_no_full_per_example_gradient():
    """Of a matrix of 400 x 400 an example takes 2 x 400 x 2 numbers, not 160,000."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 3))
    stack = projected([net], low_rank(2))
    x, y = torch.randn(64, 400), torch.zeros(64, dtype=torch.int64)
    largest = LargestTensor()
    with largest:
        accumulate(stack, cross_entropy, Batch((x,), y, 64), flat(1.0), 1.0, torch.zeros(1, stack.columns))
    assert largest.numbers <= 400 * 400  # the matrix itself
    assert stack.columns == 2 * (400 + 400) + 400 + 2 * (3 + 400) + 3
