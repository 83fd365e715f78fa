"""The DPNAS search: it pays for steps and scores, and rows reach it through noised values only."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privaware import accounting
from privaware.data import Data
from privaware.descent import _training
from privaware.errors import WrongInput
from privaware.events import Disjoint, Gaussian, leaves
from privaware.learners.dpsgd import DpSgd
from privaware.models.dpnas import OPERATIONS
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._dpnas import weights as _dpnas_weights
from privaware.strategies._dpnas.cells import point_of, uniform_cells
from privaware.strategies._search import Search
from privaware.strategies._strategy import Runtime
from privaware.strategies.dpnas import DpNas
from privaware.testing import BrokenPromise, check_mechanism, check_strategy, record, rows_for

IMAGE = Schema(form="image", shape=(1, 4, 4), classes=("a", "b", "c"), rows=24)
NETWORK = {"channels": [2], "squeeze": 2, "hidden": 2, "groups": 1}
TINY = DpNas(
    epochs=2,
    warm_up=1,
    rate=0.5,
    updates=1,
    cells=2,
    derived=2,
    nodes=1,
    hidden=4,
    lr=1.0,
    reward_noise=2.0,
    network=NETWORK,
    microbatch=32,
)


@dataclass(frozen=True)
class Alone:
    """The search without the training that follows: what `Search` does before it."""

    strategy: Any
    held_out: float = 0.4
    public: bool = False

    def cost(self, schema: Schema, noise: float) -> Any:
        return self.strategy.cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> dict[str, str]:
        train, held = data.split(rng, (1 - self.held_out, self.held_out))
        return self.strategy.find(train, held, noise, rng, public=self.public)


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the engine's probe on synthetic examples, which sees no data: it would be most of hundreds of tiny runs."""
    monkeypatch.setattr(_training, "needs_materialising", lambda *_: False)
    monkeypatch.setattr(_dpnas_weights, "needs_materialising", lambda *_: False)


@pytest.mark.usefixtures("unprobed")
def test_search_with_sampled_validation_rows_keeps_the_contract() -> None:
    check_mechanism(Alone(replace(TINY, held_rate=0.5)), data=rows_for(IMAGE, 3), games=0)


@pytest.mark.usefixtures("unprobed")
def test_dpnas_keeps_the_protocol() -> None:
    space = Space.load({"choices": {"edge_0_1": list(OPERATIONS)}, "build": {}})
    check_strategy(TINY, space=space, data=rows_for(IMAGE, 2))


def test_training_of_the_found_cell_is_in_the_cost() -> None:
    network = {**NETWORK, "name": "dpnas", "cell": ["$edge_0_1"]}
    choices = {"edge_0_1": list(OPERATIONS)}
    space = Space.load({"choices": choices, "build": {"architecture": network}})
    search = Search(space=space, strategy=TINY, build=trained, held_out=0.4)
    result = search.run(rows_for(IMAGE, 24), 1.0, Rng(seed=2))
    assert result.model.architecture["cell"] == [result.point["edge_0_1"]]
    once = accounting.epsilon(search.model_cost(IMAGE, 4.0), 1e-5)
    assert accounting.epsilon(search.cost(IMAGE, 4.0), 1e-5) > once


def test_resumed_search_releases_the_same_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("privaware.strategies.dpnas.CHECKPOINT_EPOCHS", 1)
    network = {**NETWORK, "name": "dpnas", "cell": ["$edge_0_1"]}
    choices = {"edge_0_1": list(OPERATIONS)}
    space = Space.load({"choices": choices, "build": {"architecture": network}})
    strategy, rows = replace(TINY, epochs=4), rows_for(IMAGE, 24)
    search = Search(space=space, strategy=strategy, build=trained, held_out=0.4)
    uninterrupted = search.run(rows, 1.0, Rng(seed=6))

    def kill(progress: Any) -> None:
        if progress.trained == 3:
            raise KeyboardInterrupt

    journaled = replace(search, journal=tmp_path / "journal")
    with pytest.raises(KeyboardInterrupt):
        replace(journaled, progress=kill).run(rows, 1.0, Rng(seed=6))
    epochs: list[int] = []
    resumed = replace(journaled, progress=lambda progress: epochs.append(progress.trained)).run(rows, 1.0, Rng(seed=7))
    assert epochs == [3, 4]
    assert resumed.point == uninterrupted.point
    for name, values in uninterrupted.model.tensors.items():
        np.testing.assert_array_equal(resumed.model.tensors[name], values)


def trained(settings: dict[str, Any]) -> DpSgd:
    return DpSgd(**settings, steps=2, batch=8, average=0.0)


def test_scores_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(self: Any, cells: list[Any], rate: float = 1.0) -> np.ndarray:
        self.rng.gaussian(np.zeros(len(cells)), noise=self.noise, sensitivity=1.0)
        return np.asarray(self.weights.count_correct(cells, self.inputs, self.targets, self.rows) / self.rows)

    monkeypatch.setattr(_dpnas_weights.CellScorer, "__call__", exact)
    many = Alone(replace(TINY, derived=12))  # of several, the best changes with a row
    with pytest.raises(BrokenPromise, match="the release differs"):
        check_mechanism(many, data=rows_for(IMAGE, 8), games=0)


def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _training.accumulate
    monkeypatch.setattr(_training, "accumulate", lambda *a, **more: real(*a[:4], 1e6, *a[5:], **more))
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        check_mechanism(Alone(replace(TINY, norm=1e-3)), data=rows_for(IMAGE, 6), games=0)


def test_p14_every_step_and_every_score_is_in_the_cost() -> None:
    search = DpNas(epochs=5, warm_up=2, rate=0.1, updates=3, reward_noise=8.0)
    price = search.cost(IMAGE, 1.5)
    assert isinstance(price, Disjoint)
    steps, scores = price.events
    assert list(leaves(steps)) == [(Gaussian(noise=1.5).sampled(rate=0.1), 50)]
    assert list(leaves(scores)) == [(Gaussian(noise=12.0), 3 * 3 + 1)]
    both = [accounting.epsilon(event, 1e-5) for event in (steps, scores)]
    assert accounting.epsilon(price, 1e-5) == pytest.approx(max(both), rel=1e-3)
    assert both[1] > accounting.epsilon(Gaussian(noise=12.0), 1e-5)


def test_recorded_calls_equal_the_cost() -> None:
    run = record(Alone(TINY), rows_for(IMAGE, 12), 1.0)
    kinds = [call.kind for call in run.calls if call.kind != "shards"]
    steps, scores = TINY.epochs * TINY.epoch_steps, TINY.controller_updates + 1
    assert kinds == ["poisson", "gaussian"] * (steps + scores)


def test_uniform_policy_pays_for_the_last_scores_only() -> None:
    assert replace(TINY, policy="uniform").controller_updates == 0
    assert list(leaves(replace(TINY, policy="uniform").part_costs(1.0)[1])) == [(Gaussian(noise=2.0), 1)]


def test_search_without_noise_needs_public_rows() -> None:
    with pytest.raises(WrongInput):
        TINY.cost(IMAGE, 0.0)
    rows = rows_for(IMAGE, 12)
    with pytest.raises(WrongInput, match="unless the rows are public"):
        TINY.find(rows, rows, 0.0, Rng(seed=1))
    run = record(Alone(TINY, public=True), rows, 2.0)
    noises = [call.public["noise"] for call in run.calls if call.kind == "gaussian"]
    assert noises == [TINY.aware] * (TINY.epochs * TINY.epoch_steps)  # of steps; scores are exact
    quiet = record(Alone(TINY, public=True), rows, 0.0)
    assert not [call for call in quiet.calls if call.kind == "gaussian"]


def test_step_changes_only_the_weights_of_its_cell() -> None:
    rng = Rng(seed=3)
    shared = replace(TINY, lr=5.0, nodes=2)._shared_weights(rows_for(IMAGE, 24), 1.0, rng, "cpu")
    cell = ("tanh", "zero", "selu")
    before = {name: p.clone() for name, p in shared.supernet.named_parameters()}
    shared.step(cell)
    for name, edge in shared.supernet.parameter_edges().items():
        changed = not torch.equal(before[name], dict(shared.supernet.named_parameters())[name])
        assert changed == (edge is None or cell[edge[0]] == edge[1]), name
    velocity = shared.training.state.update["velocity"][0]
    assert int((velocity != 0).sum()) <= int(shared.training.state.update["active"].sum())


def by_number_of_rows(module: Any, rows: Any, logits: torch.Tensor) -> torch.Tensor:
    """Change the logits with the number of rows in the microbatch, as matrix products of other shapes round."""
    return logits + 100.0 * (len(logits) % 2) * torch.tensor([1.0, 0.0, 0.0])


def by_position(module: Any, rows: Any, logits: torch.Tensor) -> torch.Tensor:
    """Change the logits with the position of a row in the microbatch, as rows at its end may be rounded differently."""
    return logits + 100.0 * (torch.arange(len(logits)) % 2)[:, None] * torch.tensor([1.0, 0.0, 0.0])


@pytest.mark.parametrize("arithmetic", [by_number_of_rows, by_position])
def test_p39_a_validation_row_moves_the_count_of_a_cell_by_one(arithmetic: Any) -> None:
    shared = TINY._shared_weights(rows_for(IMAGE, 24), 1.0, Rng(seed=3), "cpu")
    shared.supernet.register_forward_hook(arithmetic)
    images, _ = _dpnas_weights.tensors_of(rows_for(IMAGE, 24), "cpu")

    def exact_counts(rows: np.ndarray) -> np.ndarray:
        classes = torch.zeros(len(rows), dtype=torch.int64)
        return shared.count_correct([("selu",), ("max_pool",)], images[rows], classes, IMAGE.rows)

    every = np.arange(24)
    for removed in (0, 11, 23):
        moved = exact_counts(every) - exact_counts(np.delete(every, removed))
        np.testing.assert_array_equal(moved, exact_counts(every[[removed]]))


def test_search_learns_classes_that_differ_by_brightness() -> None:
    """Shared weights learn (cells score above chance), and the best cell scores well with them."""
    schema = replace(IMAGE, classes=("dark", "bright"), rows=200)
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=300)
    x = (0.25 + 0.5 * y[:, None, None, None] + 0.2 * rng.random((300, 1, 4, 4))).astype(np.float32)
    rows = Data(schema=schema, x=x, y=y)
    train, held_out = rows.take(np.arange(200)), rows.take(np.arange(200, 300))
    held_out = replace(held_out, schema=replace(schema, rows=100))
    accuracies: list[float] = []

    def watch(epoch: int, shared: Any, controller: Any) -> None:
        cells = uniform_cells(6, 2, np.random.default_rng(0))
        counts = shared.count_correct(cells, *_dpnas_weights.tensors_of(held_out, "cpu"), 100)
        accuracies.append(float(counts.mean() / 100))

    big = {"channels": [4], "squeeze": 4, "hidden": 8, "groups": 2}
    search = replace(TINY, nodes=2, epochs=12, warm_up=6, rate=0.25, lr=4.0, network=big)
    result = search.search(train, held_out, 0.2, Rng(seed=5), public=True, runtime=Runtime(on_epoch=watch))
    assert accuracies[-1] > 0.75
    assert result.score > 0.8
    assert result.score == max(result.scores)
    proposals = result.proposals(40, np.random.default_rng(1))
    assert proposals == result.proposals(40, np.random.default_rng(1))
    assert len(set(proposals)) > 1


def test_interrupted_search_resumes_bit_for_bit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("privaware.strategies.dpnas.CHECKPOINT_EPOCHS", 2)
    rows, search = rows_for(IMAGE, 24), replace(TINY, epochs=7, nodes=2, derived=6)

    def crash(epoch: int, shared: Any, controller: Any) -> None:
        if epoch == 4:
            raise KeyboardInterrupt

    file = tmp_path / "search.npz"
    uninterrupted = search.search(rows, rows, 1.0, Rng(seed=3))
    with pytest.raises(KeyboardInterrupt):
        search.search(rows, rows, 1.0, Rng(seed=3), runtime=Runtime(checkpoint=file, on_epoch=crash))
    epochs: list[int] = []
    runtime = Runtime(checkpoint=file, on_epoch=lambda epoch, *_: epochs.append(epoch))
    resumed = search.search(rows, rows, 1.0, Rng(seed=99), runtime=runtime)
    assert epochs == [4, 5, 6]
    assert (resumed.cells, resumed.scores) == (uninterrupted.cells, uninterrupted.scores)
    with pytest.raises(WrongInput, match="settings"):
        replace(search, lr=9.0).search(rows, rows, 1.0, Rng(seed=3), runtime=Runtime(checkpoint=file))


def test_cells_are_points_of_the_space() -> None:
    space = Space.load("dpnas")
    for cell in uniform_cells(5, 5, np.random.default_rng(2)):
        assert tuple(space.canonical(point_of(cell)).values()) == cell
        assert space.settings(point_of(cell))["architecture"]["cell"] == list(cell)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"rate": 0.0},
        {"nodes": 6},
        {"policy": "best"},
        {"norm": float("inf")},
        {"reward_noise": 0.0},
        {"cells": True},
    ],
)
def test_invalid_setting_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match=next(iter(wrong))):
        replace(TINY, **wrong)


def test_tables_are_refused() -> None:
    from privaware.testing import example

    table = rows_for(example(), 6)
    with pytest.raises(WrongInput, match="expected images"):
        TINY.find(table, table, 1.0, Rng(seed=1))


def test_option_and_setting_of_one_name_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a command would continue a search that another command, of another learning rate, had begun."""
    verb = importlib.import_module("privaware.workflow.search")
    recorded: list[Any] = []

    def record_settings(schema: Schema, *, settings: Any, **rest: Any) -> None:
        recorded.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "search_plan", record_settings)
    arguments: Any = {"space": "dpnas", "strategy": "dpnas", "settings": {"lr": 1.0}, "dry_run": True}
    for lr in (0.1, 0.2):
        with pytest.raises(KeyboardInterrupt):
            verb.search("digits", options={"lr": lr}, model_epsilon=3.0, **arguments)
    assert [settings["options"]["lr"] for settings in recorded] == [0.1, 0.2]
    assert [settings["lr"] for settings in recorded] == [1.0, 1.0]


@pytest.mark.parametrize("held_rate", [1.0, 0.5])
@pytest.mark.usefixtures("unprobed")
def test_fixed_releases_give_one_search_for_any_number_of_rows(held_rate: float) -> None:
    """Proposals, updates of the controller and the found cell use no generator that private rows moved."""

    class Fixed(Rng):
        def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
            ramp = np.linspace(0.01, 0.02, int(np.prod(exact.shape))).reshape(exact.shape)
            return torch.from_numpy(ramp).to(exact) if isinstance(exact, torch.Tensor) else ramp

    def found(rows: int, held: int) -> tuple[Any, ...]:
        search = replace(TINY, held_rate=held_rate)
        result = search.search(rows_for(IMAGE, rows), rows_for(IMAGE, held, seed=2), 1.0, Fixed(seed=5))
        weights = torch.cat([part.detach().flatten() for part in result.controller.parameters()])
        return result.cells, result.scores, weights.tolist()

    expected = found(24, 24)
    assert [found(rows, held) for rows, held in ((1, 24), (60, 24), (24, 1), (24, 60))] == [expected] * 4
