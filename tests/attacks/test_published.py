"""The attacks of DPMLBench on its own split of CIFAR-10, at full size: minutes of a GPU."""

from __future__ import annotations

import pytest
import torch

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


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("private", "black_box", "white_box"), [(False, (0.70, 1), (0.68, 1)), (True, (0, 0.53), (0, 0.53))]
)
def test_attacks_reach_what_the_paper_publishes(
    private: bool, black_box: tuple[float, float], white_box: tuple[float, float]
) -> None:
    """The paper has 0.78 and 0.72 without privacy, and about 0.5 at epsilon 4."""
    game = posed(private=private)
    for name, (least, most) in {"black_box": black_box, "white_box": white_box}.items():
        result = play(game, find_attack(name), Rng(seed=3), name=name)
        assert least <= result.tailored_auc <= most
        assert result.shadow_training == ("private" if private else "without privacy")
