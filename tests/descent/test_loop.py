"""The loop around the steps: progress, observers, captured or eager."""

from __future__ import annotations

import pytest
import torch

from privaware.descent import Callbacks, Checkpoint, every
from privaware.descent._loop import stepper, train_to_end
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.descent.small_training import ROWS, examples, flat_of, net, recipe, train, training


def test_progress_counts_steps_and_estimates_seconds():
    reports = []
    train(recipe(steps=4), progress=lambda *facts: reports.append(facts))
    assert [fact[:2] for fact in reports] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert reports[-1][2] == 0


def test_training_without_examples_is_not_captured(monkeypatch):
    x, y = examples()
    models = [net()]
    run = training(recipe(), models, x[:0], y[:0], noise=[1.0], rows=ROWS, rng=Rng(0))
    monkeypatch.setattr(run.stack, "device", torch.device("cuda"))
    assert stepper(run) == run.one_step
    monkeypatch.undo()
    trained = train_to_end(run)[0]
    assert not torch.equal(trained[0].weight, net()[0].weight)


def test_observers_see_every_step_and_change_nothing():
    steps, thetas = [], []

    def observe(training):
        steps.append(training.step)
        thetas.append(training.state.theta.clone())

    trained = train(recipe(steps=4), on_step=[observe])
    assert steps == [1, 2, 3, 4]
    assert torch.equal(thetas[-1][0], flat_of(trained))
    assert torch.equal(flat_of(trained), flat_of(train(recipe(steps=4))))


def test_observer_is_called_at_intervals_and_after_the_last_step():
    steps = []
    train(recipe(steps=7), on_step=[every(3, lambda training: steps.append(training.step))])
    assert steps == [3, 6, 7]


def test_an_observer_may_stop_the_training_after_a_checkpoint(tmp_path):
    class Enough(Exception):
        pass

    def stop(training):
        if training.step == 2:
            raise Enough

    path = Checkpoint(tmp_path / "state", every=1)
    with pytest.raises(Enough):
        train(recipe(steps=5), checkpoint=path, on_step=[stop])
    resumed = train(recipe(steps=5), seed=9, checkpoint=path)
    assert torch.equal(flat_of(resumed), flat_of(train(recipe(steps=5))))


def test_each_stack_has_a_file_and_a_part_of_the_progress():
    reports = []
    callbacks = Callbacks(Checkpoint("run", every=7), lambda *facts: reports.append(facts), (print,))
    second = callbacks.for_stack(1, 3)
    assert (second.checkpoint, second.on_step) == (Checkpoint("run.1", every=7), (print,))
    second.progress(2, 10, 5.0)
    assert reports == [(12, 30, 10.0)]
    assert callbacks.for_stack(0, 1) is callbacks


def test_an_observer_of_every_0_steps_is_refused():
    with pytest.raises(WrongInput, match="expected count as a whole number >= 1, got 0"):
        every(0, lambda training: None)
