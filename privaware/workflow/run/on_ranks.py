"""Let rank 0 run a verb of which other ranks share the work; refuse plans that they cannot share, before the charge."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from privaware import registry
from privaware.errors import Refused, WrongInput
from privaware.learners import find_learner
from privaware.learners._fixed_features import ENTRYWISE
from privaware.ranks import current, on_all_ranks
from privaware.workflow.run.plan import Plan

__all__ = ["expect_divisible", "led_by_rank_0"]

P = ParamSpec("P")
T = TypeVar("T")


def led_by_rank_0(verb: Callable[P, T]) -> Callable[P, T]:
    """Return the function `verb`, which rank 0 alone runs if `torchrun` started several processes; all get its result.

    The first argument of `verb` is the data. Every process has to name the same file or built-in data set.
    """

    @functools.wraps(verb)
    def led(*arguments: P.args, **options: P.kwargs) -> T:
        return on_all_ranks(lambda: verb(*arguments, **options), lambda: _facts(*arguments, **options))

    return led


def _facts(data: Any, **options: Any) -> dict[str, str]:
    if not isinstance(data, (str, Path)):
        raise WrongInput(
            f"expected a file or a built-in data set in a script that torchrun started, got {type(data).__name__}; "
            "write the rows to a file, which rank 0 reads"
        )
    plain = {name: value for name, value in sorted(options.items()) if isinstance(value, (str, Path, int, float))}
    return {"data": str(data), "options": repr(plain)}


def expect_divisible(plan: Plan) -> None:
    """Raise `Refused` if this process leads other ranks, but they could neither train nor compute features.

    Ranks share the training of a learner whose class variable `on_ranks` is true, and features of networks.
    """
    ranks = current()
    if ranks is None or ranks.size == 1:
        return
    known = plan.learner in registry.names("learners")
    trains = known and getattr(find_learner(plan.learner), "on_ranks", False)
    computes = any(described["name"] not in ENTRYWISE for described in plan.settings.get("features") or ())
    if not trains and not computes:
        raise Refused(
            f"expected a learner that {ranks.size} processes can train together, such as dpsgd, or features of a "
            f"network, got {plan.learner}; start one process without torchrun"
        )
