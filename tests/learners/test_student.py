"""The student: labels that a vote gave, and public rows that have none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privaware.data import Data
from privaware.events import NOTHING, Event
from privaware.learners._student import Student
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema

COLUMNS = tuple(Column(name=name, low=-4, high=4) for name in "abcdef")
TABLE = Schema(columns=COLUMNS, classes=("n", "y"), rows=100)


@dataclass(frozen=True, kw_only=True)
class Pupil(Student):
    """A student that is taught directly."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING


def clusters(rows: int, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    x = rng.standard_normal((rows, 6)) + np.where(y, 0.8, -0.8)[:, None]
    return Data(schema=TABLE, x=np.clip(x, -4, 4), y=y)


def taught(pupil: Pupil, data: Data, labels: np.ndarray, seed: int) -> float:
    model = pupil._trained_student(TABLE, pupil._rows(data), labels, Rng(seed=seed))
    test = clusters(500, seed=99)
    return accuracy(test.y, model.predictions(test))


def test_rows_without_a_label_make_the_student_better() -> None:
    """Two labels of 300: their mean boundary is off, and the clusters mend it."""
    errors = []
    for seed in range(3):
        data = clusters(300, seed)
        labels = np.full(300, -1)
        for code in (0, 1):
            labels[np.flatnonzero(data.y == code)[:1]] = code
        pupil = Pupil(steps=60, batch=32)
        pupils = (pupil, replace(pupil, unlabelled=0.0))
        errors.append([1 - taught(each, data, labels, seed) for each in pupils])
    with_others, without = np.mean(errors, axis=0)
    assert with_others < 0.8 * without


def test_labels_are_learnt() -> None:
    data = clusters(200, 0)
    assert taught(Pupil(steps=60, batch=64), data, data.y, 0) > 0.93
    assert taught(Pupil(steps=60, batch=64), data, 1 - data.y, 0) < 0.07


def test_students_of_one_population_learn_their_own_labels() -> None:
    """Opposite labels together, and with another number of labels one after another."""
    data, test, steps = clusters(200, 0), clusters(500, seed=99), []
    pupil = Pupil(epochs=10, batch=64, progress=lambda step, total, left: steps.append(step))
    few = np.where(np.arange(200) < 60, data.y, -1)
    for labels, rounds in (([data.y, 1 - data.y], 1), ([data.y, few], 2)):
        steps.clear()
        models = pupil._trained_students(TABLE, pupil._rows(data), labels, Rng(seed=0))
        assert steps.count(1) == rounds
        right = [accuracy(test.y, model.predictions(test)) > 0.9 for model in models]
        assert right == [True, labels[1] is few]


def test_student_without_any_label_is_a_model() -> None:
    data = clusters(50, 0)
    for weight in (0.0, 1.0):
        assert 0 <= taught(Pupil(steps=3, unlabelled=weight), data, np.full(50, -1), 0) <= 1


def test_epochs_are_passes_over_labelled_rows() -> None:
    data, steps = clusters(100, 0), []
    labels = np.where(np.arange(100) < 20, data.y, -1)
    for epochs in (3, 6):
        progress: list[int] = []
        pupil = Pupil(epochs=epochs, batch=10, progress=lambda step, total, left, to=progress: to.append(total))
        taught(pupil, data, labels, 0)
        steps.append(progress[-1])
    assert steps == [12, 24]  # half of each batch of ten
