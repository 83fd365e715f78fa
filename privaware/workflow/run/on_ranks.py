"""Let rank 0 run a verb whose training other ranks share; refuse, before the charge, plans that they cannot share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from privaware import registry
from privaware.errors import Refused, WrongInput
from privaware.learners import find_learner
from privaware.learners._fixed_features import ENTRYWISE
from privaware.ranks import current, on_all_ranks
from privaware.schema import Schema
from privaware.workflow.run.plan import Plan

__all__ = ["expect_divisible", "led_by_rank_0", "trains_on_ranks"]

COMPARED = (str, Path, int, float, Mapping, list, tuple, Schema)
"""Classes of the options that all ranks must give alike; of all others those of rank 0 are used."""

P = ParamSpec("P")
T = TypeVar("T")


def led_by_rank_0(verb: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls `verb` in rank 0 only, if `torchrun` started several processes; all get its result.

    The first argument of `verb` is the data. With several processes, each has to name the same file or built-in data
    set, and to give the same options (`COMPARED` are compared); else `WrongInput` is raised.
    """

    @functools.wraps(verb)
    def led(*arguments: P.args, **options: P.kwargs) -> T:
        return on_all_ranks(lambda: verb(*arguments, **options), lambda: _facts(*arguments, **options))

    return led


def _facts(data: Any, **options: Any) -> dict[str, str]:
    """Return the data and the plain options of a call, which all ranks must agree in, as texts.

    Raise `WrongInput` unless `data` is a path or a name.
    """
    if not isinstance(data, (str, Path)):
        raise WrongInput(
            f"expected a file or a built-in data set in a script that torchrun started, got {type(data).__name__}; "
            "write the rows to a file, which rank 0 reads"
        )
    from privaware.descent._code_facts import code_facts

    compared = [(name, value) for name, value in sorted(options.items()) if isinstance(value, COMPARED)]
    facts = [(name, repr(value) if isinstance(value, Path) else code_facts(value)) for name, value in compared]
    return {"data": str(data), "options": repr(facts)}


def trains_on_ranks(learner: str) -> bool:
    """Return whether ranks can share the training of the learner called `learner`; False for "auto"."""
    return learner in registry.names("learners") and getattr(find_learner(learner), "on_ranks", False)


def expect_divisible(plan: Plan, device: str) -> None:
    """Raise `Refused` if this process leads other ranks, but ranks can share neither training nor features of `plan`.

    Raise `WrongInput` if `device` is a GPU, but one of the ranks has none. Without other ranks nothing is checked.
    """
    ranks = current()
    if ranks is None or ranks.size == 1:
        return
    computes = any(described["name"] not in ENTRYWISE for described in plan.settings.get("features") or ())
    if not computes and not trains_on_ranks(plan.learner):
        raise Refused(
            f"expected a learner that {ranks.size} processes can train together, such as dpsgd, or features of a "
            f"network, got {plan.learner}; start one process without torchrun"
        )
    ranks.expect_device(device)
