"""Refuse plans whose work several ranks cannot share, before anything is charged."""

from __future__ import annotations

from privaware import registry
from privaware.errors import Refused
from privaware.learners import find_learner
from privaware.learners._fixed_features import ENTRYWISE
from privaware.ranks import current
from privaware.workflow.run.plan import Plan

__all__ = ["expect_divisible"]


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
