"""What the caller of an estimator declares: a schema, or the types of X."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from privaware._rounded import rounded_up
from privaware._validate import suggestion
from privaware.accounting import DEFAULT_DELTA
from privaware.data import read
from privaware.data._code import has_date_type
from privaware.data._draft import date_column
from privaware.data._raw import check_names
from privaware.errors import OpenBoundsWarning, OverlapWarning, WrongInput, warn_caller
from privaware.estimators._overlap import overlap_with_past_fits, uncertified_source, without_persons
from privaware.ledger import Ledger
from privaware.schema import Column, Schema
from privaware.workflow.run.other_ledgers import SameRows

HOW_TO = "docs/how_to/scikit_learn_pipelines.md"
"""Documentation page about pipelines: steps before an estimator, and how persons are protected."""
_warned: set[type[Warning]] = set()
"""Classes of warnings that this process has already issued; each is issued once."""
ASSUMED = ("the number of rows, as the length of X", "the number of columns, their names and types, as X declares them")


def known_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor refuse an unknown keyword by a `TypeError` with the name of the class and of the nearest one.

    The decorated constructor keeps its signature, from which scikit-learn reads the parameters.
    """
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **settings: Any) -> None:
        for name in settings:
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no argument {name!r:.80}; {suggestion(name, known)}")
        init(self, *args, **settings)

    return checked


class PrivateEstimator(BaseEstimator):
    """Base class of all estimators: a budget, and the declared facts about X (`PrivateClassifier` explains them).

    After `fit`, `epsilon_` is the epsilon of the fit, `certified_` says whether its guarantee is certified,
    `guarantee_` is the guarantee in words, and `assumptions_` lists the facts that it takes as public or trusted.
    """

    text: Sequence[str] = ()
    epsilon_: float
    certified_: bool
    guarantee_: str
    assumptions_: list[str]

    @known_arguments
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        schema: Schema | str | Path | None = None,
        random_state: Any = None,
        ledger: Ledger | str | Path | None = None,
        unit: str | None = None,
        cap: int = 1,
        missing: str | float = "refuse",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.random_state = random_state
        self.ledger = ledger
        self.unit = unit
        self.cap = cap
        self.missing = missing

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return scikit-learn's representation of about `N_CHAR_MAX` characters, marked if the fit is not certified."""
        shown = str(super().__repr__(N_CHAR_MAX))
        return shown if getattr(self, "certified_", True) else f"{shown} [not certified]"

    def _state(
        self,
        result: Any,
        rows: pd.DataFrame,
        schema: Schema,
        seed: int | None,
        labels: Any,
        row_ledgers: Sequence[SameRows],
    ) -> str:
        """Set the attributes that end in `_` by the `result` of a fit, and return a sentence about an overlap.

        There is an overlap if `rows` were in earlier fits of this process that were not charged to the same ledger, if
        another ledger of these rows is known, or if a transformer without a certificate computed them. `row_ledgers`
        are the known ledgers of `rows`. Without an overlap the sentence is empty. The ledger of the fit must still
        exist. `labels` are the labels of `rows`, if the caller knows them. With neither a given schema nor a `seed`,
        warn of numbers without bounds.
        """
        overlap = overlap_with_past_fits(
            rows,
            schema,
            result.event,
            labels=labels,
            delta=self.delta,
            ledger=self.ledger,
            row_ledgers=row_ledgers,
            seeded=seed is not None,
        )
        if not overlap and (overlap := uncertified_source(rows, schema)) and seed is None:
            warn_caller(overlap, OverlapWarning)
        self.epsilon_ = result.epsilon
        self.certified_ = result.certified and not overlap
        if overlap and seed is None:
            self.guarantee_ = f"NOT CERTIFIED: {overlap}. For this release alone: {result.sentence}"
        else:
            self.guarantee_ = f"{result.sentence}{_ledger_total(self.ledger)}"
        self.assumptions_ = result.assumptions
        if self.schema is None and seed is None:
            _warn_of_open_bounds(rows, schema)
        return overlap

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: NaN is allowed if a column of the given `Schema` allows gaps.

        Without a schema the setting `missing` decides. `non_deterministic` stays false: a fit with a `random_state` is
        reproducible.
        """
        tags = super().__sklearn_tags__()
        if self.schema is None:
            tags.input_tags.allow_nan = self.missing != "refuse"
        elif isinstance(self.schema, Schema):
            tags.input_tags.allow_nan = any(c.missing != "refuse" for c in self.schema.used)
        return tags

    def _declared(self, X: Any, task: str) -> Schema | None:
        """Return the given schema (`_given_schema`), or if there is none the schema from the types of `X`.

        The schema from types is None if nothing is declared (see `_from_types`). Raise `WrongInput` if the given schema
        is for another task than `task`, or for images.
        """
        schema = self._given_schema()
        if schema is None:
            return self._from_types(X)
        if schema.task != task:
            raise WrongInput(
                f"expected a schema with {'classes' if task == 'classification' else 'no classes'} "
                f"for {type(self).__name__}, got one for {schema.task}; give another schema"
            )
        if schema.form == "image":
            raise WrongInput("expected a schema of form table or text, got one of images; use privaware.fit")
        return schema

    def _given_schema(self) -> Schema | None:
        """Return `schema`, read from its file if it is a path; None if the argument is None.

        If the estimator has a `unit`, its `unit` and `cap` replace the `unit` and `cap` of the schema.
        """
        if self.schema is None:
            return None
        schema = self.schema if isinstance(self.schema, Schema) else Schema.read(self.schema)
        return schema if self.unit is None else replace(schema, unit=self.unit, cap=self.cap)

    def _from_types(self, X: Any) -> Schema | None:
        """Return the schema that the types of `X` and the settings of the estimator declare.

        Return None for an array if the settings declare nothing: `missing` is "refuse" and `unit` is None. Raise
        `WrongInput` if `unit` or `text` names a column, and `X` has no such column or is an array.
        """
        named = self.unit not in (None, "row", "label")
        if not isinstance(X, pd.DataFrame):
            if named or self.text:
                names = ", ".join(map(repr, (*self.text, *((self.unit,) if named else ()))))
                raise WrongInput(
                    f"expected X as a data frame that has the columns of unit= and text= ({names:.80}), got an array; "
                    f"give a data frame, or pass these columns by an earlier step of a pipeline ({HOW_TO})"
                )
            if self.missing == "refuse" and self.unit is None:
                return None
            X = _numbers(X)
            X.columns = [f"x{at}" for at in range(X.shape[1])]
        columns = [str(name) for name in X.columns]
        for name in (*self.text, *((str(self.unit),) if named else ())):
            if name not in columns:
                raise WrongInput(
                    f"expected a column of X, got {name!r:.80}; {suggestion(name, columns)}; in a pipeline, every step "
                    f"before this one must pass the column on ({HOW_TO})"
                )
        used = X.drop(columns=[name for name in X.columns if named and str(name) == self.unit])
        declared = schema_from_types(used, text=self.text, missing=self.missing)
        return replace(declared, unit=self.unit or "row", cap=self.cap)


def _ledger_total(given: Ledger | str | Path | None) -> str:
    """Return a sentence, after a space, with the total epsilon and delta of the ledger `given`, but not its name.

    The name of a ledger in the data folder is the digest of the rows. Return an empty text without a ledger, or if it
    has at most one charge.
    """
    if given is None:
        return ""
    ledger = given if isinstance(given, Ledger) else Ledger.open(given)
    charges = sum(entry.kind == "spend" for entry in ledger.entries())
    if charges < 2:
        return ""
    return (
        f" {charges} releases are charged to the ledger of this fit: all releases together have epsilon "
        f"{rounded_up(ledger.spent())} at delta {rounded_up(ledger.delta)}."
    )


def _warn_of_open_bounds(rows: pd.DataFrame, schema: Schema) -> None:
    """Warn, once in a process, if a column of floats has no bounds: an uncharged step may have computed it."""
    open_numbers = {column.name for column in schema.used if column.kind == "number" and not column.bounded}
    floats = {str(name) for name, kind in rows.dtypes.items() if kind.kind == "f"}  # not the parts of a date
    if OpenBoundsWarning in _warned or not open_numbers & floats:
        return
    _warned.add(OpenBoundsWarning)
    warn_caller(
        "X holds real numbers without declared bounds, so that a part of the budget paid for bounds; a step before "
        "this one that learns from the rows, such as StandardScaler, is outside the guarantee and is not noticed here: "
        "replace such a step by PrivateNormaliser or PrivatePCA, whose costs are charged; if there is none, schema= "
        f"with bounds saves that part of the budget ({HOW_TO})",
        OpenBoundsWarning,
    )


def as_pandas(X: Any) -> Any:
    """Convert a polars data frame, or another one that supports Arrow, to pandas; return anything else unchanged.

    Raise `WrongInput` if columns of a data frame have the same name.
    """
    if isinstance(X, pd.DataFrame):
        check_names(X, "X")
        return X
    if not hasattr(X, "__arrow_c_stream__") or not hasattr(X, "columns"):
        return X
    return read(X).frame


def input_checks(schema: Schema | None, X: Any) -> dict[str, Any]:
    """Return the arguments with which `validate_data` checks X.

    Without a schema, or if it has only numbers without gaps, X must hold finite numbers. Otherwise only the shape of X
    is checked, because the schema allows text, gaps or a column of persons. The same holds for a data frame with
    columns that the schema does not have: they are not used, so they may hold anything.
    """
    plain = schema is None or (
        schema.unit in ("row", "label")
        and all(c.kind == "number" and c.missing == "refuse" for c in schema.columns)
        and not (isinstance(X, pd.DataFrame) and {*map(str, X.columns)} - {c.name for c in schema.columns})
    )
    return {"dtype": np.float64} if plain else {"dtype": None, "ensure_all_finite": False}


def checked_input(estimator: Any, *arrays: Any, y_numeric: bool = False, **checks: Any) -> Any:
    """Validate `arrays`, X or X and y, by `validate_data`, and return them; with `y_numeric`, y as floats.

    `validate_data` also sets, or compares, the number and names of the columns of `estimator`. `checks` are its further
    arguments. Text among numbers raises `WrongInput`, which names only its position; so do a gap in y, dates as numeric
    y, an X of one dimension and complex numbers, without their values. Unless `checks` allow NaN, NaN in X raises
    `WrongInput` if `estimator` has a setting `missing`. Other problems raise scikit-learn's `ValueError`.
    """
    X, *y = arrays
    if y:
        _expect_no_gap(y[0], "number" if y_numeric else "label")
        if y_numeric and pd.api.types.is_datetime64_any_dtype(y[0]):
            raise WrongInput(
                "expected numbers as the target of a regression, got dates; give days since a date instead"
            )
    if isinstance(X, pd.DataFrame) and checks["dtype"] is None:  # NumPy has no common type of dates and numbers
        X = X.astype({name: object for name, values in X.items() if has_date_type(values)})
    try:
        with unquoted(X):
            if not y_numeric:
                return validate_data(estimator, X, *y, **checks)
            checked, target = validate_data(estimator, X, *y, y_numeric=True, **checks)
            return checked, target.astype(float)
    except ValueError as problem:
        if str(problem).startswith("Input X contains NaN") and hasattr(estimator, "missing"):
            advice = 'missing="category" makes a gap a category of its own, missing=0.0 or another number fills it in'
            raise WrongInput(f"Input X contains NaN: expected a number in every cell, or {advice}") from None
        if "could not convert" not in str(problem):
            raise
    raise _text_in_target(*y) if checks["dtype"] is None else _text_among_numbers(*arrays)


def _expect_no_gap(y: Any, what: str) -> None:
    """Raise `WrongInput`, which names the row, if a value of the target `y` is missing; `what` is a value in words."""
    values = np.asarray(y, dtype=object) if isinstance(y, (list, tuple)) else y
    gaps = np.asarray(pd.isna(values)) if isinstance(values, (np.ndarray, pd.Series)) else np.zeros(0)
    if gaps.ndim == 1 and gaps.any():
        raise WrongInput(f"row {int(np.argmax(gaps)) + 1} of y: expected a {what}, got none; leave the row out")


@contextmanager
def unquoted(X: Any) -> Iterator[None]:
    """Turn errors of scikit-learn that quote values, of `X` or its target, into `WrongInput` without these values."""
    try:
        yield
    except ValueError as problem:
        if str(problem).startswith("Expected 2D array"):
            advice = "Reshape your data: array.reshape(-1, 1) is one column, array.reshape(1, -1) is one row"
            raise WrongInput(f"expected X with two dimensions, got {np.ndim(X)}. {advice}") from None
        if str(problem).startswith("Complex data not supported"):
            raise WrongInput("Complex data not supported: expected real numbers; give each part as a number") from None
        raise


def _numbers(X: Any) -> pd.DataFrame:
    """Return the array `X` as a data frame of floats; text raises `WrongInput`, which names only its position."""
    try:
        return pd.DataFrame(np.asarray(X, dtype=float))
    except ValueError as problem:
        if "could not convert" not in str(problem):
            raise
    raise _text_among_numbers(X)


def _text_in_target(y: Any) -> WrongInput:
    """Return the error for text in the target `y` of a regression; it quotes no value."""
    place = _place_of_text(y, "y") or "y"
    return WrongInput(
        f"{place}: expected a number as the target of a regression, got text; for classes take PrivateClassifier, or "
        "PrivateSelector with task='classification'"
    )


def _text_among_numbers(X: Any, *y: Any) -> WrongInput:
    """Return the error for text in `X`, which must hold numbers, or else in the target `y`; it quotes no value."""
    place = _place_of_text(X, "X")
    if y and not place:
        return _text_in_target(*y)
    place = place or "X"
    return WrongInput(f"{place}: expected a number, got text; encode it, or give a DataFrame with columns of text")


def _place_of_text(values: Any, name: str) -> str:
    for index, value in np.ndenumerate(np.asarray(values, dtype=object)):
        try:
            float(value)
        except (TypeError, ValueError):
            words = (f"{what} {at + 1}" for what, at in zip(("row", "column"), index, strict=False))
            return f"{', '.join(words)} of {name}"
    return ""


def schema_from_types(X: pd.DataFrame, *, text: Sequence[str] = (), missing: str | float = "refuse") -> Schema:
    """Build a schema, without target and rows, from the types of the columns of `X`; values are never read.

    Numbers have no bounds. `missing` is the treatment of missing numbers: "refuse", "category" or a number to fill in.
    Missing dates, times and truth values are treated alike, but are a category of their own if `missing` is a number.
    Truth values are numbers from 0 to 1. Columns of text or categories are categories, and columns named in `text` are
    free text. Other types raise `WrongInput`.
    """
    free = {name: Column(name=name, kind="text") for name in text}
    columns = ((str(name), X[name]) for name in X.columns)
    read = tuple(free.get(name) or _column(name, values, missing) for name, values in columns)
    target = "target"
    while any(column.name == target for column in read):
        target += "_"
    return Schema(columns=read, target=target)


def _column(name: str, values: pd.Series, missing: str | float) -> Column:
    kind, gaps = values.dtype, missing if isinstance(missing, str) else "category"
    if has_date_type(values):
        return date_column(name, values, gaps)
    if pd.api.types.is_bool_dtype(kind) and not isinstance(kind, pd.CategoricalDtype):
        return Column(name=name, low=0, high=1, missing="refuse" if kind == np.bool_ else gaps)  # it has no gaps
    if pd.api.types.is_numeric_dtype(kind):
        return Column(name=name, missing=missing)
    if kind.kind not in "OU":  # "U" is text of PyArrow
        raise WrongInput(
            f"column {name!r}: expected numbers, truth values, dates, text or categories, got {kind}; "
            "convert the column (a duration by .dt.total_seconds()) or leave it out"
        )
    return Column(name=name, kind="category", missing="category", unseen="other")


def target_name(y: Any) -> str:
    """Return the name of a series `y` if it is a text, as public as the name of a column; otherwise "target"."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name.strip() else "target"


def open_schema(
    estimator: Any, typed: Schema | None, shape: tuple[int, int], classes: tuple[str, ...] = (), target: str = "target"
) -> Schema:
    """Build the schema that the caller of `fit` declares; bounds and categories are left to be estimated.

    If `estimator` was given a schema, `typed` is that schema and is returned unchanged. Otherwise `typed` is the schema
    from the types of X, with its columns, unit and cap. If `typed` is None, all columns are numbers, named by
    `estimator.feature_names_in_` or else x0, x1 and so on, and the unit is a row. `classes` are the classes of the
    target; without them it is a regression. `shape` is the shape of X; the public number of rows is `shape[0]`. The
    target is called `target`, followed by underscores if a column has this name, or is the unit.
    """
    if estimator.schema is not None:
        assert typed is not None
        return typed
    if typed is None:
        names = getattr(estimator, "feature_names_in_", [f"x{at}" for at in range(shape[1])])
        typed = Schema(columns=tuple(Column(name=str(name)) for name in names))
    while target in {typed.unit, *(column.name for column in typed.columns)}:
        target += "_"
    assumed = ASSUMED + (("the classes, as the labels that occur in y",) if classes else ())
    return replace(typed, target=target, classes=classes, rows=shape[0], assumed=assumed)


def new_rows(estimator: Any, X: Any, schema: Schema) -> pd.DataFrame:
    """Return new rows `X` for a fitted `estimator` as a data frame, checked, and without the column of persons."""
    X = without_persons(as_pandas(X), schema)
    return named_frame(X, checked_input(estimator, X, reset=False, **input_checks(schema, X)), schema)


def with_persons(frame: pd.DataFrame, X: Any, schema: Schema) -> pd.DataFrame:
    """Return `frame`, the rows of `X`, with the column that `without_persons` left out, in its place in `X`."""
    if not isinstance(X, pd.DataFrame) or len(frame.columns) == len(X.columns):
        return frame
    place = [str(name) for name in X.columns].index(schema.unit)
    frame = frame.copy()
    frame.insert(place, schema.unit, X.iloc[:, place].reset_index(drop=True))
    return frame


def named_frame(X: Any, checked: np.ndarray, schema: Schema) -> pd.DataFrame:
    """Return the rows `X` as a data frame.

    `checked` are the values of `X` after validation (rows, columns). A data frame `X` keeps its column names, as text;
    its values come from `checked` if `checked` holds floats, and otherwise from `X`. For an array `X`, the values come
    from `checked`, with the column names of the schema, in their order; another number of columns raises `WrongInput`.
    If the schema has no columns, the result for an array has its rows and no column.
    """
    if isinstance(X, pd.DataFrame):
        frame = pd.DataFrame(checked) if checked.dtype == np.float64 else X.reset_index(drop=True)
        return frame.set_axis([str(name) for name in X.columns], axis=1)
    names = [column.name for column in schema.columns]
    if not names:  # a constant model uses no column
        return pd.DataFrame(index=range(len(checked)))
    if len(names) != checked.shape[1]:
        raise WrongInput(
            f"expected X with the {len(names)} columns of the schema, got {checked.shape[1]}; "
            "give a DataFrame with named columns, or all columns in the schema's order"
        )
    return pd.DataFrame(checked, columns=names)


def seed_of(random_state: Any) -> int | None:
    """Return the seed to record: `random_state` itself if it is an integer, or a number drawn from a random state.

    Return None for None, which leaves the noise to the operating system.
    """
    if random_state is None:
        return None
    state = check_random_state(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(state.randint(2**31))
