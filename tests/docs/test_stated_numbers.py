"""Numbers on pages about time and accuracy are those of the files that `fit` uses."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import _epsilon_table
import pytest

ROOT = Path(__file__).parents[2]
AUTO = ROOT / "privaware" / "workflow" / "auto"
POLICY: dict[str, Any] = tomllib.loads((AUTO / "policy.toml").read_text(encoding="utf-8"))
RULES = {rule["name"]: rule for rule in POLICY["rule"]}


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / "how_to" / f"{name}.md").read_text(encoding="utf-8").split())


def gains(name: str, better: str, than: str) -> dict[tuple[str, int, float], float]:
    """How many points one candidate is above another, by data set, rows and epsilon."""
    cells = json.loads((AUTO / f"{name}.json").read_text(encoding="utf-8"))
    return {
        (cell["text" if name == "text" else "data"], cell["rows"], cell["epsilon"]): 100
        * (cell["scores"][better] - cell["scores"][than])
        for cell in cells
        if better in cell["scores"] and than in cell["scores"]
    }


def test_page_of_texts_states_the_times_of_the_policy() -> None:
    seconds, limit = RULES["texts with a public network"]["cost"]["seconds"], POLICY["limits"]["seconds"]
    assert seconds == RULES["few texts with a public network"]["cost"]["seconds"]
    assert f"counts {seconds} seconds for each text" in page("learn_from_texts")
    assert f"at most {limit} seconds, so up to {round(limit / seconds):,} texts" in page("learn_from_texts")


def test_page_of_images_states_the_times_of_the_policy() -> None:
    cost, text = RULES["colour images with a public network"]["cost"], page("learn_from_images")
    assert f"counts {cost['seconds']} seconds on two idle cores" in text
    assert f"and {cost['seconds'] + cost['sizes']['224']:.4f} seconds at 224 x 224 pixels" in text
    assert f"the largest of {', '.join(sorted(cost['sizes'], reverse=True))} and 96 pixels" in text
    assert f"within {POLICY['limits']['seconds']} seconds" in text


def test_page_of_images_states_the_limits_of_the_policy() -> None:
    text = page("learn_from_images")
    colour, grey = (
        RULES[name]["when"]["rows_epsilon"]
        for name in ("colour images with a public network", "grey images with a public network")
    )
    colour_gpu, grey_gpu = (
        RULES[name]["when"]["rows_epsilon"]
        for name in ("many colour images on a GPU with a public network", "many grey images on a GPU")
    )
    numbers = [int(re.sub(r"\D", "", each)) for each in (colour, colour_gpu, *grey, grey_gpu)]
    of_colour = "colour images with n >= {:,} (on a GPU n < {:,})"
    stated = of_colour + ", and of grey images with {:,} <= n < {:,} (on a GPU n < {:,})"
    assert stated.format(*numbers) in text


def test_page_of_texts_states_the_measured_gains() -> None:
    network = gains("text", "sentences as a public network reads them", "weighed words, stems and letters")
    assert {rows for _, rows, _ in network} == {1000}
    more, less = [gain for gain in network.values() if gain > 0], [-gain for gain in network.values() if gain < 0]
    assert (len(network), len(more), len(less)) == (7, 4, 3)
    stated = f"{min(more):.0f} to {max(more):.0f} points more accurate than hashed words on four and "
    assert stated + f"{min(less):.0f} to {max(less):.1f} points less accurate on three" in page("learn_from_texts")


def test_page_of_images_states_the_measured_gains() -> None:
    three = gains("image", "public network, glyphs and small prior, weighed", "small prior and glyphs, centred")
    cifar, svhn = ([f"{three[name, 960, at]:.0f}" for at in (1.0, 3.0)] for name in ("cifar10", "svhn"))
    text = page("learn_from_images")
    assert f"{cifar[0]} and {cifar[1]} points more accurate at epsilon 1 and 3" in text
    assert f"(SVHN) {svhn[0]} and {svhn[1]} points more" in text


def test_table_of_epsilons_is_the_computed_one() -> None:
    written = _epsilon_table.MARKS.search(_epsilon_table.PAGE.read_text(encoding="utf-8"))
    assert written is not None
    assert written[0] == _epsilon_table.table()


def test_bounds_of_a_guess_are_sharp_in_simple_cases() -> None:
    assert _epsilon_table.any_mechanism(0.0) == pytest.approx(0.5, abs=1e-5)
    assert _epsilon_table.suspicion(0.0) == pytest.approx(0.1)
    gaussian, general = _epsilon_table.gaussian_mechanism, _epsilon_table.any_mechanism
    assert all(gaussian(epsilon) < general(epsilon) for epsilon in (0.1, 1.0, 10.0))
