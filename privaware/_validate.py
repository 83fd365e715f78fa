"""Checks of settings: each passes, or raises `WrongInput` that says what was expected and what came.

`who` starts the message and may be empty. True and False do not pass as numbers. Settings are keyword arguments:

>>> expect_count("dpsgd", steps=100)
>>> expect_in("dpsgd", "(0, 1]", rate=1.5)
Traceback (most recent call last):
privaware.errors.WrongInput: dpsgd: expected rate in (0, 1], got 1.5
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from privaware.errors import WrongInput

MIN_SIMILARITY = 0.7
"""Smallest similarity (of `difflib`, from 0 to 1) at which a name is suggested."""


def nearest(word: object, known: Iterable[str]) -> str | None:
    """Return the only name in `known` that starts with `word`, or else the name that is most similar to `word`.

    Case is ignored, and `str(word)` is compared. Return None if the similarity of every name is below `MIN_SIMILARITY`.

    >>> nearest("lineer", ["linear", "finetune"]), nearest("Bound", ["bounds", "pca"]), nearest("nope", ["income"])
    ('linear', 'bounds', None)
    """
    names = {name.casefold(): name for name in sorted(known, reverse=True)}
    written = str(word).casefold()
    starts = [name for name in names if written and name.startswith(written)]
    close = starts if len(starts) == 1 else difflib.get_close_matches(written, names, n=1, cutoff=MIN_SIMILARITY)
    return names[close[0]] if close else None


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return the end of a message about the unknown name `word`: its `nearest` name in `known`, or else all of `known`.

    >>> suggestion("lineer", ["linear", "pate"])
    'did you mean linear?'
    >>> suggestion("x", ["linear", "pate"])
    'choose one of linear, pate'
    >>> suggestion("x", [])
    'there is none'
    """
    names = list(known)
    near = nearest(word, names)
    if not names:
        return "there is none"
    return f"did you mean {near}?" if near else f"choose one of {', '.join(names)}"


def shown(value: Any) -> str:
    """Return the `repr` of `value` for a message; if it has more than 120 characters, the first 117 and "...".

    Of a data frame, an array or a tensor only the type is named, because it may hold private rows.
    """
    if isinstance(getattr(value, "shape", None), tuple) and value.shape:
        return f"an object of {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # integers with thousands of digits have no repr
        return "a number of thousands of digits"
    return text if len(text) <= 120 else text[:117] + "..."


def expect(good: object, who: str, expected: str, value: Any) -> None:
    """Raise `WrongInput` with the message "WHO: expected EXPECTED, got VALUE" unless `good`; all checks call this.

    An empty `who` is left out together with its colon.
    """
    if not good:
        raise WrongInput(f"{who}{': ' if who else ''}expected {expected}, got {shown(value)}")


def expect_count(who: str, /, least: int = 1, *, optional: bool = False, **settings: Any) -> None:
    """Raise `WrongInput` (see `expect`) unless all `settings` are integers of at least `least`.

    NumPy integers are accepted; the float 3.0 is not, nor are True and False. With `optional` they may also be None.
    `who` begins the message.
    """
    for name, value in settings.items():
        good = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
        expect(good or (optional and value is None), who, f"{name} as a whole number >= {least}", value)


def expect_positive(who: str, /, **settings: Any) -> None:
    """Raise `WrongInput` that begins with `who` (see `expect`) unless all `settings` are finite numbers above 0."""
    for name, value in settings.items():
        expect(_finite(value) and value > 0, who, f"{_named(name, value)} > 0", value)


def expect_nonnegative(who: str, /, **settings: Any) -> None:
    """Raise `WrongInput` that begins with `who` (see `expect`) unless all `settings` are finite numbers >= 0."""
    for name, value in settings.items():
        expect(_finite(value) and value >= 0, who, f"{_named(name, value)} >= 0", value)


def expect_fraction(who: str, /, **settings: Any) -> None:
    """Raise `WrongInput` that begins with `who` (see `expect`) unless all `settings` are finite numbers in [0, 1]."""
    expect_in(who, "[0, 1]", **settings)


def expect_in(who: str, interval: str, /, **settings: Any) -> None:
    """Raise `WrongInput` that begins with `who` (see `expect`) unless all `settings` are finite numbers in `interval`.

    `interval` is in mathematical notation: `(0, 1]` means above 0 and at most 1, and `(0, inf)` above 0.
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    for name, value in settings.items():
        good = (
            _finite(value)
            and (low <= value if interval[0] == "[" else low < value)
            and (value <= high if interval[-1] == "]" else value < high)
        )
        expect(good, who, f"{_named(name, value)} in {interval}", value)


def expect_between(who: str, low: float, high: float, /, *, optional: bool = False, **settings: Any) -> None:
    """Raise `WrongInput` (see `expect`) unless all `settings` are finite numbers from `low` to `high`, both included.

    With `optional` they may also be None. `who` begins the message.

    >>> expect_between("linear", 1e-9, 1e9, norm=0)
    Traceback (most recent call last):
    privaware.errors.WrongInput: linear: expected norm from 1e-09 to 1e+09, got 0
    """
    for name, value in settings.items():
        good = _finite(value) and low <= value <= high
        expect(good or (optional and value is None), who, f"{_named(name, value)} from {low:g} to {high:g}", value)


def expect_one_of(who: str, choices: Iterable[Any], /, **settings: Any) -> None:
    """Raise `WrongInput` that begins with `who` (see `expect`) unless all `settings` are among `choices`.

    >>> expect_one_of("fit", ("row", "label"), unit="person")
    Traceback (most recent call last):
    privaware.errors.WrongInput: fit: expected unit among row, label, got 'person'
    """
    listed = list(choices)
    for name, value in settings.items():
        expect(value in listed, who, f"{name} among {', '.join(map(str, listed))}", value)


def expect_path(expected: str, path: object) -> None:
    """Raise `WrongInput` unless `path` is a str or a path object; `expected` says what it should be the path of.

    The message has the type of `path` only, because `path` may be a data frame of private rows.

    >>> expect_path("a model folder", None)
    Traceback (most recent call last):
    privaware.errors.WrongInput: expected the path of a model folder, got an object of NoneType
    """
    if not isinstance(path, (str, os.PathLike)):
        raise WrongInput(f"expected the path of {expected}, got an object of {type(path).__name__}")


TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "bool": ((bool,), "True or False"),
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "Path": ((str, os.PathLike), "a path"),
    "Mapping": ((Mapping,), "a mapping"),
    "Sequence": ((Collection,), "a list"),
    "Sequence[str]": ((Collection,), "a list of texts"),
    "Callable": ((Callable,), "a function"),  # type: ignore[dict-item]
    "Say": ((Callable,), "a function"),  # type: ignore[dict-item]
    "None": ((type(None),), "None"),
}
"""The accepted types of a part of an annotation, such as `str` in `str | None`, and their name in a message."""


def expect_annotated(annotations: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Raise `WrongInput` (see `expect`) for the first of `values` that does not have its type in `annotations`.

    Both mappings have the names of the values as keys. An annotation is text, such as `Ledger | str | Path | None`. Its
    part `Sequence` means any collection but a text, a mapping or a table, and `Sequence[str]` a collection of texts.
    The entries of a mapping are not checked, and neither are values with the annotation `Any`.

    >>> expect_annotated({"settings": "Mapping[str, Any] | None"}, {"settings": 1})
    Traceback (most recent call last):
    privaware.errors.WrongInput: expected settings as a mapping or None, got 1
    """
    for name, value in values.items():
        parts = annotations.get(name, "Any").split(" | ")
        if "Any" not in parts and not any(_fits(part, value) for part in parts):
            words = [TYPES[key][1] if key in TYPES else f"a {key}" for key in map(_type_name, parts)]
            expect(False, "", f"{name} as {' or '.join(dict.fromkeys(words))}", value)


def _type_name(part: str) -> str:
    """Return the name of the type `part` without its module and without its brackets, except for a list of texts.

    >>> _type_name("Mapping[str, Any]"), _type_name("nn.Module"), _type_name("Sequence[str]")
    ('Mapping', 'Module', 'Sequence[str]')
    """
    return part if part == "Sequence[str]" else part.partition("[")[0].rpartition(".")[2]


def _fits(part: str, value: Any) -> bool:
    """Return whether `value` has the type `part`, one part of an annotation."""
    head = _type_name(part)
    if head == "bool":
        return type(value).__name__ == "bool"  # also a bool of NumPy
    if head not in TYPES:  # a class, found by its name, so that it need not be imported
        return head in (base.__name__ for base in type(value).__mro__)
    if head in ("int", "float") and isinstance(value, bool):
        return False
    if head.startswith("Sequence"):
        plain = not isinstance(value, (str, bytes, Mapping)) and getattr(value, "ndim", 1) == 1
        listed = plain and isinstance(value, Collection)
        return listed and (head == "Sequence" or all(isinstance(each, str) for each in value))
    return isinstance(value, TYPES[head][0])


P = ParamSpec("P")
T = TypeVar("T")


def typed_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that an argument of another type than its annotation raises `WrongInput`.

    `expect_annotated` says which types are accepted. An argument that is left out is not checked.

    >>> @typed_arguments
    ... def doubled(count: int) -> int:
    ...     return 2 * count
    >>> doubled("2")
    Traceback (most recent call last):
    privaware.errors.WrongInput: expected count as a whole number, got '2'
    """
    signature = inspect.signature(function)
    annotations = {name: str(parameter.annotation) for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        expect_annotated(annotations, {**dict(zip(annotations, args)), **kwargs})
        return function(*args, **kwargs)

    return call


def renamed_keywords(**new_names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function accept earlier names of keyword arguments, each with a `DeprecationWarning`.

    A call with both the earlier and the new name of an argument raises `WrongInput`.

    Parameters
    ----------
    **new_names
        The new name of each earlier name.

    Returns
    -------
    Callable
        A decorator. The decorated function keeps its signature, which names the new keywords only.

    >>> @renamed_keywords(rate="sampling_rate")
    ... def expected_batch(rows, sampling_rate):
    ...     return rows * sampling_rate
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     expected_batch(100, rate=0.5), str(caught[0].message)
    (50.0, 'expected_batch: the keyword rate is called sampling_rate now; the earlier name will go in the next version')
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in [name for name in kwargs if name in new_names]:
                new = new_names[old]
                if new in kwargs:
                    raise WrongInput(f"{function.__name__}: expected one of {new} and its earlier name {old}, got both")
                warnings.warn(
                    f"{function.__name__}: the keyword {old} is called {new} now; "
                    "the earlier name will go in the next version",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def _named(name: str, value: Any) -> str:
    """Return `name`, followed by what it has to be, such as "as a number", if `value` is not a finite number.

    >>> _named("epsilon", -1), _named("epsilon", "1"), _named("epsilon", math.inf)
    ('epsilon', 'epsilon as a number', 'epsilon as a finite number')
    """
    if _finite(value):
        return name
    real = isinstance(value, Real) and not isinstance(value, bool)
    return f"{name} as a {'finite ' if real else ''}number"


def _finite(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False
