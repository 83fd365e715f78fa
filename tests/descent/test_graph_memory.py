"""A captured step reads only memory that it owns: other tensors that come and go between steps change no bit."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privaware import features
from privaware.descent import (
    Descent,
    FullBatch,
    Member,
    Poisson,
    adam,
    anchored,
    ema,
    flat,
    gradient_queries,
    low_rank,
    members,
    momentum,
    per_layer,
    quantile,
    sgd,
)
from privaware.descent import _loop as loop
from privaware.descent._cuda_graph import CapturedStep
from privaware.descent._precision import matmul_precision
from privaware.descent._training import Training, prepare
from privaware.learners._networks.augmentation import jittered, shifted
from privaware.learners.finetune import Finetune
from privaware.noise import Rng
from privaware.schema import Schema
from tests.learners.tiny_prior import tiny_prior

pytestmark = pytest.mark.cuda

ROWS = 96
STEPS = 6
SIZES = sorted({size + more for size in (ROWS, ROWS // 2, 32, 512, 4096, 50_000, 2**20) for more in (0, 1)})
"""Numbers in the tensors that are allocated between steps; those of the index tensors of the steps are among them."""


class Uncaptured(CapturedStep):
    """The same step without a graph: each part of it runs eagerly, with the same random draws."""

    def _capture(self, bodies: list[Callable[[], None]]) -> None:
        self.training.rng.counters(self.training.stack.device)  # the keys are drawn here, as in a capture
        self.graphs.extend(SimpleNamespace(replay=body) for body in bodies)  # type: ignore[misc]
        self.training.exact_sum.start()


def disturb(held: list[torch.Tensor]) -> None:
    """Allocates tensors of many sizes, all of them valid as indices and as masks, and frees half of them."""
    for size in SIZES:
        held += [torch.ones(size, dtype=kind, device="cuda") for kind in (torch.int64, torch.int64, torch.float32)]
    del held[::2]


def table() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 12, generator=generator), torch.arange(ROWS) % 3


def images() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 1, 8, 8, generator=generator), torch.arange(ROWS) % 3


def perceptron(seed: int = 0, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Dropout(dropout), nn.Linear(9, 3))


def convolutions(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )


def recipe(**changes: Any) -> Descent:
    settings = {"steps": STEPS, "sampler": Poisson(rate=0.3), "clip": flat(0.5), "update": sgd(0.5)}
    return Descent(**{**settings, **changes})


def training(descent: Descent, modules: list[nn.Module], rows: Any, subsets: Any = None) -> Training:
    population = (
        members(modules, noise=[1.0] * len(modules))
        if subsets is None
        else [Member(module, 1.0, subset=subset) for module, subset in zip(modules, subsets, strict=True)]
    )
    prepared = prepare(modules, descent.loss, *rows, "cuda")
    return Training(descent, population, prepared, rows=ROWS, rng=Rng(seed=3))


def fine_tuned() -> Training:
    schema = Schema(form="image", shape=(1, 6, 6), classes=("dark", "light"), rows=ROWS)
    learner = Finetune(prior=tiny_prior(), steps=STEPS, batch=ROWS // 3, copies=2, lr=0.1)
    images = np.random.default_rng(0).random((ROWS, 1, 6, 6), np.float32)
    rows = torch.from_numpy(features.apply(learner._features, images, schema)), torch.arange(ROWS) % 2
    return training(learner._descent(schema, 1.0), [learner._network(schema)], rows)


PAIR = [perceptron(0), perceptron(1)]
HALVES = [np.arange(0, ROWS, 2), np.arange(ROWS // 3)]
ANCHORS = anchored(inputs=lambda: table()[0][:20], classes=3, directions=5, blocks=2, refresh=2)

STEPS_OF: dict[str, Callable[[], Training]] = {
    "full batch": lambda: training(recipe(sampler=FullBatch()), [perceptron()], table()),
    "full batch in microbatches": lambda: training(
        recipe(sampler=FullBatch(), microbatch=20), [convolutions()], images()
    ),
    "full batch of a population": lambda: training(recipe(sampler=FullBatch()), PAIR, table()),
    "full batch of subsets": lambda: training(recipe(sampler=FullBatch()), PAIR, table(), HALVES),
    "host samples": lambda: training(recipe(update=momentum(0.3)), [convolutions()], images()),
    "host samples in microbatches": lambda: training(recipe(microbatch=7), [perceptron()], table()),
    "host samples of a population": lambda: training(recipe(update=adam(0.05)), PAIR, table()),
    "host samples of subsets": lambda: training(recipe(), PAIR, table(), HALVES),
    "drawn on the device": lambda: training(recipe(overflow=1e-6), [convolutions()], images()),
    "drawn for a population": lambda: training(recipe(overflow=1e-6, average=ema(0.5)), PAIR, table()),
    "drawn from subsets": lambda: training(recipe(overflow=1e-6), PAIR, table(), HALVES),
    "per-layer clipping": lambda: training(recipe(clip=per_layer(0.5)), PAIR, table()),
    "quantile clipping": lambda: training(recipe(clip=quantile(norm=0.5, count_noise=9.0)), PAIR, table()),
    "low-rank projection": lambda: training(recipe(projection=low_rank(rank=2)), [perceptron()], table()),
    "anchored projection": lambda: training(recipe(projection=ANCHORS), [perceptron()], table()),
    "anchored full batch": lambda: training(recipe(projection=ANCHORS, sampler=FullBatch()), PAIR, table()),
    "shifted copies": lambda: training(recipe(copies=2, augment=shifted), [convolutions()], images()),
    "jittered rows": lambda: training(recipe(augment=jittered, sampler=FullBatch()), [perceptron()], table()),
    "dropout": lambda: training(recipe(), [perceptron(0, 0.4), perceptron(1, 0.4)], table()),
    "dropout, full batch": lambda: training(recipe(sampler=FullBatch()), [perceptron(0, 0.4)], table()),
    "fine-tuning": fine_tuned,
}


def parameters(prepare_training: Callable[[], Training], *, others: bool) -> list[torch.Tensor]:
    """The parameters after each step; with `others`, other tensors come and go between the steps."""
    with matmul_precision("float32"):
        run, held, after = prepare_training(), [], []
        step = loop.stepper(run)
        for _ in range(STEPS):
            if others:
                disturb(held)
            step()
            after.append(run.state.theta.clone())
    return after


def assert_same_bits(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    assert all(torch.isfinite(values).all() for values in one)
    assert not torch.equal(one[0], one[-1])
    assert [at for at, pair in enumerate(zip(one, other, strict=True)) if not torch.equal(*pair)] == []


@pytest.mark.parametrize("kind", STEPS_OF)
def test_p51_a_graph_owns_the_memory_it_reads(kind: str) -> None:
    assert_same_bits(*(parameters(STEPS_OF[kind], others=others) for others in (False, True)))


@pytest.mark.parametrize("kind", STEPS_OF)
def test_a_captured_step_is_the_eager_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = parameters(STEPS_OF[kind], others=True)
    monkeypatch.setattr(loop, "CapturedStep", Uncaptured)
    assert_same_bits(parameters(STEPS_OF[kind], others=False), captured)


def answers(sampler: Any, *, others: bool) -> list[torch.Tensor]:
    held: list[torch.Tensor] = []
    facts: dict[str, Any] = {"noise": 1.0, "rows": ROWS, "rng": Rng(seed=2), "device": "cuda"}
    gradients = []
    with gradient_queries(recipe(sampler=sampler), perceptron(), *table(), **facts) as query:
        for seed in range(STEPS):
            if others:
                disturb(held)
            gradients.append(torch.cat([values.flatten() for values in query(perceptron(seed)).values()]))
    return gradients


@pytest.mark.parametrize("sampler", [FullBatch(), Poisson(rate=0.3)], ids=["full batch", "Poisson"])
def test_gradient_queries_own_the_memory_they_read(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = answers(sampler, others=True)
    assert_same_bits(answers(sampler, others=False), captured)
    monkeypatch.setattr(loop, "CapturedStep", Uncaptured)
    assert_same_bits(answers(sampler, others=False), captured)


class Overwritten(CapturedStep):
    """A planted bug: after the capture, the memory of the index tensors of a full batch has other contents."""

    def _capture(self, bodies: list[Callable[[], None]]) -> None:
        super()._capture(bodies)
        for selection in self.full_batch:
            selection.index.zero_()  # type: ignore[union-attr]


def test_a_graph_that_reads_other_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = parameters(STEPS_OF["full batch of a population"], others=True)
    monkeypatch.setattr(loop, "CapturedStep", Overwritten)
    with pytest.raises(AssertionError):
        assert_same_bits(right, parameters(STEPS_OF["full batch of a population"], others=True))
