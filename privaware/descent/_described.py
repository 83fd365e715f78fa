"""Build losses, schedules and averages from plain tables, such as a learner's settings or a command line.

>>> build_loss({"name": "focal", "gamma": 2.0})
focal(gamma=2.0)
>>> build_schedule({"name": "exponential", "factor": 0.5, "every": 2}, epoch=10)
exponential(factor=0.5, every=20)
>>> build_average(0.25)
tail(share=0.25)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from privaware._validate import suggestion
from privaware.descent import _schedule
from privaware.descent._losses import cross_entropy, focal, losing_less, squared
from privaware.descent._schedule import Schedule
from privaware.descent._update import Average, ema, tail
from privaware.errors import WrongInput

LOSSES: dict[str, Any] = {"focal": focal, "losing_less": losing_less}
"""Losses with settings, by name."""

PLAIN_LOSSES: dict[str, Any] = {"cross_entropy": cross_entropy, "squared": squared}
"""Losses without settings, by name."""

SCHEDULES: dict[str, Any] = {
    name: getattr(_schedule, name)
    for name in ("constant", "cosine", "exponential", "linear", "polynomial", "step_down", "time_decay", "warm_up")
}
AVERAGES: dict[str, Any] = {"ema": ema, "tail": tail}
IN_EPOCHS = ("every", "over")
"""Settings of schedules that a table gives in epochs and a schedule takes in steps."""


def build_loss(table: Mapping[str, Any], epochs: float = 1.0) -> Callable[..., Any]:
    """Build the loss that a table names.

    Parameters
    ----------
    table : mapping
        `name` and the settings of the loss. The name is "cross_entropy", "squared", "focal" or "losing_less". An
        unknown name or setting raises `WrongInput`.
    epochs : float
        Length of the training in epochs. Only `losing_less` uses it, unless `table` has its own `epochs`.

    Returns
    -------
    callable
        The loss.
    """
    fixed = {"epochs": epochs} if table.get("name") == "losing_less" else {}
    return _build("loss", LOSSES | PLAIN_LOSSES, {**fixed, **table})


def build_schedule(table: Mapping[str, Any], epoch: int) -> Schedule:
    """Build the schedule that a table names.

    Parameters
    ----------
    table : mapping
        `name` (a class of `_schedule.py`, such as "cosine") and the settings of the schedule. `every` (default: 1) and
        `over` are in epochs, and are converted to `max(1, round(value * epoch))` steps. An unknown name or setting
        raises `WrongInput`.
    epoch : int
        Number of steps in an epoch.

    Returns
    -------
    Schedule
        The schedule.
    """
    steps = {
        name: max(1, round(value * epoch)) if name in IN_EPOCHS and isinstance(value, (int, float)) else value
        for name, value in table.items()
    }
    kind = SCHEDULES.get(str(table.get("name")))
    if kind is not None:
        steps = {field.name: epoch for field in fields(kind) if field.name == "every"} | steps
    return _build("schedule", SCHEDULES, steps)


def build_average(value: float | Mapping[str, Any]) -> Average | None:
    """Build an average of parameters over steps.

    Parameters
    ----------
    value : float or mapping
        The fraction of the steps at the end of training to average over (0 for no average), or a table with the `name`
        ("ema" or "tail") and the settings of an average. An unknown name or setting raises `WrongInput`.

    Returns
    -------
    Average or None
        The average; None if `value` is 0.
    """
    if isinstance(value, Mapping):
        return _build("average", AVERAGES, value)
    return tail(value) if value else None


def _build(kind: str, known: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    settings = dict(table)
    name = str(settings.pop("name", ""))
    if name not in known:
        raise WrongInput(f"there is no {kind} named {name!r:.60}; {suggestion(name, sorted(known))}")
    accepted = [field.name for field in fields(known[name]) if field.init] if name not in PLAIN_LOSSES else []
    wrong = [setting for setting in settings if setting not in accepted]
    if wrong:
        raise WrongInput(f"{kind} {name}: expected settings among {accepted}, got {wrong[0]!r}")
    return known[name] if name in PLAIN_LOSSES else known[name](**settings)
