"""Labels as scikit-learn uses them, and their names in a schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from privaware.errors import WrongInput
from privaware.estimators._declared import PrivateEstimator, open_schema
from privaware.schema import Schema


def with_classes(
    estimator: PrivateEstimator, schema: Schema | None, shape: tuple[int, int], y: np.ndarray, target: str
) -> tuple[Schema, np.ndarray, np.ndarray]:
    """Return the schema with its classes, the classes as sorted labels, and the class name of each label of `y`.

    `schema` is what `estimator` declares for X of this `shape`, and `target` is the name of y without a given schema.
    If the estimator was given a schema, its classes are declared; otherwise the classes are the labels that occur in
    `y`. Raise `WrongInput` for labels that a given schema does not declare, and, without a given schema, for fewer than
    two labels or two labels of the same name, and for objects that are no text. Raise scikit-learn's `ValueError` if
    `y` is not of classes.
    """
    try:
        check_classification_targets(y)
    except (TypeError, ValueError):
        if y.dtype != object:
            raise
        advice = "convert them, such as by y.astype(bool), y.astype(int) or y.astype(str)"
        raise WrongInput(
            f"Unknown label type: expected labels of one type in y, got an array of dtype object; {advice}"
        ) from None
    if estimator.schema is None:
        classes, names = label_set(y)
        schema = open_schema(estimator, schema, shape, classes=names, target=target)
    else:
        assert schema is not None
        classes, names = declared_labels(schema.classes, y.dtype)
        schema = replace(schema, classes=names)
    return schema, classes, spelling(y, classes, names)


def label_set(y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the labels that occur in `y`, sorted, and their names in the schema.

    Raise `WrongInput` for fewer than two labels, or if two labels have the same name.
    """
    classes = np.unique(y)
    names = tuple(_spelled(label) for label in classes)
    if len(classes) < 2:
        raise WrongInput(
            "Classifier can't train when only one class is present; give rows of another class, "
            "or declare the classes in a schema"
        )
    if len(set(names)) < len(names):
        raise WrongInput("expected labels that differ in more than the spaces around them; rename one")
    return classes, names


def declared_labels(names: tuple[str, ...], kind: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the declared classes `names` as sorted labels of the NumPy type `kind` of y, and the names in this order.

    Raise `WrongInput` if a name cannot be converted to this type, such as "1.5" to integers.
    """
    try:
        if kind.kind == "b":
            labels = np.array([{"true": True, "false": False}[name.lower()] for name in names])
        elif kind.kind in "iuf":
            numbers = np.array([float(name) for name in names])
            labels = numbers.astype(kind)
            if kind.kind != "f" and (labels != numbers).any():
                raise ValueError
        else:
            labels = np.array(names, dtype=object if kind.kind == "O" else str)
    except (KeyError, ValueError):
        raise WrongInput(
            f"expected labels among the declared classes {', '.join(names[:6])}, got y of type {kind}; "
            "spell the labels as the schema does"
        ) from None
    order = np.argsort(labels)
    return labels[order], tuple(names[at] for at in order)


def spelling(y: np.ndarray, classes: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Return for each label of `y` its name in the schema; `names` are in the order of the sorted `classes`.

    Raise `WrongInput` for a label that is not among `classes`.
    """
    at = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    wrong = classes[at] != y
    if wrong.any():
        raise WrongInput(
            f"row {int(np.argmax(wrong)) + 1} of y: expected one of the declared classes {', '.join(names[:6])}, "
            "got another label; correct the row or declare the class"
        )
    return np.array(names, dtype=object)[at]


def _spelled(label: Any) -> str:
    """Return a label as text, without spaces around it, and a float such as 1.0 as "1"."""
    integer = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if integer else str(label).strip()
