"""Gradients in the coordinates of a subspace that public gradients span."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from privaware.descent import (
    Callbacks,
    Checkpoint,
    FullBatch,
    Poisson,
    _example_slices,
    anchored,
    automatic,
    cross_entropy,
    flat,
    members,
    momentum,
    squared,
)
from privaware.descent import _anchor_subspace as module_under_test
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._anchor_subspace import CANCELLING, ORTHONORMAL, _orthonormal, _residual_lengths
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision
from privaware.descent._rounding import ROUNDING
from privaware.descent._training import Training, prepare
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.descent.largest_tensor import LargestTensor
from tests.descent.neighbours import step_without_last
from tests.descent.small_training import RecordingRng, flat_of, recipe

ROWS = 12


def network(kind="convolutions", seed=0):
    torch.manual_seed(seed)
    if kind == "linear":
        return nn.Sequential(nn.Linear(24, 5), nn.Tanh(), nn.Linear(5, 3))
    return nn.Sequential(nn.Unflatten(1, (2, 3, 4)), nn.Conv2d(2, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(24, 3))


def examples(count=ROWS, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 24, generator=generator), torch.randint(3, (count,), generator=generator)


def settings(count=30, **changes):
    chosen = {"inputs": lambda: examples(count, 9)[0], "classes": 3, "directions": 8, "blocks": 2, **changes}
    return anchored(**chosen)


def projected(nets, chosen, seed=0, device="cpu"):
    stack = stacked(nets, device=device)
    stack.projection = chosen.bind(stack, Rng(seed))
    stack.projection.refresh(cross_entropy, 0)
    return stack


def plain_gradients(net, x, y):
    """(examples, trainable) by autograd, in float64."""
    rows = []
    for example, label in zip(x, y, strict=True):
        loss = cross_entropy(net(example[None]), label[None]).sum()
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))]))
    return torch.stack(rows).double()


def basis_of(projection, model=0):
    return torch.block_diag(*(basis[model] for _, basis in projection.bases))


def clipped(vectors, norm):
    return vectors * (norm / vectors.norm(dim=1, keepdim=True)).clamp(max=1)


@pytest.mark.parametrize("kind", ["convolutions", "linear"])
@pytest.mark.parametrize(("residual", "capturing"), [(0.4, False), (0.4, True), (None, False)])
def test_released_sums_equal_those_of_materialised_gradients(kind, residual, capturing):
    nets = [network(kind, seed) for seed in (0, 1)]
    stack, (x, y) = projected(nets, settings(residual=residual)), examples(2 * ROWS)
    total = torch.zeros(2, stack.columns)
    accumulate(stack, cross_entropy, Batch((x,), y, 2 * ROWS), flat(0.2), 0.2, total, capturing=capturing)
    released = stack.projection.released(total.double())
    for model, net in enumerate(nets):
        mine = slice(model * ROWS, (model + 1) * ROWS)
        basis, gradients = basis_of(stack.projection, model), plain_gradients(net, x[mine], y[mine])
        coordinates = gradients @ basis
        expected = clipped(coordinates, 0.2).sum(0)
        assert float(coordinates.norm(dim=1).max()) > 0.2
        if residual:
            rest = clipped(gradients - coordinates @ basis.T, 0.4 * 0.2).sum(0) / 0.4
            expected = torch.cat([rest, expected])
        torch.testing.assert_close(released[model], expected, rtol=0.02, atol=2e-3)


def test_bases_are_orthonormal_and_span_the_public_gradients():
    stack = projected([network()], settings(count=4, directions=1000))
    projection = stack.projection
    assert [block.stop - block.start for block in projection.blocks] == [4, 4]
    basis = basis_of(projection)
    torch.testing.assert_close(basis.T @ basis, torch.eye(8, dtype=torch.float64), atol=ORTHONORMAL, rtol=0)
    x, _ = examples(4, 9)
    anchors = plain_gradients(network(), x, projection.labels)
    for block in projection.blocks:
        own = torch.zeros_like(anchors)
        own[:, block.parameters] = anchors[:, block.parameters]
        torch.testing.assert_close(own @ basis @ basis.T, own, atol=1e-5, rtol=1e-4)


def vectors(kind):
    """(1, 60, 9) of full or lower rank."""
    generator = torch.Generator().manual_seed(0)
    tall, square = (torch.randn(1, size, 9, generator=generator, dtype=torch.float64) for size in (60, 9))
    if kind in ("near dependent", "rank 4"):
        sizes = torch.logspace(0, -10, 9) if kind == "near dependent" else torch.tensor([1.0] * 4 + [0.0] * 5)
        return torch.linalg.qr(tall).Q @ (sizes.double()[:, None] * square)
    if kind == "equal columns":
        return tall[:, :, [0, 0, 0, 1, 2, 3, 4, 5, 6]]
    if kind == "rows of zeros":
        tall[:, 4:] = 0
    return tall * {"zeros": 0.0, "tiny": 1e-300, "huge": 1e300}.get(kind, 1.0)


KINDS = ("random", "near dependent", "rank 4", "equal columns", "rows of zeros", "zeros", "tiny", "huge")


def expect_orthonormal_span(found, of):
    unit = torch.eye(found.shape[2], dtype=torch.float64, device=found.device)
    assert found.dtype == torch.float64
    assert bool((torch.linalg.matrix_norm(found.mT @ found - unit) <= 1.01 * ORTHONORMAL).all())
    of = of / of.abs().amax((1, 2), keepdim=True).clamp_min(1e-300)
    torch.testing.assert_close(found @ (found.mT @ of), of, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_orthonormal_columns_span_vectors_of_any_rank(kind):
    expect_orthonormal_span(_orthonormal(vectors(kind)), vectors(kind))


def test_orthonormal_columns_of_one_model_of_a_low_rank():
    both = torch.cat([vectors("zeros"), vectors("random")])
    expect_orthonormal_span(_orthonormal(both), both)


def test_vectors_that_are_not_finite_count_as_zeros():
    given = vectors("random")
    given[0, 0, 0], given[0, 1, 1] = math.nan, math.inf
    expect_orthonormal_span(_orthonormal(given), given.nan_to_num(0.0, 0.0, 0.0))


@pytest.mark.parametrize("kind", ["random", "near dependent", "rank 4", "rows of zeros", "zeros"])
def test_float32_vectors_need_householder_qr_for_zeros_only(kind, monkeypatch):
    """Rounding fills the columns that a low rank leaves free, but no rows of zeros."""
    given, calls, qr = vectors(kind).float(), [], torch.linalg.qr
    monkeypatch.setattr(torch.linalg, "qr", lambda values: calls.append(None) or qr(values))
    _orthonormal(given)
    assert bool(calls) == ("zeros" in kind)


def test_householder_qr_replaces_columns_that_fail_the_check(monkeypatch):
    for wrong in (1.0 + 1e-8, 0.0, math.nan):
        factor = torch.eye(9, dtype=torch.float64) * wrong
        monkeypatch.setattr(module_under_test, "inverse_factor", lambda gram, rows, factor=factor: factor)
        expect_orthonormal_span(_orthonormal(vectors("random")), vectors("random"))


@pytest.mark.parametrize("changes", [{"classes": 1}, {"inputs": lambda: torch.zeros(30, 24)}, {"directions": 40}])
def test_bases_are_orthonormal_if_gradients_are_alike_or_zero(changes):
    projection = projected([network("linear")], settings(blocks=4, **changes)).projection
    basis = basis_of(projection)
    torch.testing.assert_close(basis.T @ basis, torch.eye(len(basis.T), dtype=torch.float64), atol=ORTHONORMAL, rtol=0)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS)
def test_orthonormal_columns_on_a_gpu_span_the_vectors(kind):
    given = vectors(kind).cuda()
    expect_orthonormal_span(_orthonormal(given), given)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", ["convolutions", "linear"])
def test_bases_on_a_gpu_span_what_those_on_a_cpu_span(kind):
    """As many directions as public gradients, whose span the random start does not change."""
    found, chosen = [], settings(count=4, directions=1000)
    labels = projected([network(kind)], chosen).projection.labels
    for device in ("cpu", "cuda"):
        with matmul_precision("float32"):
            stack = projected([network(kind)], chosen, device=device)
            stack.projection.labels = labels.to(device)
            stack.projection.refresh(cross_entropy, 0)
            basis = basis_of(stack.projection).cpu()
            found.append(basis @ basis.T)
    torch.testing.assert_close(*found, atol=1e-4, rtol=0)


def test_slices_of_public_examples_give_the_same_subspace(monkeypatch):
    at_once = basis_of(projected([network()], settings()).projection)
    monkeypatch.setattr(module_under_test, "FLOATS_AT_ONCE", {"cpu": 700})
    in_slices = basis_of(projected([network()], settings()).projection)
    torch.testing.assert_close(at_once @ at_once.T, in_slices @ in_slices.T, atol=1e-5, rtol=0)


def training(descent, net, x, y, *, noise=0.0, rng=None):
    prepared = prepare([net], descent.loss, x, y, "cpu")
    return Training(descent, members([net], [noise]), prepared, rows=len(x), rng=rng or Rng(0))


def stepped(descent, net, x, y, **more):
    run = training(descent, net, x, y, **more)
    run.one_step()
    return run


def test_zero_noise_and_infinite_norm_is_plain_descent():
    net, (x, y) = network(), examples()
    unbounded = {"sampler": FullBatch(), "clip": flat(float("inf"))}
    plain = stepped(recipe(**unbounded), net, x, y)
    both = stepped(recipe(**unbounded, projection=settings()), net, x, y)
    torch.testing.assert_close(both.state.theta, plain.state.theta)
    biased = stepped(recipe(**unbounded, projection=settings(residual=None)), net, x, y)
    assert float((biased.state.theta - plain.state.theta).norm()) > 1e-3


def test_biased_with_all_directions_is_dpsgd_in_distribution():
    """The same clipped sum in a rotated basis, noise of the same deviation in each direction of it."""
    net, (x, y) = network(), examples()
    bounded, everything = {"sampler": FullBatch(), "clip": flat(0.1)}, settings(300, directions=10**6, residual=None)
    plain, rotated = RecordingRng(0), RecordingRng(0)
    first = stepped(recipe(**bounded), net, x, y, noise=1.0, rng=plain)
    second = stepped(recipe(**bounded, projection=everything), net, x, y, noise=1.0, rng=rotated)
    projection = second.stack.projection
    assert projection.directions == first.state.theta.shape[1]
    torch.testing.assert_close(projection.gradient(rotated.calls[0][0]), plain.calls[0][0], atol=1e-4, rtol=1e-3)
    assert rotated.calls[0][1:] == plain.calls[0][1:]
    basis = basis_of(projection)
    torch.testing.assert_close(basis @ basis.T, torch.eye(len(basis), dtype=torch.float64), atol=ORTHONORMAL, rtol=0)


def test_both_parts_are_one_release_of_root_two_times_the_norm():
    net, (x, y) = network(), examples()
    for residual, parts in ((0.4, 2), (None, 1)):
        rng = RecordingRng(0)
        run = stepped(recipe(clip=flat(0.1), projection=settings(residual=residual)), net, x, y, noise=3.0, rng=rng)
        (exact, noise, sensitivity) = rng.calls[0]
        assert len(rng.calls) == 1
        assert noise == 3.0
        assert sensitivity == pytest.approx(0.1 * math.sqrt(parts) * (1 + ROUNDING))
        trainable = run.state.theta.shape[1]
        assert exact.shape[1] == run.stack.projection.directions + (trainable if residual else 0)


def test_sums_that_cancel_are_of_smaller_groups():
    x, y = examples(400)
    sizes = [
        training(recipe(sampler=FullBatch(), projection=chosen), network(), x, y, noise=1.0).layout.group
        for chosen in (settings(residual=None), settings())
    ]
    assert sizes[0] > 100
    assert sizes[1] < 60


def few_residuals(count):
    """Public examples that are the private ones: residuals are short."""
    return anchored(inputs=lambda: examples(count)[0], classes=3, directions=10**6, blocks=1)


@pytest.mark.parametrize("chosen", [settings(), settings(residual=None), few_residuals(80)])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_one_row_moves_the_release_by_at_most_the_sensitivity(chosen, scale, monkeypatch):
    x, y = examples(80)
    descent = recipe(sampler=Poisson(rate=0.5), projection=chosen, clip=flat(1e-3))
    ratio, _, _ = step_without_last(descent, [network("linear")], x * scale, y, monkeypatch)
    assert 0.5 < ratio <= 1


def test_residuals_are_never_longer_than_their_norm():
    """In exact arithmetic on the numbers really used, also where nearly all of a gradient lies in the subspace."""
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(500, 200, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(200, 150, generator=generator, dtype=torch.float64)).Q
    inside = gradients @ basis @ basis.T
    for share in (1.0, 0.1, 1e-3, 1e-6, 0.0):
        mixed = (inside + share * (gradients - inside)).float()
        coordinates = (mixed.double() @ basis).float()
        sizes = mixed.double().norm(dim=1)
        squares = (sizes.square() * (1 - 2.0**-8)).float()  # a norm as wrong as `_rounding.py` admits
        lengths = _residual_lengths(squares.double(), coordinates.double().square().sum(1))
        residuals = (mixed.double() - coordinates.double() @ basis.T).norm(dim=1)
        assert bool((residuals + 2.0**-8 * sizes <= lengths).all())  # what is summed again, as wrong as admitted
        assert bool((squares.double().sqrt() <= CANCELLING * lengths * (1 + 1e-9)).all())


def test_an_example_that_is_not_finite_adds_nothing():
    stack, (x, y) = projected([network()], settings()), examples()
    sums = []
    for count in (ROWS, ROWS - 1):
        few = x[:count].clone()
        if count == ROWS:
            few[-1] = math.inf
        total = torch.zeros(1, stack.columns)
        accumulate(stack, cross_entropy, Batch((few,), y[:count], count), flat(0.2), 0.2, total)
        sums.append(total)
    torch.testing.assert_close(*sums)


def test_padding_adds_nothing():
    stack, (x, y) = projected([network()], settings()), examples()
    sums = []
    for valid, count in ((None, ROWS - 4), (torch.tensor([1.0] * (ROWS - 4) + [0.0] * 4), ROWS)):
        total = torch.zeros(1, stack.columns)
        accumulate(stack, cross_entropy, Batch((x[:count],), y[:count], count, valid), flat(0.2), 0.2, total)
        sums.append(total)
    torch.testing.assert_close(*sums)


def test_a_subspace_is_kept_for_some_steps():
    net, (x, y) = network(), examples()
    run = training(recipe(projection=settings(refresh=2)), net, x, y, noise=1.0)
    seen = []
    for _ in range(4):
        run.one_step()
        seen.append(basis_of(run.stack.projection).clone())
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], seen[3])
    assert not torch.equal(seen[1], seen[2])


def test_training_resumes_bit_for_bit(tmp_path):
    net, (x, y) = network(), examples(40)

    def trained(stop, path=None, seed=9):
        def interrupt(state):
            if state.step == stop:
                raise KeyboardInterrupt

        chosen = settings(refresh=2, inputs=lambda: examples(30, seed)[0])
        descent = recipe(steps=7, update=momentum(0.5), projection=chosen)
        checkpoint = None if path is None else Checkpoint(path, every=3)
        callbacks = Callbacks(checkpoint=checkpoint, on_step=[interrupt])
        return flat_of(descent.run(net, x, y, noise=1.0, rows=40, rng=Rng(5), callbacks=callbacks))

    complete = trained(None)
    with pytest.raises(KeyboardInterrupt):
        trained(5, tmp_path / "state")
    assert torch.equal(trained(None, tmp_path / "state"), complete)
    with pytest.raises(WrongInput, match="the settings that"):
        trained(None, tmp_path / "state", seed=8)


def test_regression_has_random_targets():
    torch.manual_seed(0)
    net, (x, _) = nn.Linear(24, 1), examples(40)
    chosen = settings(classes=0)
    run = stepped(recipe(loss=squared, projection=chosen), net, x, torch.zeros(40, 1), noise=1.0)
    assert bool((run.stack.projection.labels.abs() <= 1).all())
    assert run.stack.projection.labels.shape == (30, 1)


@pytest.mark.parametrize("wrong", [{"clip": automatic(1.0)}, {"precision": "tf32"}])
def test_clips_and_precisions_without_a_bound_are_refused(wrong):
    with pytest.raises(WrongInput, match="projection: expected"):
        recipe(projection=settings(), **wrong)


@pytest.mark.parametrize("wrong", [{"directions": 0}, {"blocks": 0}, {"refresh": 0}, {"residual": 0.0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(WrongInput, match="anchored: expected"):
        settings(**wrong)


def test_per_example_gradients_are_materialised_in_slices(monkeypatch):
    """Those of all 64 examples would be 10 million numbers."""
    monkeypatch.setattr(_example_slices, "FLOATS_AT_ONCE", 2**19)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 3))
    x, y = torch.randn(64, 400), torch.zeros(64, dtype=torch.int64)
    stack = projected([net], settings(inputs=lambda: x[:4], directions=3, blocks=1))
    largest = LargestTensor()
    with largest:
        accumulate(stack, cross_entropy, Batch((x,), y, 64), flat(1.0), 1.0, torch.zeros(1, stack.columns))
    assert largest.numbers <= 2**19
