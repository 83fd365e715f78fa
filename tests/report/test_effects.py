"""What a model learned of a column is what its tensors say, and depends on nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.card import ModelCard
from privaware.features.codes import Codes
from privaware.model import Model
from privaware.report import page, page_text
from privaware.report._effects import effects
from privaware.report._effects_view import effects_view
from privaware.schema import Column, Schema
from tests.report.pages import card_entries

AGE = Column(name="age", low=0, high=80, bins=(20, 40))
TOWN = Column(name="town", kind="category", categories=("n", "e", "s"), missing="category")
WEIGHT = Column(name="weight", low=-2, high=2)


def linear(schema: Schema, weights: np.ndarray) -> tuple[ModelCard, dict[str, np.ndarray]]:
    entries = card_entries()
    entries["schema"] = schema.json()
    entries["features"] = [{"name": "onehot", "bins": 0, "norm": 1.0}]
    entries["architecture"] = {"name": "linear", "inputs": weights.shape[1], "outputs": len(weights)}
    tensors = {"output.weight": weights.astype(np.float32), "output.bias": np.ones(len(weights), np.float32)}
    return ModelCard.from_json(entries), tensors


def two_classes(columns: tuple[Column, ...] = (AGE, TOWN, WEIGHT)) -> tuple[ModelCard, dict[str, np.ndarray]]:
    width = sum({"age": 3, "town": 4, "weight": 1}[column.name] for column in columns)
    weights = np.random.default_rng(0).normal(size=(2, width))
    return linear(Schema(columns=columns, target="y", classes=("no", "yes"), rows=10), weights)


def test_curves_of_a_linear_model_are_its_weights() -> None:
    card, tensors = two_classes()
    shown = effects(card, tensors)
    assert shown is not None
    assert shown.outputs == ("yes",)
    assert shown.unit == "log odds of yes against no"
    odds = (tensors["output.weight"][1] - tensors["output.weight"][0]) / np.sqrt(3)
    curves = {effect.column: effect for effect in shown.columns}
    assert curves["age"].values[:, 0] == pytest.approx(odds[:3] - odds[:3].mean(), abs=1e-5)
    assert curves["age"].levels == ("0 to 20", "20 to 40", "40 to 80")
    assert curves["town"].values[:, 0] == pytest.approx(odds[3:6] - odds[3:6].mean(), abs=1e-5)
    assert curves["town"].missing == pytest.approx(odds[6] - odds[3:6].mean(), abs=1e-5)
    assert curves["weight"].values[[0, -1], 0] == pytest.approx([-odds[7], odds[7]], abs=1e-5)
    sizes = [effect.size for effect in shown.columns]
    assert sizes == sorted(sizes, reverse=True)


def test_class_curves_are_centred_and_number_curves_have_units() -> None:
    weights = np.array([[1.0], [3.0], [-1.0]])
    card, tensors = linear(Schema(columns=(WEIGHT,), target="y", classes=("a", "b", "c"), rows=9), weights)
    shown = effects(card, tensors)
    assert shown is not None
    assert shown.columns[0].values[-1] == pytest.approx([0.0, 2.0, -2.0], abs=1e-6)
    card, tensors = linear(Schema(columns=(WEIGHT,), target="price", low=0, high=200, rows=9), np.array([[0.5]]))
    shown = effects(card, tensors)
    assert shown is not None
    assert shown.columns[0].values[[0, -1], 0] == pytest.approx([-50.0, 50.0], abs=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"form": "image", "shape": (1, 2, 2), "columns": ()},
        {"columns": ()},
        {"columns": (Column(name="age"), TOWN, WEIGHT)},
        {"columns": (AGE, TOWN)},
    ],
    ids=["an image", "no column", "no bounds", "tensors of another table"],
)
def test_model_whose_columns_cannot_be_moved_has_no_curves(change: dict[str, Any]) -> None:
    card, tensors = two_classes()
    assert effects(replace(card, schema=replace(card.schema, **change)), tensors) is None


def test_tensors_that_are_not_finite_have_no_curves() -> None:
    card, tensors = two_classes()
    assert effects(card, tensors | {"output.weight": tensors["output.weight"] * np.float32(np.inf)}) is None


def test_page_draws_curves_and_says_that_they_cost_nothing() -> None:
    card, tensors = two_classes()
    html = page(card, tensors=tensors)
    text = page_text(html)
    assert html.count("<polyline") == 2
    assert html.count('class="zero"') == 3
    assert "they have no privacy cost" in text
    assert "What the model learned" not in page_text(page(card))


def test_hostile_names_stay_text_among_the_curves() -> None:
    bad = "<script>alert(1)</script>"
    columns = (replace(AGE, name=bad), replace(TOWN, categories=(bad, "e", "s")))
    card, tensors = two_classes()
    card = replace(card, schema=replace(card.schema, columns=columns, classes=("no", bad)))
    html = page(card, tensors={**tensors, "output.weight": tensors["output.weight"][:, :7]})
    assert "<script" not in html


def test_many_categories_show_the_largest_and_count_the_rest() -> None:
    many = Column(name="town", kind="category", categories=tuple(f"t{at}" for at in range(30)))
    weights = np.stack([np.zeros(30), np.linspace(-1, 1, 30)])
    card, tensors = linear(Schema(columns=(many,), target="y", classes=("no", "yes"), rows=9), weights)
    shown = effects_view(effects(card, tensors))
    assert shown is not None
    assert shown["drawn"][0]["left"] == 18
    names = [bar["name"] for bar in shown["drawn"][0]["bars"]]
    assert names == [f"t{at}" for at in (*range(6), *range(24, 30))]


def test_additive_model_curves_are_its_scores_with_noise() -> None:
    """Two classes have one score with opposite signs, so that log odds move twice as far as a score."""
    schema = Schema(columns=(AGE, TOWN), target="y", classes=("no", "yes"), rows=10)
    entries = card_entries()
    entries["schema"] = schema.json()
    entries["features"] = [{"name": "codes", "cells": 32, "numbers": False}]
    levels, outputs = [3, 4], 2
    shape = {"levels": levels, "outputs": outputs, "numbers": 0, "trees": 0, "depth": 1}
    entries["architecture"] = {"name": "trees", **shape, "deviations": [0.25, 0.5]}
    score = np.array([0.1, 0.4, -0.5, 1.0, 0.0, -1.0, 2.0], dtype=np.float32)
    tensors = {
        "bias": np.zeros(2, np.float32),
        "scores": np.stack([-score, score], axis=1),
        "slopes": np.zeros((0, 2), np.float32),
        "leaves": np.zeros((0, 2, 2), np.float32),
        "columns": np.zeros((0, 1), np.int64),
        "right": np.zeros((0, 1, 4), bool),
    }
    shown = effects(ModelCard.from_json(entries), tensors)
    assert shown is not None
    curves = {effect.column: effect for effect in shown.columns}
    assert curves["age"].values[:, 0] == pytest.approx(2 * (score[:3] - score[:3].mean()), abs=1e-6)
    assert curves["age"].noise == pytest.approx(1.96 * 2 * 0.25 * np.ones(3))
    assert curves["town"].values[:, 0] == pytest.approx(2 * score[3:6], abs=1e-6)
    assert curves["town"].noise == pytest.approx(1.96 * 2 * 0.5 * np.ones(3))
    html = page(ModelCard.from_json(entries), tensors=tensors)
    assert html.count("<polygon") == 1
    assert "2 \u00b1 2" in page_text(html)


@pytest.mark.parametrize("norm", [None, "wide", {}, 1e400])
def test_odd_description_has_no_curves(norm: Any) -> None:
    card, tensors = two_classes()
    assert effects(replace(card, features=({"name": "onehot", "bins": 0, "norm": norm},)), tensors) is None


def trees(schema: Schema, leaves: list[list[float]], depth: int = 2) -> tuple[ModelCard, dict[str, np.ndarray]]:
    """Trees that split age at the first bin and town after n, one after another, with these leaves."""
    entries = card_entries()
    entries["schema"] = schema.json()
    entries["features"] = [{"name": "codes", "cells": 32}]
    feature = Codes()
    levels = feature.levels(schema)
    right = np.zeros((len(leaves), depth, max(levels)), dtype=bool)
    right[:, 0, 1 : levels[0]], right[:, 1, 1 : levels[1]] = True, True
    columns = np.tile(np.arange(depth) % 2, (len(leaves), 1))
    entries["architecture"] = {
        "name": "trees",
        "levels": list(levels),
        "outputs": 1,
        "trees": len(leaves),
        "depth": depth,
    }
    tensors = {
        "bias": np.zeros(1, np.float32),
        "scores": np.zeros((sum(levels), 1), np.float32),
        "slopes": np.zeros((0, 1), np.float32),
        "leaves": np.array(leaves, np.float32)[:, :, None],
        "columns": columns,
        "right": right,
    }
    return ModelCard.from_json(entries), tensors


NUMBER = Schema(columns=(AGE, TOWN), target="y", low=-10, high=10, rows=10)


def test_pair_surface_is_the_effect_beyond_each_column() -> None:
    """The first tree is a sum of both columns, the second one is not: only that is drawn."""
    shown = effects(*trees(NUMBER, [[0.0, 0.1, 0.3, 0.4], [0.0, 0.0, 0.0, 0.3]]))
    assert shown is not None
    [pair] = shown.pairs
    assert pair.columns == ("age", "town")
    assert pair.levels == (("0 to 20", "20 to 40", "40 to 80"), ("n", "e", "s"))
    exact = 3.0 * np.outer([0, 1, 1], [0, 1, 1])
    exact = exact - exact.mean(axis=0) - exact.mean(axis=1, keepdims=True) + exact.mean()
    assert pair.values == pytest.approx(exact, abs=1e-5)


def test_sums_of_columns_and_deeper_trees_have_no_surface() -> None:
    for leaves, depth in (([[0.0, 0.1, 0.3, 0.4]], 2), ([[0.0] * 7 + [0.3]], 3)):
        shown = effects(*trees(NUMBER, leaves, depth))
        assert shown is not None
        assert [pair for pair in shown.pairs if pair.size > 1e-5] == []


def test_heat_map_has_a_rectangle_for_each_two_levels() -> None:
    card, tensors = trees(NUMBER, [[0.0, 0.0, 0.0, 0.3]])
    view = effects_view(effects(card, tensors))
    assert view is not None
    [pair] = view["pairs"]
    assert pair["svg"].count("<rect") == 9
    assert pair["svg"].count("#3f7fc1") == 5  # both low, and both high
    assert (pair["bottom"], pair["top"], pair["low"], pair["high"]) == ("0", "80", "n", "s")
    assert "Interactions of columns" in page(card, tensors=tensors)


def test_effects_of_all_columns_need_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    outputs = Model.outputs

    def counted(model: Model, x: np.ndarray, device: str = "cpu") -> np.ndarray:
        passes.append(len(x))
        return outputs(model, x, device)

    monkeypatch.setattr(Model, "outputs", counted)
    assert effects(*two_classes()) is not None
    assert len(passes) == 1
