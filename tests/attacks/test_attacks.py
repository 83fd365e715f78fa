"""Every attack keeps its protocol: one line each."""

from __future__ import annotations

from typing import Any

import pytest

from privaware import registry
from privaware.attacks import find_attack
from privaware.errors import WrongInput
from privaware.testing import check_attack

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "threshold": ("threshold", {}),
    "threshold, confidence": ("threshold", {"statistic": "confidence"}),
    "threshold, entropy": ("threshold", {"statistic": "entropy"}),
    "threshold, reversed": ("threshold", {"reverse": True}),
    "black_box": ("black_box", {"epochs": 2}),
    "white_box": ("white_box", {"epochs": 2}),
    "lira": ("lira", {}),
    "lira, offline": ("lira", {"offline": True, "pooled": False}),
    "rmia": ("rmia", {}),
    "rmia, gamma 2": ("rmia", {"gamma": 2.0}),
    "label_only": ("label_only", {}),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_attack_keeps_the_protocol(case: str) -> None:
    name, settings = ATTACKS[case]
    check_attack(registry.find("attacks", name), **settings)


def test_every_attack_is_checked() -> None:
    assert {name for name, _ in ATTACKS.values()} == set(registry.names("attacks"))


def test_unknown_attack_setting_is_refused_with_known_ones() -> None:
    with pytest.raises(WrongInput, match="rmia has no setting 'gama'; it has gamma, slope"):
        find_attack("rmia", gama=2.0)
    with pytest.raises(WrongInput, match="did you mean lira"):
        find_attack("lyra")
