"""The search as a mechanism: its price, its rounds, going on after a kill, and where candidates are trained."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, datasets
from privaware.errors import CheckFailed, WrongInput
from privaware.events import AnyOf, Disjoint, Gaussian, Laplace, Selected, leaves
from privaware.learners._fixed_features import feature_for, linear_model, rows_of
from privaware.learners.dpsgd import DpSgd
from privaware.metrics import accuracy
from privaware.models.spaces import Space, point_key
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._journal import Journal
from privaware.strategies._search import Search
from privaware.strategies._strategy import TrialCount
from privaware.strategies._workers import Here, Processes
from privaware.strategies.grid import Grid
from privaware.strategies.mgrs import Mgrs
from privaware.strategies.paas import Paas
from privaware.strategies.racing import Racing
from privaware.strategies.rs import Rs
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for
from privaware.testing._strategy import Votes

SPACE = Space.load(
    {
        "choices": {"layers": [1, 2], "units1": [8, 16], "units2": [8, 16], "lr": [1.0, 4.0]},
        "when": {"units2": {"layers": [2]}},
        "build": {"architecture": {"name": "fcn", "hidden": ["$units1", "$units2"], "dropout": 0.0}, "lr": "$lr"},
    }
)
SCHEMA = example(rows=400)


def short(settings: dict[str, Any]) -> DpSgd:
    return DpSgd(**settings, steps=6, batch=100)


def epsilon(search: Search, noise: float, schema: Schema = SCHEMA) -> float:
    return accounting.epsilon(search.cost(schema, noise), 1e-5)


# The price.


def test_all_trials_are_paid_for_or_only_the_best_of_a_secret_number() -> None:
    open_ = Search(space=SPACE, strategy=Paas(generations=3, population=4), build=short)
    [(both, once)] = leaves(open_.cost(SCHEMA, 2.0))
    assert isinstance(both, Disjoint)
    assert once == 1
    train, scores = both.events
    assert sum(count for _, count in leaves(train)) == 8 * 6  # four, and twice two children
    assert [(type(leaf), count) for leaf, count in leaves(scores)] == [(Laplace, 8)]
    secret = Search(space=SPACE, strategy=Mgrs(generations=(4, 3)), build=short)
    kinds = [leaf for leaf, _ in leaves(secret.cost(SCHEMA, 2.0))]
    assert all(isinstance(leaf, Selected) for leaf in kinds)
    assert [leaf.mean for leaf in kinds] == [4.0, 3.0]  # type: ignore[attr-defined]


def test_more_trials_cost_more_and_a_secret_number_costs_less() -> None:
    prices = [
        epsilon(Search(space=SPACE, strategy=Paas(population=4, generations=n), build=short), 2.0) for n in (1, 3, 9)
    ]
    assert prices == sorted(prices)
    assert prices[0] < prices[1] < prices[2]
    hidden = epsilon(Search(space=SPACE, strategy=Rs(trials=36), build=short), 2.0)
    assert hidden < prices[2]


def test_the_papers_table_viii_priced_honestly() -> None:
    """Model epsilon 2.11 as they count: 300,000 steps at rate 1/600, noise 2 (accounting.md 2.3)."""
    once = 300_000 * Gaussian(noise=2.0).sampled(rate=1 / 600)
    assert accounting.epsilon(60 * once, 1e-5) == pytest.approx(22.51, rel=0.005)
    assert accounting.epsilon(TrialCount(mean=400.0).selected(once), 1e-5) == pytest.approx(4.24, rel=0.01)
    mgrs = sum((TrialCount(mean=mean).selected(once) for mean in (20.0, 10.0)), TrialCount(mean=40.0).selected(once))
    assert accounting.epsilon(mgrs, 1e-5) <= 9.36


def test_racing_pays_for_the_steps_that_were_taken() -> None:
    race = Search(space=SPACE, strategy=Racing(candidates=8), build=lambda s: DpSgd(**s, steps=16, batch=100))
    [(both, _)] = leaves(race.cost(SCHEMA, 2.0))
    assert isinstance(both, Disjoint)
    assert sum(count for _, count in leaves(both.events[0])) == 8 * 2 + 4 * 2 + 2 * 4 + 1 * 8


PRICED = Space.load(
    {"choices": {"batch": [50, 200], "lr": [1.0, 4.0]}, "build": {"batch": "$batch", "lr": "$lr"}, "priced": ["batch"]}
)


def test_recipes_of_different_price_are_made_equally_dear() -> None:
    search = Search(
        space=PRICED, strategy=Grid(), build=lambda s: DpSgd(**s, steps=8), reference_epsilon=2.0, held_out=0.2
    )
    event = search.model_cost(SCHEMA, search.price.calibrated_noise(search.train_schema(SCHEMA)))
    assert isinstance(event, AnyOf)
    for part in event.events:
        assert accounting.epsilon(part, 1e-5) == pytest.approx(2.0, rel=0.01)
    assert accounting.epsilon(event, 1e-5) >= max(accounting.epsilon(part, 1e-5) for part in event.events)
    found = search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))
    assert found.point in list(PRICED.points())


def test_a_search_over_recipes_of_different_price_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space.load(
        {
            "choices": {"share": [0.25, 1.0], "weight": [1.0, 2.0]},
            "build": {"share": "$share", "weight": "$weight"},
            "priced": ["share"],
        }
    )
    search = Search(space=space, strategy=Grid(), build=_votes, held_out=0.3)
    schema = example(rows=60)
    assert any(isinstance(leaf, AnyOf) for leaf, _ in leaves(search.model_cost(schema, 2.0)))
    check_mechanism(search, schema=schema, epsilon=4.0, games=0)
    few = replace(space, priced=(), choices={**space.choices, "share": (1.0, 0.25)})
    assert few.priced_points()[0]["share"] == 0.25  # all are priced as if they were this one
    cheap = replace(search, space=few)
    monkeypatch.setattr("privaware.strategies._trials.Trials._expect_declared", lambda self, job: None)
    with pytest.raises(BrokenPromise, match="price is too low"):
        check_mechanism(cheap, schema=schema, epsilon=4.0, games=0)


def test_a_price_that_was_not_declared_is_refused_before_training() -> None:
    hidden = replace(PRICED, priced=())
    search = Search(space=hidden, strategy=Grid(), build=lambda s: DpSgd(**s, steps=8))
    with pytest.raises(WrongInput, match="priced"):
        search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))


# The run.


def test_a_search_finds_what_learns() -> None:
    loaded = datasets.load("digits")
    space = replace(SPACE, choices={**SPACE.choices, "lr": (1e-6, 4.0)})
    search = Search(
        space=space,
        strategy=Paas(generations=2, population=6),
        held_out=0.2,
        build=lambda s: DpSgd(**s, steps=60, batch=256),
    )
    found = search.run(loaded.train, 1.5, Rng(seed=1))
    assert found.point["lr"] == 4.0
    assert accuracy(loaded.test.y, found.model.predictions(loaded.test)) > 0.7
    assert found.model.schema == loaded.train.schema


@dataclass(frozen=True, kw_only=True)
class Diverging:
    """A training that went astray: its weights are infinite, and some outputs no numbers."""

    size: float

    def cost(self, schema: Schema, noise: float) -> Any:
        return Gaussian(noise=noise)

    def run(self, data: Any, noise: float, rng: Rng) -> Any:
        feature = feature_for(data.schema)
        weight = np.full((1, rows_of(data, feature).shape[1]), self.size)
        weight[:, ::2] *= -1
        return linear_model(data.schema, feature, weight, np.zeros(1))


@pytest.mark.parametrize("strategy", [Grid(), Rs(trials=40)])
def test_a_candidate_that_diverged_scores_like_any_other_and_loses(strategy: Any) -> None:
    """One row without a number would otherwise decide about the whole score, which is to move by at most 1."""
    schema = example(rows=400, classes=0)
    space = Space.load({"choices": {"size": [math.inf, 0.01]}, "build": {"size": "$size"}})
    search = Search(space=space, strategy=strategy, held_out=0.5, build=lambda settings: Diverging(**settings))
    for seed in range(3):
        found = search.run(rows_for(schema, 400), 2.0, Rng(seed=seed))
        assert found.point == {"size": 0.01}
        assert found.score is not None
        assert math.isfinite(found.score)


def test_a_race_whose_candidates_diverged_comes_to_its_end() -> None:
    """The charge is spent by then, and the same command would fail again."""
    space = Space.load({"choices": {"lr": [1e9]}, "build": {"lr": "$lr"}})
    deep = {"name": "fcn", "hidden": [8] * 6, "dropout": 0.0}
    search = Search(
        space=space,
        strategy=Racing(candidates=4),
        held_out=0.3,
        build=lambda settings: DpSgd(**settings, steps=40, batch=100, architecture=deep),
    )
    found = search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))
    assert found.point == {"lr": 1e9}


class Greedy(Rs):
    def start(self, space: Space, rng: np.random.Generator) -> Any:
        searcher = super().start(space, rng)
        ask = searcher.ask
        searcher.ask = lambda count: ask(count + 1)  # type: ignore[method-assign]
        return searcher


def test_a_strategy_that_asks_for_too_much_is_stopped_without_telling_the_secret_number() -> None:
    search = Search(space=VOTES, strategy=Greedy(trials=40), build=_votes)
    with pytest.raises(CheckFailed) as caught:
        search.run(rows_for(SCHEMA, 100), 2.0, Rng(seed=0))
    assert re.findall(r"\d+", str(caught.value)) == ["1"]  # the round


@dataclass(frozen=True, kw_only=True)
class Counted(Votes):
    """Notes every training in a file, and dies in the third (a search may have no more) when a second file says so."""

    log: str = ""

    def run(self, data: Any, noise: float, rng: Rng) -> Any:
        with open(self.log, "a") as file:
            file.write(f"{self.weight} {self.power}\n")
        if Path(self.log + ".die").exists() and len(Path(self.log).read_text().splitlines()) > 2:
            raise KeyboardInterrupt
        return super().run(data, noise, rng)


VOTES = Space.load(
    {
        "choices": {"power": [1.0, 2.0, 3.0, 4.0], "weight": [0.5, 1.0, 2.0, 3.0]},
        "build": {"power": "$power", "weight": "$weight"},
    }
)


@pytest.mark.parametrize("strategy", [Paas(generations=4, population=4), Mgrs(generations=(8, 8, 8))])
@pytest.mark.parametrize("seed", [5, None])
def test_a_killed_search_goes_on_without_training_or_scoring_anything_twice(
    strategy: Any, seed: int | None, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=strategy,
        held_out=0.3,
        population_size=2,
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    Path(f"{log}.die").touch()
    with pytest.raises(KeyboardInterrupt):
        search.run(data, 2.0, Rng(seed=seed))
    before = {path.name: path.read_bytes() for path in (tmp_path / "journal").glob("round*")}
    trained = len(log.read_text().splitlines())
    assert before
    Path(f"{log}.die").unlink()
    log.unlink()
    found = search.run(data, 2.0, Rng(seed=seed))
    again = len(log.read_text().splitlines())
    for name, content in before.items():
        assert (tmp_path / "journal" / name).read_bytes() == content
    journal = Journal(tmp_path / "journal")
    kept = sum(len(journal.find(Path(name).stem, SCHEMA) or ()) for name in before)
    assert trained - kept <= 2  # at most the job that was killed is done again
    if seed is not None:
        log.unlink()
        whole = replace(search, journal=None).run(data, 2.0, Rng(seed=seed))
        assert (whole.point, whole.score) == (found.point, found.score)
        assert len(log.read_text().splitlines()) == again + kept


def _killed(search: Search, data: Any, log: Path) -> None:
    Path(f"{log}.die").touch()
    with pytest.raises(KeyboardInterrupt):
        search.run(data, 2.0, Rng(seed=5))
    Path(f"{log}.die").unlink()
    log.unlink()


def test_a_killed_search_goes_on_with_fewer_workers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=Paas(generations=3, population=6),
        held_out=0.3,
        workers=Here(many=6),
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    _killed(search, data, log)
    found = replace(search, workers=Here()).run(data, 2.0, Rng(seed=5))
    again = len(log.read_text().splitlines())
    log.unlink()
    whole = replace(search, journal=None).run(data, 2.0, Rng(seed=5))
    assert (whole.point, whole.score) == (found.point, found.score)
    assert len(log.read_text().splitlines()) == again + 2


@pytest.mark.parametrize("changed", ["rows", "order of rows", "space"])
def test_a_search_of_other_rows_or_candidates_goes_on_from_nothing(changed: str, tmp_path: Path) -> None:
    """A row that trained a model of the first run could otherwise score in the second."""
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=Grid(trials=6),
        held_out=0.3,
        population_size=1,
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    _killed(search, data, log)
    if changed == "space":
        other = replace(VOTES, choices={**VOTES.choices, "power": (5.0, 6.0, 7.0, 8.0)})
        search = replace(search, space=other)
    else:
        rows = data.x[::-1] if changed == "order of rows" else data.x + 1
        data = replace(data, x=rows.copy())
    found = search.run(data, 2.0, Rng(seed=6))
    assert len(log.read_text().splitlines()) == 6
    whole = replace(search, journal=None).run(data, 2.0, Rng(seed=6))
    assert (whole.point, whole.score) == (found.point, found.score)


def test_the_journal_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    search = Search(space=VOTES, strategy=Rs(trials=3), build=_votes, journal=place)
    search.run(rows_for(SCHEMA, 100), 2.0, Rng(seed=0))
    assert place.stat().st_mode & 0o077 == 0


def _votes(settings: dict[str, Any]) -> Votes:
    return Votes(**settings)


def test_processes_train_what_one_would() -> None:
    search = Search(space=VOTES, strategy=Grid(), build=_votes, held_out=0.3)
    data = rows_for(SCHEMA, 200)
    found = replace(search, workers=Processes(2)).run(data, 2.0, Rng(seed=3))
    assert point_key(found.point) in {point_key(point) for point in VOTES.points()}
    assert found.model.architecture["name"] == "constant"
    assert np.isfinite(found.score or np.nan)


RAY = """
import json, sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
sys.path.insert(0, sys.argv[1])
from slow_votes import slow
from privaware import accounting
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.strategies._journal import Journal
from privaware.strategies._search import Search
from privaware.strategies._workers import Ray
from privaware.strategies.grid import Grid
from privaware.models.spaces import Space
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
space = Space.load({"choices": {"weight": [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]}, "build": {"weight": "$weight"}})
search = Search(space=space, strategy=Grid(), build=slow, held_out=0.3, population_size=1,
                workers=Ray(cluster.address), journal=Path(sys.argv[1]) / "journal")

def kill():
    while not list(Path(sys.argv[1]).glob(f"begun-{second.node_id}-*")):
        time.sleep(0.02)
    cluster.remove_node(second, allow_graceful=False)

threading.Thread(target=kill, daemon=True).start()
schema = example(rows=200)
book = Ledger.create(Path(sys.argv[1]) / "run.ledger", limit=50.0, delta=1e-5)
book.spend(search.cost(schema, 2.0), what="search", run="one")
found = search.run(rows_for(schema, 200), 2.0, Rng())
book.finish("one")
kinds = [entry.kind for entry in book.entries()]
made = {"point": found.point, "kinds": kinds, "spent": book.spent(),
        "price": accounting.epsilon(search.cost(schema, 2.0), 1e-5)}
(Path(sys.argv[1]) / "made.json").write_text(json.dumps(made))
ray.shutdown()
cluster.shutdown()
"""

SLOW = """
import time
from pathlib import Path
import ray
from privaware.testing._strategy import Votes

HERE = Path(__file__).parent

class Slow(Votes):
    def run(self, data, noise, rng):
        node = ray.get_runtime_context().get_node_id()
        (HERE / f"begun-{node}-{self.weight}").touch()
        time.sleep(1.5)
        return super().run(data, noise, rng)

def slow(settings):
    return Slow(**settings)
"""


def test_a_search_on_a_ray_cluster_survives_the_loss_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "slow_votes.py").write_text(textwrap.dedent(SLOW))
    (tmp_path / "drive.py").write_text(textwrap.dedent(RAY))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "drive.py", str(tmp_path)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["point"]["weight"] in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert made["kinds"].count("spend") == 1
    assert made["spent"] == pytest.approx(made["price"], rel=1e-6)
    begun = list(tmp_path.glob("begun-*"))
    assert len(begun) > 6  # the job whose worker was lost was begun again
    assert len(list((tmp_path / "journal").glob("round-000-job-*"))) == 6
