"""The errors and warnings of privaware.

Every message says what was expected, what came and what to do. The command line prints the message of an error and
exits with its `code`. The code writes the settings in a message as options; `for_caller` translates them for Python.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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
    "at_command_line",
    "for_caller",
    "naming_options",
    "warn_caller",
    "without_controls",
    "without_torch_warnings",
]

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them, but for line breaks and tabs."""


class PrivawareError(Exception):
    """The base class of all errors of privaware; `code` is the exit code of the command line.

    The text of an error names settings as its caller writes them (`for_caller`), also if another process raised it.
    """

    code = 2

    def __str__(self) -> str:
        return for_caller(super().__str__())


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
    warnings.warn(without_controls(for_caller(sentence)), category, stacklevel=level)


TORCH_WARNINGS = ("The PyTorch API of nested tensors is in prototype stage", "There is a performance drop because")
"""Starts of warnings of PyTorch about its own code, which the caller of a training cannot act on."""


@contextmanager
def without_torch_warnings() -> Iterator[None]:
    """Hide the warnings in `TORCH_WARNINGS`, and no others, inside the block."""
    with warnings.catch_warnings():
        for start in TORCH_WARNINGS:
            warnings.filterwarnings("ignore", message=start, category=UserWarning)
        yield


def without_controls(text: str) -> str:
    """Return `text` with control characters escaped, for a terminal, which would obey them; line breaks and tabs stay.

    Characters that change the direction of writing are escaped too, since they can make a name read as another. The
    escapes are those of TOML and JSON.

    >>> without_controls("town\\x1b[2J")
    'town\\\\u001b[2J'
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_COMMANDS: list[None] = []
"""An item for each block of `naming_options` that runs, in any thread, because threads of one command share it."""


@contextmanager
def naming_options() -> Iterator[None]:
    """Let messages name settings as options of the command line inside the block, not as Python keyword arguments."""
    _COMMANDS.append(None)
    try:
        yield
    finally:
        _COMMANDS.pop()


def at_command_line() -> bool:
    """Return whether messages name settings as options of the command line."""
    return bool(_COMMANDS)


SETTING = re.compile(r"""--([a-z]+(?:-[a-z]+)*)(?:=((?:'[^']*'|"[^"]*"|[^\s'"`;)])+(?<![.,:]))| ([A-Z]+)\b)?(:?)""")
"""An option with its value after "=" or its placeholder after a space, and with an optional colon at the end."""
SETTINGS = re.compile(rf"`(?!--)[^`]*`|(?<![^\s(`]){SETTING.pattern}(?: {SETTING.pattern})*")
"""A command between backticks, which stays unchanged, or one or more consecutive options."""


def for_caller(text: str) -> str:
    """Return a message with its settings as its caller writes them: options, or keyword arguments in Python.

    Parameters
    ----------
    text : str
        The message. It names a setting as `--unit`, with a placeholder as `--ledger FILE`, and with a value as
        `--task=regression` or `--header=False`. A value with spaces is quoted as in a shell. A command, such as
        `privaware ledger FILE --close 3`, stands between backticks and is not translated.

    Returns
    -------
    str
        The message. A message that was translated before is not changed.

    >>> text = "take --unit='case number' --cap=2, or --header=False; `privaware schema --kinds` drafts --kinds FILE"
    >>> for_caller(text)
    "take unit='case number', cap=2, or header=False; `privaware schema --kinds` drafts kinds=FILE"
    >>> with naming_options():
    ...     for_caller(text)
    "take --unit 'case number' --cap 2, or --no-header; `privaware schema --kinds` drafts --kinds FILE"
    """
    spell, between = (_option, " ") if at_command_line() else (_keyword, ", ")

    def spelled(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return between.join(spell(*one.groups()) for one in SETTING.finditer(found[0]))

    return SETTINGS.sub(spelled, text)


def _option(name: str, value: str | None, placeholder: str | None, colon: str) -> str:
    if value == "False":
        return f"--no-{name}{colon}"
    word = placeholder if value in (None, "True") else value
    return f"--{name}{colon}" if word is None else f"--{name} {word}{colon}"


def _keyword(name: str, value: str | None, placeholder: str | None, colon: str) -> str:
    name = name.replace("-", "_")
    if value is None and placeholder is None:
        return f"{name}:" if colon else f"{name}="  # a message may begin with the setting that it is about
    return f"{name}={placeholder or _literal(str(value))}{colon}"


def _literal(word: str) -> str:
    """Return the Python literal for a word of a shell; words in capitals are placeholders and stay unchanged."""
    try:
        text = "".join(shlex.split(word))
    except ValueError:  # text of a user that looks like a setting
        return repr(word)
    numbers = text.split(",")
    if all(re.fullmatch(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", number) for number in numbers):
        return text if len(numbers) == 1 else f"[{', '.join(numbers)}]"
    return text if text in ("True", "False") or (text.isupper() and text == word) else repr(text)
