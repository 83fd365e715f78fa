"""Every attack keeps its protocol: one line each."""

from __future__ import annotations

from privaware import registry
from privaware.attacks import Attack
from privaware.testing import check_attack

ATTACKS: dict[str, Attack] = {}


def test_every_attack_keeps_the_protocol() -> None:
    assert set(ATTACKS) == set(registry.names("attacks"))
    for attack in ATTACKS.values():
        check_attack(attack)
