"""What `auto` chooses, and the releases that come before its learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from privaware.data import Data
from privaware.mechanism import Mechanism, Then
from privaware.schema import Schema

__all__ = ["Choice", "Stage"]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A release before the learner, such as private quantiles: see `Then` for `join`, `outline` and `share`.

    `what` says what it does in a few words, such as "release quantiles".
    """

    what: str
    mechanism: Mechanism[Any]
    join: Callable[[Data, Any], Data]
    outline: Callable[[Schema], Schema] = lambda schema: schema
    share: float = 1.0

    def then(self, second: Mechanism[Any]) -> Then:
        """This release first, then `second` on the rows that `join` returns."""
        return Then(
            first=self.mechanism, second=second, join=self.join, outline=self.outline, share=self.share, what=self.what
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A learner with its settings, the releases before it, and the reasons in words; a function of public facts only.

    Releases come in the order of `before`, after bounds that are not declared. A regression is `centred` by a private
    range of its target before the learner, unless that finds one itself and has rows enough for it.
    """

    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    before: tuple[Stage, ...] = ()
    centred: bool = True
