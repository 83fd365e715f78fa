"""Every learner keeps the protocol and the contract of every mechanism: one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privaware import registry
from privaware.learners import PopulationLearner
from privaware.learners.adassp import Adassp
from privaware.learners.additive import Additive
from privaware.learners.alibi import Alibi
from privaware.learners.amortised import Amortised
from privaware.learners.boosted import Boosted
from privaware.learners.dp_adam import DpAdam
from privaware.learners.dpgen import DpGen
from privaware.learners.dpsgd import DpSgd
from privaware.learners.finetune import Finetune
from privaware.learners.focal import Focal
from privaware.learners.fourier import Fourier
from privaware.learners.frozen import Frozen
from privaware.learners.gep import Gep
from privaware.learners.hand_dp import HandDp
from privaware.learners.iteration_amplification import IterationAmplification
from privaware.learners.label_mst import LabelMst
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.mean import Mean
from privaware.learners.median import Median
from privaware.learners.newton import Newton
from privaware.learners.noise_decay import NoiseDecay
from privaware.learners.objective_perturbation import ObjectivePerturbation
from privaware.learners.output_perturbation import OutputPerturbation
from privaware.learners.pate import Pate
from privaware.learners.private_knn import PrivateKnn
from privaware.learners.private_set import PrivateSet
from privaware.learners.quantile_clip import QuantileClip
from privaware.learners.rgp import Rgp
from privaware.learners.tanh import Tanh
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import check_learner, rows_for
from tests.learners.tiny_prior import tiny_prior
from tests.learners.tiny_table_network import tiny_table_network

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="score", low=-1, high=1),
    Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
)
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=40)
WORDS = tuple(Column(name=name, kind="category", categories=("x", "y", "z")) for name in "vw")
CATEGORIES = Schema(columns=WORDS, classes=("no", "yes"), rows=40)
SMALL = {"name": "fcn", "hidden": [4]}  # with the dropout that it has by default
DROPPING = {"name": "cnn", "filters": [2], "kernels": [3], "paddings": [1], "hidden": [4]}
IMAGE = Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40)
POOL = rows_for(TABLE, 12, seed=3)
STUDENT: dict[str, Any] = {"architecture": SMALL, "steps": 2, "batch": 4}
SCORE = {"stages": 0, "levels": 2, "langevin": 1, "steps": 2, "batch": 40}
MATCHING: dict[str, Any] = {"per_class": 1, "networks": 1, "rounds": 2, "queries": 1, "inner": 1}

GAMES = {
    "linear": 40,
    "linear, random features": 20,
    "linear, crosses": 20,
    "objective_perturbation": 80,
    "output_perturbation": 80,
} | dict.fromkeys(
    ("dpsgd", "dp_adam", "frozen", "tanh", "focal", "noise_decay", "quantile_clip", "hand_dp", "alibi", "label_mst"), 40
)
GAMES |= {"boosted": 80, "additive": 80, "amortised": 20}
GAMES |= {"fourier": 40, "fourier, regression": 20}
GAMES |= {"rgp": 10, "gep": 10, "private_set": 10, "dpgen": 10, "finetune": 10}
GAMES |= {"pate, Laplace": 60, "pate, confident": 60, "pate, networks": 8, "private_knn": 8}
"""Runs a side in the canary game, where the default would take long: `descent` has a game of its own.

Below 65 only the games of the noise are played: so few runs could not refute epsilon 1 (`PLAYED_SLOWLY` plays them).
"""
PLAYED_SLOWLY = ("dpsgd", "dp_adam", "frozen", "tanh", "focal", "noise_decay", "quantile_clip", "hand_dp", "rgp", "gep")

LEARNERS = {
    "linear": (Linear(steps=5), TABLE),
    "linear, sampled": (Linear(steps=5, rate=0.3), TABLE),
    "linear, centred": (Linear(steps=5, centre=0.2, base=0.1), TABLE),
    "linear, compared": (Linear(steps=5, check=0.25), NUMBER),
    "linear, regression": (Linear(steps=5), NUMBER),
    "linear, images": (Linear(steps=5), IMAGE),
    "linear, features": (Linear(steps=5, features=[{"name": "scatter", "J": 1, "L": 2}]), IMAGE),
    "linear, random features": (Linear(steps=5, centre=0.2, features=[{"name": "table_fourier", "count": 16}]), TABLE),
    "linear, crosses": (Linear(steps=5, centre=0.2, features=[{"name": "crosses"}]), CATEGORIES),
    "dpsgd": (DpSgd(steps=4, batch=12, architecture=SMALL), TABLE),
    "dpsgd, regression": (DpSgd(steps=2, architecture=SMALL), NUMBER),
    "dpsgd, images": (DpSgd(steps=2), IMAGE),
    "dpsgd, copies": (DpSgd(steps=2, copies=2, mirror=True, architecture=DROPPING), IMAGE),
    "dp_adam": (DpAdam(steps=2, architecture=SMALL), TABLE),
    "finetune": (Finetune(steps=1, head_steps=1, batch=12, frozen=3, prior=tiny_prior()), IMAGE),
    "frozen": (Frozen(steps=2, layers=1, architecture=SMALL), TABLE),
    "tanh": (Tanh(steps=2, architecture=SMALL), TABLE),
    "focal": (Focal(steps=2, batch=12, architecture=SMALL), TABLE),
    "noise_decay": (NoiseDecay(epochs=1, batch=12, architecture=SMALL), TABLE),
    "quantile_clip": (QuantileClip(steps=2, batch=12, architecture=SMALL), TABLE),
    "rgp": (Rgp(steps=2, batch=12, rank=1, architecture=SMALL), TABLE),
    "gep": (Gep(steps=2, batch=12, directions=6, architecture=SMALL, public=POOL), TABLE),
    "hand_dp": (HandDp(steps=2, features=[{"name": "scatter", "J": 1, "L": 2}]), IMAGE),
    "majority": (Majority(), TABLE),
    "mean": (Mean(), NUMBER),
    "median": (Median(), NUMBER),
    "alibi": (Alibi(steps=10), replace(TABLE, unit="label")),
    "alibi, network": (Alibi(steps=2, architecture=SMALL), replace(TABLE, unit="label")),
    "label_mst": (LabelMst(steps=2, architecture=SMALL), replace(TABLE, unit="label", classes=("a", "b", "c"))),
    "pate": (Pate(teachers=4, queries=12, public=POOL), TABLE),
    "pate, Laplace": (Pate(teachers=4, queries=12, public=POOL, vote="lnmax"), TABLE),
    "pate, confident": (Pate(teachers=4, queries=12, answers=5, public=POOL, vote="confident_gnmax"), TABLE),
    "pate, networks": (Pate(teachers=3, queries=6, teacher_epochs=0.5, public=POOL, **STUDENT), TABLE),
    "private_knn": (PrivateKnn(queries=4, stages=1, threshold=0.5, answers=2, rate=0.3, public=POOL, **STUDENT), TABLE),
    "private_set": (PrivateSet(**MATCHING, private_batch=12, matching=SMALL, architecture=SMALL, steps=2), TABLE),
    "dpgen": (DpGen(variant="corrected", score=SCORE, samples=4, draws=2, steps=1), IMAGE),
    "objective_perturbation": (ObjectivePerturbation(), TABLE),
    "objective_perturbation, pure": (ObjectivePerturbation(distribution="gamma"), TABLE),
    "objective_perturbation, published": (ObjectivePerturbation(distribution="gamma", analysis="chaudhuri"), TABLE),
    "objective_perturbation, Redberg": (ObjectivePerturbation(analysis="redberg"), TABLE),
    "objective_perturbation, Kifer": (ObjectivePerturbation(analysis="kifer"), TABLE),
    "objective_perturbation, regression": (ObjectivePerturbation(), NUMBER),
    "objective_perturbation, three classes": (
        ObjectivePerturbation(distribution="gamma"),
        replace(TABLE, classes=("a", "b", "c")),
    ),
    "output_perturbation": (OutputPerturbation(), TABLE),
    "output_perturbation, pure": (OutputPerturbation(distribution="gamma"), NUMBER),
    "newton": (Newton(steps=3), TABLE),
    "newton, regression": (Newton(steps=3), NUMBER),
    "boosted": (Boosted(trees=3, steps=2, share=0.5), TABLE),
    "boosted, three classes": (Boosted(trees=3, steps=2), replace(TABLE, classes=("a", "b", "c"))),
    "boosted, regression": (Boosted(trees=3, steps=2, monotone={NUMBER.used[0].name: 1}), NUMBER),
    "fourier": (Fourier(steps=2, count=8), TABLE),
    "fourier, three classes": (Fourier(steps=2, count=8), replace(TABLE, classes=("a", "b", "c"))),
    "fourier, regression": (Fourier(steps=2, count=8, monotone={NUMBER.used[0].name: 1}), NUMBER),
    "additive": (Additive(steps=3), TABLE),
    "amortised": (Amortised(rounds=1, weights=tiny_table_network()), TABLE),
    "amortised, three classes": (
        Amortised(rounds=2, weights=tiny_table_network()),
        replace(TABLE, classes=("a", "b", "c")),
    ),
    "adassp": (Adassp(), NUMBER),
    "adassp, images": (Adassp(), IMAGE),
    "iteration_amplification": (IterationAmplification(), TABLE),
    "iteration_amplification, three classes": (IterationAmplification(), replace(TABLE, classes=("a", "b", "c"))),
    "iteration_amplification, regression": (IterationAmplification(), NUMBER),
}


SLOW = {"finetune"}
"""Trained through a network that is built and probed anew in each of some 200 runs: 45 seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LEARNERS]
)
def test_learner_keeps_the_contract(name: str) -> None:
    learner, schema = LEARNERS[name]
    assert check_learner(learner, schema=schema, games=GAMES.get(name, GAMES.get(name.split(",")[0], 100))) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED_SLOWLY)
def test_released_network_proves_no_more_than_its_claim(name: str) -> None:
    learner, schema = LEARNERS[name]
    assert check_learner(learner, schema=schema, games=80) <= 1.0


POPULATIONS = [name for name, (learner, _) in LEARNERS.items() if isinstance(learner, PopulationLearner)]


@pytest.mark.parametrize("name", POPULATIONS)
def test_population_takes_a_noise_for_each_model(name: str) -> None:
    learner, schema = LEARNERS[name]
    models = learner.run_population([learner] * 2, rows_for(schema, 24), [0.5, 2.0], Rng(seed=1))  # type: ignore[attr-defined]
    assert [type(model) for model in models] == [Model] * 2
    assert models[0].architecture == models[1].architecture


def test_every_learner_is_checked() -> None:
    checked = {type(learner).__module__.rsplit(".", 1)[-1] for learner, _ in LEARNERS.values()}
    assert checked == set(registry.names("learners"))
