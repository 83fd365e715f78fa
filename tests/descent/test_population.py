"""The settings of each model, and the public numbers of a step."""

from __future__ import annotations

import math

import pytest
import torch

from privaware.descent import cosine, flat, linear, members, momentum, quantile, tail
from privaware.descent._population import Member, Population
from privaware.errors import WrongInput
from tests.descent.small_training import net, recipe


def test_members_without_settings_take_those_of_the_recipe():
    population = Population.of([Member(net(), 1.5), Member(net(), 2.0, lr=0.1, norm=0.3)], recipe(update=momentum(0.7)))
    assert population == Population(noise=(1.5, 2.0), lr=(0.7, 0.1), norm=(0.5, 0.3))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"noise": [1.0, 0.0]}, "or 0 for all"),
        ({"noise": [1.0, -1.0]}, "expected noise >= 0"),
        ({"noise": [1.0, 1.0], "lr": [0.1, math.nan]}, "expected lr >= 0"),
        ({"noise": [1.0, 1.0], "norm": [1.0, math.inf]}, "finite norm"),
    ],
)
def test_wrong_settings_of_a_member_are_refused(wrong, words):
    with pytest.raises(WrongInput, match=words):
        Population.of(members([net()] * 2, **wrong), recipe())


def test_without_noise_the_norm_may_be_infinite():
    assert Population.of([Member(net(), 0.0)], recipe(clip=flat(math.inf))).norm == (math.inf,)


def test_step_settings_follow_the_schedules():
    descent = recipe(steps=4, noise_schedule=linear(0.5), lr_schedule=cosine(), average=tail(0.5))
    population = Population.of(members([net()] * 2, noise=[2.0, 4.0], lr=[0.1, 0.2]), descent)
    row = population.row(descent, 2)
    assert row.noise == row.gradient_noise == [1.5, 3.0]
    assert row.lr == pytest.approx([0.05, 0.1])
    assert (row.average_weight, row.progress) == (1.0, 0.5)


def test_gradient_noise_of_a_quantile_exceeds_the_joint_noise():
    descent = recipe(clip=quantile(norm=0.5, count_noise=5.0))
    row = Population.of([Member(net(), 2.0)], descent).row(descent, 0)
    assert row.gradient_noise == [descent.clip.gradient_noise(2.0)]
    assert row.gradient_noise[0] > row.noise[0]


@pytest.mark.parametrize("models", [1, 3])
def test_settings_are_numbers_for_one_model_and_columns_for_many(models):
    descent = recipe()
    population = Population.of(members([net()] * models, noise=[2.0] * models), descent)
    settings = population.settings(descent, 1, torch.zeros(1))
    if models == 1:
        assert (settings.noise, settings.lr) == (2.0, 0.5)
    else:
        assert torch.equal(settings.noise, torch.full((3, 1), 2.0))
        assert torch.equal(settings.lr, torch.full((3, 1), 0.5))
