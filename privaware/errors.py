"""What can go wrong, in words a person can act on.

Every message says what was expected, what came and what to do. The command line prints it and exits with `code`.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "CheckFailed",
    "OpenBoundsWarning",
    "OverlapWarning",
    "PrivawareError",
    "Refused",
    "WrongInput",
]


class PrivawareError(Exception):
    """The root of everything privaware raises on purpose."""

    code = 2


class WrongInput(PrivawareError, ValueError):
    """A wrong call or unusable data: nothing was spent and nothing was overwritten."""


class BudgetExceeded(PrivawareError):
    """The ledger would pass its limit: nothing was recorded and no row was read.

    `needed` is the limit that would be enough, for the `ledger` at this path; `fits` the largest epsilon of such a run
    that the ledger still has room for, where it is known; `spent` what was spent before, where nothing is left.
    """

    code = 3

    def __init__(
        self,
        message: str,
        *,
        ledger: str | None = None,
        needed: float | None = None,
        fits: float | None = None,
        spent: float | None = None,
    ) -> None:
        super().__init__(message)
        self.ledger, self.needed, self.fits, self.spent = ledger, needed, fits, spent


class CheckFailed(PrivawareError):
    """A check says no: a model that does not verify, or an attack that beats the claim."""

    code = 4


class Refused(PrivawareError):
    """The guarantee would not hold, so the request is refused."""


class OverlapWarning(UserWarning):
    """The same rows are charged in several places, none of which adds up what they reveal together."""


class OpenBoundsWarning(UserWarning):
    """An estimator got real numbers without declared bounds, which may be what another step read off the rows."""
