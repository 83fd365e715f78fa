"""The errors and warnings of privaware.

Every message says what was expected, what came and what to do. The command line prints the message of an error and
exits with its `code`.
"""

from __future__ import annotations

import re
import sys
import warnings

__all__ = [
    "BudgetExceeded",
    "CheckFailed",
    "Interrupted",
    "OpenBoundsWarning",
    "OverlapWarning",
    "PersonsWarning",
    "PrivawareError",
    "Refused",
    "UnusedColumnWarning",
    "WrongInput",
    "warn_caller",
    "without_controls",
]

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them, but for line breaks and tabs."""


class PrivawareError(Exception):
    """The base class of all errors of privaware; `code` is the exit code of the command line."""

    code = 2


class WrongInput(PrivawareError, ValueError):
    """A wrong call, unusable data or an unusable file; no result is overwritten.

    Nearly all of these errors come before a charge. The message of a later one says that the charge stays in the ledger
    or that the command resumes.
    """


class BudgetExceeded(PrivawareError):
    """The ledger would pass its limit: the run is not charged, and no mechanism saw a row.

    `ledger` is the path of the ledger. `needed` is the limit (an epsilon) that would be enough for this run. `fits` is
    the largest `--epsilon` with which this run would fit. `spent` is the spent epsilon, set only if the ledger has no
    room for any run. Each is None if it is unknown.
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
    """A check failed: a model does not verify, or an attack refutes the claimed guarantee."""

    code = 4


class Interrupted(PrivawareError):
    """The user interrupted a command; the message says what becomes of its work."""

    code = 130


class Refused(PrivawareError):
    """The guarantee would not hold, so the request is refused."""


class OverlapWarning(UserWarning):
    """The same rows are in several releases that are not charged to one ledger, so nothing limits their total cost."""


class PersonsWarning(UserWarning):
    """The name of a column suggests that it identifies persons or cases, but the guarantee protects single rows."""


class UnusedColumnWarning(UserWarning):
    """A column is not used as a feature, and the caller did not ask for this."""


class OpenBoundsWarning(UserWarning):
    """An estimator got columns of real numbers without declared bounds.

    An earlier step of a pipeline, such as a scaler, may have computed these numbers from several rows. The guarantee of
    the estimator does not cover that step.
    """


CALLING = ("privaware", "sklearn", "joblib", "threading", "contextlib")
"""Packages that `warn_caller` skips on the call stack: privaware, and packages that call its estimators."""


def warn_caller(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning whose location is the nearest line on the call stack outside privaware and scikit-learn.

    (`CALLING` lists all packages that are skipped.)

    Parameters
    ----------
    sentence : str
        The message of the warning.
    category : type of Warning
        The class of the warning.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in CALLING:
        level, frame = level + 1, frame.f_back
    warnings.warn(without_controls(sentence), category, stacklevel=level)


def without_controls(text: str) -> str:
    """Return `text` with control characters escaped, for a terminal, which would obey them; line breaks and tabs stay.

    Characters that change the direction of writing are escaped too, since they can make a name read as another. The
    escapes are those of TOML and JSON.

    >>> without_controls("town\\x1b[2J")
    'town\\\\u001b[2J'
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
