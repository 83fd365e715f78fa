"""Search spaces: points, conditions, random points and settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware import datasets, models
from privaware.errors import WrongInput
from privaware.learners.dpsgd import DpSgd
from privaware.models.spaces import Space, point_key, spaces

MNIST = {"fcn": 300, "fcn_frozen": 300, "cnn": (1, 28, 28), "cnn_frozen": (1, 28, 28)}


@pytest.mark.parametrize(("name", "points"), [("fcn", 1770), ("cnn", 28), ("fcn_frozen", 13530), ("cnn_frozen", 352)])
def test_spaces_of_the_papers_have_the_printed_number_of_points(name: str, points: int) -> None:
    keys = [point_key(point) for point in Space.load(name).points()]
    assert len(keys) == len(set(keys)) == points


@pytest.mark.parametrize("name", sorted(MNIST))
def test_random_points_build_networks_with_a_flag_for_each_layer(name: str) -> None:
    space = Space.load(name)
    for seed in range(20):
        settings = space.settings(space.draw(np.random.default_rng(seed)))
        network = models.build({**settings["architecture"], "inputs": MNIST[name], "outputs": 10}, device="meta")
        layers = [part for part in network.modules() if any(True for _ in part.parameters(False))]
        assert len(settings.get("trainable", layers)) == len(layers)


@given(st.integers(0, 10_000), st.sampled_from(["fcn", "fcn_frozen", "cnn_frozen", "dpnas"]))
def test_drawn_mutated_and_crossed_points_are_canonical(seed: int, name: str) -> None:
    space, rng = Space.load(name), np.random.default_rng(seed)
    one, two = space.draw(rng), space.draw(rng)
    mutated, child = space.mutate(one, rng), space.cross(one, two, rng)
    for point in (one, two, mutated, child):
        assert space.canonical(point) == point
    assert mutated != one
    assert all(child[at] in (one.get(at), two.get(at)) for at in child if at in one or at in two)


@pytest.mark.parametrize("name", ["tuning", "images"])
def test_settings_build_learners_of_a_priced_cost(name: str) -> None:
    space, schema = Space.load(name), datasets.schema("mnist")
    for seed in range(12):
        learner = DpSgd(**space.settings(space.draw(np.random.default_rng(seed))))
        assert learner.cost(schema, 1.0) in [
            DpSgd(**space.settings(point)).cost(schema, 1.0) for point in space.priced_points()
        ]


def test_canonical_point_has_no_inactive_choices() -> None:
    space = Space.load("fcn")
    point = {"layers": 1, "units1": 64, "activation1": "relu"}
    assert space.canonical({**point, "units2": 128, "activation3": "tanh"}) == point


def test_priced_points_are_all_combinations_of_priced_choices() -> None:
    space = Space.load(
        {
            "choices": {"units": [4, 8], "batch": [10, 20, 40], "steps": [5, 10]},
            "build": {"architecture": {"name": "fcn", "hidden": ["$units"]}, "batch": "$batch"},
            "priced": ["batch", "steps"],
        }
    )
    pairs = {(point["batch"], point["steps"]) for point in space.priced_points()}
    assert len(pairs) == len(space.priced_points()) == 6


GOOD = {"choices": {"a": [1, 2], "b": [3]}, "build": {"lr": "$a"}, "when": {"b": {"a": [2]}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"choices": {}},
        {"choices": {"a": []}},
        {"choices": {"a": 3}},
        {"choices": [1]},
        {"build": {"lr": "$c"}},
        {"when": {"a": {"b": [3]}}},
        {"when": {"b": {"a": [9]}}},
        {"when": {"b": 3}},
        {"priced": ["c"]},
        {"surprise": 1},
    ],
)
def test_invalid_space_is_refused(wrong: dict[str, object]) -> None:
    Space.load(GOOD)
    with pytest.raises(WrongInput, match="expected"):
        Space.load({**GOOD, **wrong})


def test_invalid_file_is_refused(tmp_path) -> None:
    (tmp_path / "bad.toml").write_text("choices = [")
    for name in ("nothing", str(tmp_path / "missing.toml"), str(tmp_path / "bad.toml")):
        with pytest.raises(WrongInput):
            Space.load(name)
    (tmp_path / "good.toml").write_text('[choices]\nlr = [1.0, 2.0]\n[build]\nlr = "$lr"\n')
    assert len(list(Space.load(tmp_path / "good.toml").points())) == 2
    assert {"fcn", "cnn", "dpnas"} <= set(spaces())


def test_covering_points_hold_every_reachable_value() -> None:
    for name in spaces():
        space = Space.load(name)
        covered = {(at, point_key({at: point[at]})) for point in space.covering_points() for at in point}
        samples = [space.draw(np.random.default_rng(seed)) for seed in range(200)]
        assert {(at, point_key({at: point[at]})) for point in samples for at in point} <= covered
        assert all(space.canonical(point) == point for point in space.covering_points())
