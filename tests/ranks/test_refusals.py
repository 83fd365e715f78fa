"""What ranks refuse, before anything is charged: other versions, other rows, rows given twice, undivided learners."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import privaware
from privaware import descent
from privaware.descent._code_facts import code_facts
from privaware.errors import Refused, WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger
from privaware.ranks import RankLost, Ranks, RanksEnded, _session, current, joined, reports
from privaware.schema import Column, Schema
from privaware.workflow._torch_rows import expect_sendable, rows_of_all
from privaware.workflow.run import options
from privaware.workflow.run.on_ranks import _facts
from privaware.workflow.train import _settings_of
from tests.ranks import processes, threads


@pytest.fixture
def leading_two() -> Iterator[None]:
    """This process leads two ranks, and must not speak to the other one."""
    _session._leading.append(Ranks(0, 2))
    yield
    _session._leading.clear()


def rows(count: int, seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=generator), torch.randint(2, (count,), generator=generator)


def test_ranks_of_different_versions_are_refused() -> None:
    refused = threads.together(3, lambda ranks: ranks.expect_equal({"version": str(ranks.rank // 2)}))
    for problem in refused:
        assert isinstance(problem, WrongInput)
        assert "the same version in all 3 processes, but rank 2 has another" in str(problem)


def test_ranks_with_other_rows_are_refused() -> None:
    refused = threads.together(2, lambda ranks: rows_of_all(ranks, *rows(9, seed=ranks.rank), own_rows=False))
    assert all("the same training rows" in str(problem) for problem in refused)


def test_ranks_with_other_shapes_are_refused() -> None:
    x, y = rows(9)
    refused = threads.together(2, lambda ranks: rows_of_all(ranks, x[:, ranks.rank :], y, own_rows=True))
    assert all("the same shapes and types of a row" in str(problem) for problem in refused)


def test_parts_of_ranks_are_joined_in_their_order() -> None:
    x, y = rows(10)
    parts = [slice(0, 1), slice(1, 1), slice(1, 10)]
    results = threads.together(
        3, lambda ranks: rows_of_all(ranks, x[parts[ranks.rank]], y[parts[ranks.rank]], own_rows=True)
    )
    joint: Any = results[0]
    assert torch.equal(joint[0], x)
    assert torch.equal(joint[1], y)


def test_ranks_with_another_schema_or_settings_are_refused() -> None:
    schema = Schema(columns=(Column(name="age", low=0, high=90),), classes=("no", "yes"), rows=9)
    asked: dict[str, Any] = {"schema": schema, "settings": {"steps": 3}}
    for other in ({"schema": replace(schema, rows=8)}, {"settings": {"steps": 4}}):
        options = (asked, asked | other)
        refused = threads.together(
            2, lambda ranks, options=options: ranks.expect_equal(_facts("a.csv", **options[ranks.rank]))
        )
        assert all("the same options in all 2 processes" in str(problem) for problem in refused)
    assert threads.together(2, lambda ranks: ranks.expect_equal(_facts("a.csv", **asked))) == [None, None]


@pytest.mark.parametrize("size", [1, 2])
def test_parts_may_need_gradients_and_have_any_type(size: int) -> None:
    x, y = rows(4 * size)
    x = x.bfloat16().requires_grad_()
    cut = lambda at: slice(4 * at, 4 * at + 4)  # noqa: E731
    results = threads.together(
        size, lambda ranks: rows_of_all(ranks, x[cut(ranks.rank)], y[cut(ranks.rank)], own_rows=True)
    )
    joint: Any = results[0]
    assert torch.equal(joint[0], x)


def test_a_part_without_all_its_targets_is_refused_everywhere() -> None:
    x, y = rows(9)
    refused = threads.together(2, lambda ranks: rows_of_all(ranks, x, y[ranks.rank :], own_rows=True))
    assert all("one target for each example" in str(problem) for problem in refused)


@pytest.mark.parametrize("common", [1, 5])
def test_rows_given_by_two_ranks_are_refused(common: int) -> None:
    x, y = rows(20)
    parts = [slice(0, 10), slice(10 - common, 20)]
    refused = threads.together(
        2, lambda ranks: rows_of_all(ranks, x[parts[ranks.rank]], y[parts[ranks.rank]], own_rows=True)
    )
    assert all("would count twice" in str(problem) for problem in refused)


def test_rows_given_twice_beside_blank_rows_are_refused() -> None:
    x, y = rows(400)
    x[:60], y[:60] = 0, 0
    x[200:260], y[200:260] = 0, 0
    x[260:300], y[260:300] = x[100:140], y[100:140]
    cut = lambda at: slice(at * 200, (at + 1) * 200)  # noqa: E731
    refused = threads.together(
        2, lambda ranks: rows_of_all(ranks, x[cut(ranks.rank)], y[cut(ranks.rank)], own_rows=True)
    )
    assert all("would count twice" in str(problem) for problem in refused)


def test_equal_rows_of_a_coarse_table_are_not_refused() -> None:
    x, y = rows(200)
    x, half = (x > 0).float(), 100
    cut = lambda at: slice(at * half, (at + 1) * half)  # noqa: E731
    results = threads.together(
        2, lambda ranks: rows_of_all(ranks, x[cut(ranks.rank)], y[cut(ranks.rank)], own_rows=True)
    )
    assert not any(isinstance(result, Exception) for result in results)


@pytest.mark.usefixtures("leading_two")
def test_learner_that_ranks_cannot_share_is_not_charged(tmp_path: Path) -> None:
    ledger = tmp_path / "rows.ledger"
    with pytest.raises(Refused, match=r"2 processes can train together.*got linear"):
        privaware.fit("wisconsin", epsilon=1.0, learner="linear", ledger=ledger)
    assert not ledger.exists()


@pytest.mark.usefixtures("leading_two")
def test_a_plan_for_ranks_names_networks_or_their_features() -> None:
    for asked in ({"learner": "dpsgd"}, {"learner": "linear", "features": ["table_fourier"]}):
        assert privaware.fit("wisconsin", epsilon=1.0, dry_run=True, **asked).learner == asked["learner"]


@pytest.mark.parametrize("rank", [0, 1])
def test_no_process_of_a_script_charges_on_its_own(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "rows.ledger", limit=1.0, delta=1e-5)
    for name, value in processes.environment(rank, 2, 0).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused, match="one charge for all 2 processes"):
        ledger.spend(Pure(epsilon=0.1), what="a count")
    assert len(ledger.entries()) == 1


def test_without_torchrun_there_are_no_ranks() -> None:
    assert "TORCHELASTIC_RUN_ID" not in os.environ
    assert joined() is None
    assert current() is None


def test_a_lost_connection_is_one_sentence() -> None:
    lost = "expected 2 processes to the end, but one of them ended; repeat the command"
    with pytest.raises(RanksEnded, match=lost), Ranks(0, 2)._connected():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer")


@pytest.mark.parametrize("known", [True, False])
def test_rank_1_reports_only_that_rank_0_was_lost(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "reported", known)
    told = {}
    for rank in range(3):
        for name, value in processes.environment(rank, 4, 0).items():
            monkeypatch.setenv(name, value)
        told[rank] = [reports(RankLost("expected 4 processes")), reports(RanksEnded("expected a file"))]
    assert told == {0: [True, True], 1: [not known, False], 2: [False, False]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    ["lr=1.0, clip=flat(1.0 + rank)", "optimizer=[torch.optim.SGD, torch.optim.AdamW][rank], lr=1.0"],
    ids=["clipping norm", "optimizer"],
)
def test_train_refuses_other_settings_of_a_rank(other: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import os
import torch
import privaware
from privaware.descent import flat
x, y = torch.zeros(8, 2), torch.arange(8) % 2
rank = int(os.environ["RANK"])
settings = dict(epsilon=1.0, steps=2, sampling_rate=0.5, clipping_norm=1.0, {other})
privaware.train(torch.nn.Linear(2, 2), x, y, ledger="rows.ledger", **settings)
"""
    )
    shown = [rank.communicate(timeout=300)[1] for rank in processes.started([str(script)], 2, tmp_path)]
    assert all("the same settings in all 2 processes" in problem for problem in shown)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_ranks_compare_the_settings_of_a_built_optimizer() -> None:
    facts = [
        code_facts(_settings_of(torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=lr))) for lr in (0.1, 0.1, 0.2)
    ]
    assert facts[0] == facts[1] != facts[2]
    assert code_facts(_settings_of(torch.optim.SGD)) != code_facts(_settings_of(torch.optim.AdamW))


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_train_leaves_the_process_group_as_it_was(own: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import torch
import torch.distributed as dist
import privaware
x, y = torch.zeros(64, 2), torch.arange(64) % 2
settings = dict(epsilon=1.0, steps=2, sampling_rate=0.5, clipping_norm=1.0, lr=1.0)
if {own}:
    dist.init_process_group("gloo")
for name in ("first", "second"):
    privaware.train(torch.nn.Linear(2, 2), x, y, ledger=f"{{name}}.ledger", **settings)
    print(dist.is_initialized())
"""
    )
    ranks = processes.started(["-W", "ignore", str(script)], 2, tmp_path)
    shown = [rank.communicate(timeout=300) for rank in ranks]
    assert [out.split() for out, _ in shown] == [[str(own)] * 2] * 2, shown


def test_a_rank_without_a_gpu_is_refused_before_a_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(options, "expect_device", lambda device: None)  # rank 0 has a GPU
    ledger = tmp_path / "rows.ledger"

    def call() -> None:
        with pytest.raises(WrongInput, match="rank 1: expected a GPU for rank 1, got none"):
            privaware.fit("wisconsin", epsilon=1.0, learner="dpsgd", device="cuda", ledger=ledger)

    threads.led(2, call)
    assert not ledger.exists()


@pytest.mark.slow
def test_a_training_that_raised_ends_the_other_ranks_at_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import contextlib, os, time
import torch
import privaware
def fail(*_):
    raise ValueError
x, y = torch.zeros(8, 2), torch.arange(8) % 2
settings = {"epsilon": 1.0, "steps": 9, "sampling_rate": 0.5, "clipping_norm": 1.0, "lr": 1.0, "progress": fail}
if os.environ["RANK"] == "0":
    with contextlib.suppress(ValueError):
        privaware.train(torch.nn.Linear(2, 2), x, y, ledger="rows.ledger", **settings)
    time.sleep(60)
privaware.train(torch.nn.Linear(2, 2), x, y, ledger="rows.ledger", **settings)
"""
    )
    ranks = processes.started([str(script)], 2, tmp_path)
    _, problem = ranks[1].communicate(timeout=50)
    assert ranks[0].poll() is None
    assert "expected 2 processes to the end, but one of them ended" in problem
    _, problem = ranks[0].communicate(timeout=100)
    assert "RanksEnded: expected ranks that follow" in problem


def test_a_loss_that_cannot_be_sent_to_ranks_is_refused() -> None:
    lock = threading.Lock()

    def loss(outputs: Any, targets: Any) -> Any:
        with lock:
            return descent.cross_entropy(outputs, targets)

    module = torch.nn.Linear(2, 2)
    settings: dict[str, Any] = {"steps": 1, "sampler": descent.FullBatch()}
    settings |= {"clip": descent.flat(1.0), "update": descent.sgd(0.1)}
    for wrong in (False, True):
        recipe = descent.Descent(loss=loss if wrong else descent.cross_entropy, **settings)
        with pytest.raises(WrongInput, match="cannot be pickled") if wrong else contextlib.nullcontext():
            expect_sendable(module, recipe)
