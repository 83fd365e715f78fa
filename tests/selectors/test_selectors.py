"""Every selector keeps the contract, and two planted bugs each are caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting, registry
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Disjoint, Event, Gaussian, Pure
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors import Selector
from privaware.selectors._tables import chosen, release, uncertainties
from privaware.selectors.all import All
from privaware.selectors.cfs_ga import CfsGa
from privaware.selectors.cfs_greedy import CfsGreedy
from privaware.selectors.pafs import Pafs
from privaware.selectors.random import Random
from privaware.selectors.top import Top
from privaware.selectors.worth import Worth
from privaware.testing import BrokenPromise, check_selector
from tests.selectors.dependence import dependence_of

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="secret", kind="ignore"),
    Column(name="score", low=-1, high=1),
    Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
    Column(name="flag", kind="category", categories=("only",)),
)
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
MANY = replace(TABLE, classes=("a", "b", "c"))
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=40)
TOWNS = Column(name="town", kind="category", categories=("a", "b", "c", "d"), unseen="other")
CATEGORIES = replace(TABLE, columns=(*COLUMNS, TOWNS)).by_category()
SMALL = {"population": 12, "generations": 3}

SELECTORS: dict[str, tuple[Any, Schema]] = {
    "all": (All(), TABLE),
    "random": (Random(), TABLE),
    "random, two": (Random(columns=2), NUMBER),
    "cfs_greedy": (CfsGreedy(), TABLE),
    "cfs_greedy, two": (CfsGreedy(columns=2, bins=3), NUMBER),
    "cfs_ga": (CfsGa(**SMALL), TABLE),
    "cfs_ga, two": (CfsGa(columns=2, **SMALL), MANY),
    "cfs_greedy, single categories": (CfsGreedy(), CATEGORIES),
    "pafs": (Pafs(population=4, generations=2), TABLE),
    "pafs, few models": (Pafs(columns=2, population=4, generations=3, models=5), TABLE),
    "pafs, not adaptive": (Pafs(models=6, adaptive=False), TABLE),
    "pafs, three classes": (Pafs(columns=2, population=3, generations=1), MANY),
    "pafs, numbers": (Pafs(columns=2, population=3, generations=1), NUMBER),
    "pafs, dpsgd": (Pafs(population=3, generations=2, fitness="dpsgd", steps=3, rate=0.5), TABLE),
    "pafs, dpsgd, three classes": (Pafs(population=3, generations=1, fitness="dpsgd", steps=2, rate=0.3), MANY),
    "pafs, dpsgd, not adaptive": (Pafs(models=3, adaptive=False, fitness="dpsgd", steps=2, rate=0.3), NUMBER),
    "top": (Top(columns=3), MANY),
    "top, two": (Top(columns=2), NUMBER),
    "worth": (Worth(), TABLE),
    "worth, two": (Worth(columns=2), MANY),
    "worth, numbers": (Worth(), NUMBER),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selector_keeps_the_contract(name: str) -> None:
    selector, schema = SELECTORS[name]
    games = 20 if name.startswith("pafs") else 60  # each is a search of its own
    assert check_selector(selector, schema=schema, games=games) <= 1.0


def test_every_selector_is_checked() -> None:
    checked = {type(selector).__module__.rsplit(".", 1)[-1] for selector, _ in SELECTORS.values()}
    assert checked == set(registry.names("selectors"))


# Planted bugs: each is a correct selector with one change.


class HalfSensitivity(CfsGreedy):
    """Two rows could be distinguished: the parts are scaled as if a row moved them by half as much."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        doubled = replace(data, x=np.repeat(data.x, 2, axis=0), y=np.repeat(data.y, 2))
        return super().run(doubled, noise, rng)


class ExactPairs(CfsGreedy):
    """The search looks at exact uncertainties."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        super().run(data, noise, rng)
        shared = uncertainties(release(data, self.bins, 1e-9, Rng(seed=0)))
        return chosen(data.schema, shared[:-1, -1] >= shared[:-1, -1].max())


class SizeFromRows(CfsGa):
    """How long the search lasts depends on the rows."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        return replace(self, columns=1 + len(data) % 4).run_honestly(data, noise, rng)

    def run_honestly(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        return super().run(data, noise, rng)


class FreeGa(CfsGa):
    """Charges a thousandth of what it releases."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=1000 * noise)


class RealisedPrice(Pafs):
    """Pays for half of the sets that may be tried, as if cached scores covered the rest."""

    def tried_and_paid(self, schema: Schema) -> int:
        return self.trial_count(schema) // 2

    def cost(self, schema: Schema, noise: float) -> Event:
        models = self.tried_and_paid(schema)
        train, score = models * Pure(epsilon=1 / noise), models * Gaussian(noise=noise)
        return Disjoint(events=(train, score))


class SameRows(Pafs):
    """Scores models on the rows that they were trained on, at the price of disjoint parts."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        class Whole(Data):
            def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Data, ...]:
                return data, data

        return super().run(Whole(schema=data.schema, x=data.x, y=data.y), noise, rng)


class SharedStep(Pafs):
    """Pays for the steps of one model, as if all models of a generation shared their samples and noise."""

    def cost(self, schema: Schema, noise: float) -> Event:
        steps = self.steps * Gaussian(noise=self.step_noise(noise)).sampled(rate=self.rate)
        return Disjoint(events=(steps, self.trial_count(schema) * Gaussian(noise=noise)))


class OnePrice(Top):
    """Peels several columns and charges for one."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Pure(epsilon=1 / noise)


class MeanScores(Top):
    """Scores are the distances of shares, scaled by the private number of rows."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        scores = dependence_of(data, self.bins) * 40 / max(len(data), 1)
        at = rng.choose(scores, epsilon=1 / noise, sensitivity=4.0)
        return chosen(data.schema, np.arange(len(scores)) == at)


class LongRows(Worth):
    """Moments of rows that are five times as long as declared."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        five = replace(data, x=np.repeat(data.x, 5, axis=0), y=np.repeat(data.y, 5))
        return super().run(five, noise, rng)


class FreeWorth(Worth):
    """Says that it costs nothing."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING


class FullestColumn(Random):
    """Declares no cost, but reads the rows."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        exact = np.nan_to_num(data.x).sum(axis=0)
        return chosen(data.schema, exact == exact.max())


class OtherRandomness(Random):
    """Draws outside the generator."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        at = np.random.default_rng().integers(len(data.schema.used))
        return chosen(data.schema, np.arange(len(data.schema.used)) == at)


class Ignored(All):
    """Names a column that no learner sees."""

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        return tuple(column.name for column in data.schema.columns)


@dataclass(frozen=True, kw_only=True)
class Nameless(Selector):
    """Releases positions, not names."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return (0, 1)


PLANTED: dict[str, tuple[Any, str]] = {
    "half sensitivity": (HalfSensitivity(), "sensitivity exceeded"),
    "exact pairs": (ExactPairs(), "release differs|same release for different seeds"),
    "size from rows": (SizeFromRows(**SMALL), "the release differs"),
    "free genetic search": (FreeGa(**SMALL), "cost is too low"),
    "realised price": (RealisedPrice(population=4, generations=2), "cost is too low"),
    "same rows": (SameRows(population=3, generations=1), "cost is too low"),
    "shared step": (SharedStep(population=4, generations=1, fitness="dpsgd", steps=4, rate=0.5), "cost is too low"),
    "one price": (OnePrice(columns=3), "cost is too low"),
    "mean scores": (MeanScores(columns=1), "sensitivity exceeded"),
    "long rows": (LongRows(), "sensitivity exceeded"),
    "free worth": (FreeWorth(), "cost is too low"),
    "fullest column": (FullestColumn(), "the release differs"),
    "other randomness": (OtherRandomness(), "randomness outside rng|release differs"),
    "ignored column": (Ignored(), "not a column that a learner sees"),
    "nameless": (Nameless(), "tuple of column names"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_caught(name: str) -> None:
    selector, words = PLANTED[name]
    with pytest.raises(BrokenPromise, match=words):
        check_selector(selector, schema=TABLE, games=0)


@pytest.mark.parametrize("make", [CfsGreedy, CfsGa, Top, Worth, Random])
def test_wrong_number_of_columns_is_refused(make: Any) -> None:
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(WrongInput, match="columns as a whole number"):
            make(columns=wrong)


@pytest.mark.parametrize("make", [CfsGreedy, CfsGa, Pafs, Top, Worth])
def test_selecting_columns_of_images_is_refused(make: Any) -> None:
    images = Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40)
    with pytest.raises(WrongInput, match="expected a table"):
        make().cost(images, 1.0)


def informative(rows: int = 4000) -> Data:
    """The class is one column's; a second is a copy of it, a third says a little, the rest nothing."""
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=rows)
    strong = np.where(rng.random(rows) < 0.85, y, 1 - y)
    weak = np.where(rng.random(rows) < 0.8, y, 1 - y)
    x = np.column_stack([rng.integers(2, size=(rows, 5)), strong, strong, weak]).astype(float)
    names = ("n0", "n1", "n2", "n3", "n4", "strong", "copy", "weak")
    columns = tuple(Column(name=name, kind="category", categories=("0", "1")) for name in names)
    schema = Schema(columns=columns, classes=("no", "yes"), rows=rows)
    return Data(schema=schema, x=x, y=y)


def test_merit_avoids_redundant_columns_and_top_does_not() -> None:
    data = informative()
    for selector in (CfsGreedy(columns=2), CfsGa(columns=2, population=200)):
        picked = selector.run(data, 1.0, Rng(seed=2))
        assert "weak" in picked, selector
        assert {"strong", "copy"} & set(picked), selector
    assert Top(columns=2).run(data, 1.0, Rng(seed=2)) == ("strong", "copy")


def test_worth_keeps_fewer_columns_for_a_noisier_model() -> None:
    data = informative()
    selected = [set(Worth(model_noise=noise).run(data, 0.5, Rng(seed=3))) for noise in (1e-6, 60.0, 1e6)]
    assert selected[0] > selected[1] > selected[2]
    assert "weak" in selected[1]
    assert not selected[1] & {"n0", "n1", "n2", "n3", "n4"}
    assert len(selected[2]) == 1


def test_pafs_trains_no_more_models_than_it_pays_for() -> None:
    calls: list[int] = []

    class Counting(Rng):
        def perturb(self, problem: Any, **public: Any) -> np.ndarray:
            calls.append(len(problem.ridge))
            return super().perturb(problem, **public)

    data, totals = informative(400), []
    for seed in range(4):
        calls.clear()
        Pafs(population=20, generations=4, models=30).run(data, 1.0, Counting(seed=seed))
        totals.append(sum(calls))
    assert max(totals) == 30
    assert Pafs(columns=1, population=20).trial_count(data.schema) == 8


@pytest.mark.parametrize("fitness", ["objective_perturbation", "dpsgd"])
def test_pafs_finds_the_most_informative_column(fitness: str) -> None:
    data = informative(4000)
    for seed in range(3):
        picked = Pafs(columns=1, population=10, generations=3, fitness=fitness).run(data, 3.0, Rng(seed=seed))
        assert picked[0] in {"strong", "copy"}


def test_pafs_by_descent_pays_for_every_step_of_every_model() -> None:
    event = Pafs(models=7, fitness="dpsgd", steps=30, rate=0.2).cost(informative(40).schema, 2.0)
    steps = 7 * (30 * Gaussian(noise=2.0).sampled(rate=0.2))
    assert event == Disjoint(events=(steps, 7 * Gaussian(noise=2.0)))


def test_private_selection_costs_at_most_twice_one_model() -> None:
    for models in (10, 200):
        event = Pafs(models=models, adaptive=False).cost(informative(40).schema, 2.0)
        assert 0.95 < accounting.epsilon(event, 1e-5) <= 1.0
