"""Sweeps: resumed without training again, charged on private rows, and each study's finding on a planted case."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.errors import BudgetExceeded, PrivawareError, WrongInput
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.studies._result import points
from privaware.studies._sweep import Store, sweep
from privaware.studies._trials import Rows, Setting, Trial, made_up, price
from privaware.studies.batch_noise import ways
from privaware.studies.clipping_only import clipping_only
from privaware.studies.convergence import convergence
from privaware.studies.input_size import input_size
from privaware.studies.random_weights import layers, random_weights
from privaware.studies.rate_sensitivity import rate_sensitivity
from privaware.studies.sample_size import steps_to
from privaware.studies.width_depth import width_depth
from privaware.workflow._crossing import crossing

LINEAR = {"name": "linear", "inputs": 5, "outputs": 2}
ONE = Setting(architecture=LINEAR, batch=30, steps=20, lr=1.0, noise=1.0)


def trials(count: int, **changed: object) -> list[Trial]:
    setting = replace(ONE, **changed)  # type: ignore[arg-type]
    return [Trial(curve="one", x=1.0, seed=seed, setting=setting) for seed in range(count)]


def test_a_resumed_sweep_trains_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privaware.studies import _sweep

    store, trained, real = Store(tmp_path / "s.jsonl"), [], _sweep._train
    monkeypatch.setattr(_sweep, "_train", lambda own, *more: trained.extend(own) or real(own, *more))
    first = sweep(trials(2), made_up(), store=store)
    with open(store.path, "a") as file:
        file.write('{"key": "cut sho')  # what a kill in the middle of a line leaves
    whole = sweep(trials(3), made_up(), store=store)
    assert len(trained) == 3
    assert [outcome.score for outcome in whole[:2]] == [outcome.score for outcome in first]
    assert sweep(trials(3), made_up(), store=store) == whole
    assert len(trained) == 3
    lines = [line for line in store.path.read_text().splitlines() if "cut sho" not in line]
    assert len([json.loads(line)["key"] for line in lines]) == 3


def test_another_setting_or_data_set_is_another_trial() -> None:
    rows = made_up()
    keys = {
        trial.key(data, every)
        for trial in (*trials(2), *trials(1, lr=2.0), *trials(1, norm=float("inf"), noise=0.0))
        for data in (rows, replace(rows, name="others"))
        for every in (None, 5)
    }
    assert len(keys) == 4 * 2 * 2


def test_p38_private_rows_are_charged_with_everything_and_scores_are_noised(tmp_path: Path) -> None:
    rows = replace(made_up(), public=False)
    with pytest.raises(WrongInput, match="4 models would be released"):
        sweep(trials(4), rows)
    book = Ledger.create(tmp_path / "a.ledger", limit=100.0, delta=1e-5)
    with pytest.raises(WrongInput, match="exact scores"):
        sweep(trials(4), rows, ledger=book, store=Store(tmp_path / "s.jsonl"))
    made = sweep(trials(4), rows, ledger=book)
    alone = accounting.epsilon(price(trials(1), 300), 1e-5)
    all_ = accounting.epsilon(price(trials(4), 300), 1e-5)
    assert book.spent() == pytest.approx(all_, rel=1e-2)
    assert book.spent() > 1.5 * alone
    counts = np.array([outcome.score for outcome in made]) * 300
    assert any(abs(count - round(count)) > 1e-9 for count in counts)  # no exact share of 300 rows


def test_a_row_less_to_score_on_changes_neither_noise_nor_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[np.ndarray, float, float]] = []
    gaussian = Rng.gaussian

    def heard(self: Rng, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        if isinstance(exact, np.ndarray):
            calls.append((exact, noise, sensitivity))
        return gaussian(self, exact, noise=noise, sensitivity=sensitivity)

    monkeypatch.setattr(Rng, "gaussian", heard)
    monkeypatch.setattr("privaware.studies._sweep.Rng", lambda: Rng(seed=3))
    rows = replace(made_up(), public=False)
    for count in (40, 39):
        book = Ledger.create(tmp_path / f"{count}.ledger", limit=100.0, delta=1e-5)
        fewer = replace(rows, tested=rows.tested[:count], truth=rows.truth[:count])
        sweep(trials(4), fewer, ledger=book)
    (one, *how), (other, *same) = calls
    assert how == same
    assert np.linalg.norm(one - other) <= how[1] + 1e-9


def test_a_sweep_that_costs_too_much_reads_no_row(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "a.ledger", limit=0.5, delta=1e-5)
    rows = replace(made_up(), public=False)
    with pytest.raises(BudgetExceeded):
        sweep(trials(4), rows, ledger=book)
    with pytest.raises(PrivawareError, match="without noise"):
        sweep(trials(1, noise=0.0), rows, ledger=book)
    assert book.spent() == 0


def test_a_model_of_a_population_is_trained_as_by_itself() -> None:
    """Without noise and on all rows nothing is random but the start, so company must not matter."""
    still = {"noise": 0.0, "batch": 300, "norm": float("inf")}
    alone = [sweep([trial], made_up())[0].score for trial in trials(3, **still)]
    mixed = sweep([*trials(3, **still), *trials(2, **{**still, "norm": 0.1})], made_up())
    assert [outcome.score for outcome in mixed[:3]] == alone


def test_a_population_ends_when_all_have_reached_the_score() -> None:
    made = sweep(trials(3, steps=500, noise=0.0), made_up(), every=5, reach=0.9)
    assert all(max(outcome.scores) >= 0.9 for outcome in made)
    assert all(len(outcome.steps) < 100 for outcome in made)
    found = steps_to(made_up(), replace(ONE, steps=200, noise=0.0), (100, 200), accuracy=0.9, every=5, repeats=2)
    assert sorted(found) == [100, 200]
    assert all(step is not None and step % 5 == 0 for steps in found.values() for step in steps)
    never = steps_to(made_up(), replace(ONE, steps=5), (100,), accuracy=1.1, every=5, repeats=1)
    assert never == {100: [None]}


@pytest.mark.parametrize(("name", "classes"), [("wisconsin", True), ("digits", True)])
def test_built_in_rows_are_public_and_ready_for_a_network(name: str, classes: bool) -> None:
    rows = Rows.builtin(name)
    assert rows.public
    assert rows.classes == classes
    net = {"name": "linear", "inputs": int(np.prod(rows.x.shape[1:])), "outputs": int(rows.y.max()) + 1}
    setting = replace(ONE, architecture=net, batch=100, steps=60, noise=0.5, lr=0.5)
    [made] = sweep([Trial(curve="", x=0, seed=0, setting=setting)], rows)
    assert made.score > 0.85


def test_rows_resampled_repeat_people() -> None:
    rows = made_up()
    large = rows.resampled(3000, 1)
    assert len(large.x) == len(large.y) == 3000
    assert len(np.unique(large.x, axis=0)) <= 300
    assert large.name != rows.resampled(3000, 2).name


def test_weights_as_keras_draws_them_keep_a_deep_network_alive() -> None:
    deep = {"name": "fcn", "inputs": 5, "hidden": [16] * 8, "outputs": 2, "dropout": 0.0}
    still = {"architecture": deep, "noise": 0.0, "norm": float("inf"), "steps": 60, "lr": 0.2}
    [plain] = sweep(trials(1, **still), made_up())
    [keras] = sweep(trials(1, **still, initial="glorot"), made_up())
    assert keras.score > max(plain.score, 0.8)
    with pytest.raises(WrongInput, match="glorot"):
        replace(ONE, initial="zeros")


def test_frozen_layers_are_counted_and_a_wrong_number_of_flags_is_refused() -> None:
    deep = {"name": "fcn", "inputs": 784, "hidden": [1024, 512, 64], "outputs": 10}
    assert sum(layers(deep)) == 1_362_122
    assert sum(layers(deep)[-2:]) == 33_482
    with pytest.raises(WrongInput, match="flags"):
        sweep(trials(1, trainable=(True, True, False)), made_up())
    with pytest.raises(WrongInput, match="flags"):
        sweep(trials(1, trainable=(False,)), made_up())


def test_noise_hurts_a_deep_network_more_than_a_wide_one(tmp_path: Path) -> None:
    made = width_depth(
        made_up(600), widths=(16,), depths=(6,), units=16, noise=2.0, batch=200, steps=40, lr=0.5, repeats=3
    )
    last = {point.curve: point.mean for point in made.points}
    assert last["wider, DP-SGD"] > last["deeper, DP-SGD"]
    assert "evaluation" in made.note
    assert made.plot(tmp_path / "w.svg").read_text().startswith("<svg")


def test_the_best_rate_is_each_models_own() -> None:
    small, large = replace(ONE, norm=0.01), replace(ONE, norm=1.0)
    made = rate_sensitivity(made_up(), {"small": small, "large": large}, (0.001, 1.0, 300.0), repeats=3)
    assert made.best["small"] > made.best["large"]
    assert set(made.winners) == {0.001, 1.0, 300.0}


def test_full_training_overtakes_frozen_layers_where_noise_is_small() -> None:
    deep = {"name": "fcn", "inputs": 5, "hidden": [64, 64, 64], "outputs": 2, "dropout": 0.0}
    rows = made_up(600)
    made = random_weights(rows, deep, {0.1: 400.0, 1e3: 0.01}, last=1, batch=200, steps=40, lr=0.2, repeats=4)
    _, frozen = made.table("last 1 layers")
    epsilons, full = made.table("all layers")
    assert made.parameters["last 1 layers"] == 130 < made.parameters["all layers"]
    assert full[:, 1].mean() > frozen[:, 1].mean() + 0.05
    assert made.crossover == crossing(epsilons, frozen, full)
    assert made.json()["crossover"]["sentence"] == made.crossover.sentence


def test_clipping_alone_tames_a_rate_that_plain_descent_cannot_bear() -> None:
    big = made_up()
    rows = Rows(name="large", x=big.x * 100, y=big.y, tested=big.tested * 100, truth=big.truth, public=True)
    deep = {"name": "fcn", "inputs": 5, "hidden": [16, 16], "outputs": 2, "dropout": 0.0}
    setting = replace(ONE, architecture=deep, noise=0.0, steps=60)
    made = clipping_only(rows, setting, (1.0,), repeats=3)
    assert made.best["SGD with clipping"] > made.best["SGD"] + 0.1


def test_noise_takes_little_at_a_low_rate_and_much_at_a_high_one() -> None:
    # with momentum as in the paper the noise at a high rate adds up
    one = replace(ONE, steps=100, noise=8.0, momentum=0.9)
    made = convergence(made_up(600), {"linear": one}, (0.003, 30.0), epochs=5, repeats=4)
    assert made.lost["linear, rate 30"] > made.lost["linear, rate 0.003"]
    assert {point.x for point in made.points} == {1, 2, 3, 4, 5}


def test_batches_with_rates_in_proportion_go_the_same_way() -> None:
    made = ways(made_up(600), replace(ONE, lr=0.3), {30: 0.5, 60: 0.7, 120: 1.0}, epochs=6, repeats=3)
    assert made.apart < 0.1
    assert len(made.points) == 3 * 6


def test_more_inputs_of_the_same_meaning_stray_further_from_the_noiseless_way() -> None:
    made = input_size((10, 200), rows=1000, tested=500, batch=100, epochs=5, noise=4.0, lr=0.5, repeats=4)
    [few, many] = [[p.mean for p in made.distances if p.curve == f"{n} inputs"][-1] for n in (10, 200)]
    assert few < many
    assert made.points[0].mean > made.points[1].mean
    with pytest.raises(WrongInput):
        input_size((15,))


def test_points_pair_repeats_by_seed() -> None:
    made = points(sweep([*reversed(trials(3))], made_up()))
    again = points(sweep(trials(3), made_up()))
    assert len(made[0].scores) == 3
    assert made[0].mean == pytest.approx(np.mean(made[0].scores))
    assert [p.curve for p in made] == [p.curve for p in again]
