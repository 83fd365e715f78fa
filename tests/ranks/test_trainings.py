"""Any number of ranks trains the same network, bit for bit, as one process; a planted mistake of ranks is caught."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from privaware.descent import Callbacks, Checkpoint, Poisson, _microbatches, _release, _training
from privaware.descent._exact_sum import LARGEST_TOTAL, expect_exact_total, lattice_step
from privaware.descent._row_parts import RowParts
from privaware.errors import Refused, WrongInput
from privaware.noise import Rng
from privaware.testing._rows import Edit
from privaware.testing._tape import Recorder
from tests.ranks import processes, threads
from tests.ranks.trainings import ON_GPU, ROWS, TRAININGS, examples, net, one, recipe, weights

QUICK = ("Poisson", "quantile", "low rank", "population", "fewer rows than ranks", "no row")


class Centred(nn.Module):
    """A layer that mixes examples."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def alone(name: str) -> list[bytes]:
    with processes.leading_alone():
        return TRAININGS[name]()


@pytest.mark.parametrize("name", QUICK)
def test_three_ranks_train_the_network_of_one(name: str) -> None:
    assert threads.led(3, TRAININGS[name]) == alone(name)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize("name", TRAININGS)
def test_any_number_of_ranks_trains_the_network_of_one(name: str, size: int) -> None:
    assert threads.led(size, TRAININGS[name]) == alone(name)


def test_two_processes_train_the_network_of_one(tmp_path: Path) -> None:
    names = ["Poisson", "low rank"]
    assert processes.led(names, 2, tmp_path) == {name: alone(name) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_processes_train_every_network_of_one(size: int, tmp_path: Path) -> None:
    assert processes.led(list(TRAININGS), size, tmp_path) == {name: alone(name) for name in TRAININGS}


@pytest.mark.cuda
@pytest.mark.parametrize("name", ON_GPU)
def test_two_ranks_on_one_gpu_train_the_network_of_one(name: str) -> None:
    with processes.leading_alone():
        expected = ON_GPU[name]()
    assert threads.led(2, ON_GPU[name]) == expected


@pytest.mark.cuda
def test_two_processes_on_a_gpu_train_the_network_of_one(tmp_path: Path) -> None:
    """They share the GPU if there is one only, and then exchange sums through the host."""
    with processes.leading_alone():
        expected = {name: training() for name, training in ON_GPU.items()}
    assert processes.led(list(ON_GPU), 2, tmp_path) == expected


def test_a_microbatch_setting_makes_a_plain_process_equal() -> None:
    assert threads.led(2, lambda: one(microbatch=3)) == one(microbatch=3)


def test_training_without_noise_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    with processes.leading_alone():
        led = TRAININGS["no noise"]()
    assert led == TRAININGS["no noise"]()


def test_more_ranks_than_microbatches_train_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.led(8, lambda: one(sampler=Poisson(rate=0.01))) == threads.led(
        2, lambda: one(sampler=Poisson(rate=0.01))
    )


def releases(size: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Any, Any]]:
    """The exact sums that rank 0 adds noise to, with noise and sensitivity."""
    calls: list[tuple[Tensor, Any, Any]] = []

    def gaussian(self: Rng, exact: Tensor, *, noise: Any, sensitivity: Any) -> Any:
        calls.append((exact.clone(), noise, sensitivity))
        return drawn(self, exact, noise=noise, sensitivity=sensitivity)

    with monkeypatch.context() as patched:
        drawn = Rng.gaussian
        patched.setattr(Rng, "gaussian", gaussian)
        threads.led(size, one)
    return calls


def test_a_recorder_of_an_audit_trains_in_rank_0_alone() -> None:
    """It draws other samples than a plain `Rng` of the same seed."""

    def calls() -> list[Any]:
        rng = Recorder(3, edit=Edit(kind="removed", at=2, rows=ROWS))
        recipe().run(net(), *examples(), noise=0.7, rows=ROWS, rng=rng)
        return [np.asarray(call.returned).tobytes() for call in rng.calls if call.kind == "gaussian"]

    assert threads.led(3, calls) == calls()


def test_rank_0_adds_noise_once_to_the_sum_of_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, together = releases(1, monkeypatch), releases(3, monkeypatch)
    assert len(alone) == len(together) == 4
    for (exact, *facts), (total, *others) in zip(alone, together, strict=True):
        assert torch.equal(exact, total)
        assert facts == others


def test_each_rank_holds_a_part_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[int, int] = {}
    fetch = RowParts.fetch

    def watched(self: RowParts, samples: Any, layout: Any) -> None:
        fetch(self, samples, layout)
        held[self.ranks.rank] = len(self.tensors[0])
        assert len(self.positions) <= 9 * layout.width // 3 + layout.width

    monkeypatch.setattr(RowParts, "fetch", watched)
    threads.led(4, one)
    assert held == {0: 22, 1: 23, 2: 22, 3: 23}


def test_unseeded_ranks_do_not_know_the_noise() -> None:
    rng = Rng()
    other = Rng.restore(rng.state_without_noise())
    assert (other.poisson(50, 0.5) == rng.poisson(50, 0.5)).all()
    assert other.initial.integers(2**63) == rng.initial.integers(2**63)
    zeros = np.zeros(50)
    assert (rng.gaussian(zeros, noise=1.0, sensitivity=1.0) != other.gaussian(zeros, noise=1.0, sensitivity=1.0)).any()


def test_noise_drawn_on_every_rank_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(self: Any, exact: Tensor, noise: Any, sensitivity: Any) -> Tensor:
        self.rng._streams.cpu["noise"].random(self.ranks.rank)  # other noise on every rank
        noisy: Tensor = self.rng.gaussian(exact.nan_to_num(), noise=noise, sensitivity=sensitivity)
        return noisy

    expected = alone("Poisson")
    monkeypatch.setattr(_release.GaussianRelease, "_gaussian", each)
    assert threads.led(2, one) != expected


def test_a_microbatch_summed_by_two_ranks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def every(samples: Any, layout: Any, stack: Any, ranks: Any = None) -> Any:
        return _microbatches.microbatches(samples, layout, stack)

    expected = alone("Poisson")
    monkeypatch.setattr(_training, "microbatches", every)
    assert threads.led(2, one) != expected


def test_a_layout_that_depends_on_the_ranks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = alone("Poisson")
    monkeypatch.setattr(_training, "shares", lambda size: size)
    assert threads.led(2, one) != expected


def test_a_training_resumes_with_another_number_of_ranks(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def train(stop: int) -> list[bytes]:
        def progress(step: int, *_: Any) -> None:
            if step == stop:
                raise Killed

        saved = Callbacks(checkpoint=Checkpoint(tmp_path / "checkpoint", every=2, run="a"), progress=progress)
        return weights([recipe(steps=6).run(net(), *examples(), noise=0.7, rows=ROWS, rng=Rng(3), callbacks=saved)])

    with pytest.raises(Killed):
        threads.led(3, lambda: train(stop=3))
    with processes.leading_alone():
        whole = one(steps=6)
    assert threads.led(2, lambda: train(stop=9)) == whole


def test_a_module_that_is_refused_is_refused_by_all_ranks() -> None:
    def call() -> list[bytes]:
        with pytest.raises(Refused):
            one(nn.Sequential(Centred(), nn.Linear(4, 3)))
        return one()  # the ranks still follow

    assert threads.led(2, call) == alone("Poisson")


def test_a_problem_of_one_rank_is_reported_by_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def lay_out(self: Any, slots: int) -> None:
        if self.ranks.rank == 1:
            raise Refused("expected another GPU")

    monkeypatch.setattr(_training.Training, "lay_out", lay_out)
    with pytest.raises(WrongInput, match="rank 1: expected another GPU"):
        threads.led(2, one)


@pytest.mark.parametrize("parameters", [1, 1000, 10**8])
def test_totals_below_the_limit_are_exact_in_any_order(parameters: int) -> None:
    step = float(lattice_step(torch.ones(1), parameters))
    rows = int(LARGEST_TOTAL * 2.0**-14 / 4 / math.sqrt(parameters))
    expect_exact_total(rows, parameters)
    largest = 2.0 * rows / step
    assert largest <= 2.0**52
    assert np.float64(largest) + 1 - np.float64(largest) == 1
    with pytest.raises(Refused, match="exact sums"):
        expect_exact_total(2 * rows + 2, parameters)
