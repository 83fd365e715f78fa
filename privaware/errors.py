"""What can go wrong, in words a person can act on.

Every message says what was expected, what came and what to do. The command line prints it and exits with `code`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BudgetExceeded", "CheckFailed", "PrivawareError", "Refused", "WrongInput", "expect_counts", "expect_shares"]


class PrivawareError(Exception):
    """The root of everything privaware raises on purpose."""

    code = 2


class WrongInput(PrivawareError, ValueError):
    """A wrong call or unusable data: nothing was spent and nothing was overwritten."""


class BudgetExceeded(PrivawareError):
    """The ledger would pass its limit: nothing was recorded and no row was read."""

    code = 3


class CheckFailed(PrivawareError):
    """A check says no: a model that does not verify, or an attack that beats the claim."""

    code = 4


class Refused(PrivawareError):
    """The guarantee would not hold, so the thing asked for is not done."""


def expect_counts(who: str, **settings: Any) -> None:
    """Settings that are whole numbers of at least 1, or left out."""
    for name, value in settings.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if value is not None and not whole:
            raise WrongInput(f"{who}: expected {name} as a whole number >= 1, got {value!r:.80}")


def expect_shares(who: str, **settings: Any) -> None:
    """Settings that are numbers from 0 to 1."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise WrongInput(f"{who}: expected {name} in [0, 1], got {value!r:.80}")
