"""The attacks of DPMLBench on its own split of CIFAR-10, at full size: minutes of a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from privaware import accounting, datasets
from privaware.attacks import Challenge, ShadowPlan, find_attack, halves_game, play
from privaware.learners.dpsgd import DpSgd
from privaware.noise import Rng


def posed(*, private: bool) -> Challenge:
    """SimpleCNN with the paper's settings, and one shadow model trained in the same way on the other halves."""
    halves = datasets.halves(datasets.load("cifar10"))
    norm = 4.0 if private else 1e6
    learner = DpSgd(
        architecture={"name": "simple_cnn"}, batch=256, epochs=90, norm=norm, lr=0.01, average=0.0, device="cuda"
    )
    noise = 0.0
    if private:
        noise = accounting.calibrate(lambda value: learner.cost(halves.train.schema, value), 4.0, 1e-5)
    return halves_game(learner, halves, noise=noise, rng=Rng(seed=0), shadows=ShadowPlan(), device="cuda")


ATTACKS: dict[str, tuple[str, dict[str, Any], float]] = {
    "black_box": ("black_box", {}, 0.67),
    "black_box, log odds": ("black_box", {"reads": "odds", "lr": 1e-3, "epochs": 20}, 0.75),
    "white_box": ("white_box", {}, 0.68),
}
"""Each with the least area that it must have without privacy; the first and the last have the paper's settings."""


@pytest.mark.slow
@pytest.mark.cuda
@pytest.mark.parametrize("private", [False, True])
def test_attacks_reach_what_the_paper_publishes(private: bool) -> None:
    """The paper has 0.78 and 0.72 without privacy, and about 0.5 at epsilon 4; its black box is not reached with its
    settings (0.683 to 0.712 on five targets), but by reading log odds (0.795 to 0.815 on three)."""
    game = posed(private=private)
    for label, (name, settings, least) in ATTACKS.items():
        result = play(game, find_attack(name, **settings), Rng(seed=3), name=label)
        assert result.tailored_auc <= 0.53 if private else result.tailored_auc >= least, label
        assert result.shadow_training == ("private" if private else "without privacy")
