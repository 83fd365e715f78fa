"""The public rows of `--public`: a file, a DataFrame, or the training rows of a built-in data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privaware import datasets
from privaware.data import Data, Raw, read
from privaware.errors import WrongInput
from privaware.model import is_built_in
from privaware.schema import Schema

__all__ = ["read_public"]


def read_public(public: Any, schema: Schema, reading: Mapping[str, Any], *, private: str, labelled: bool) -> Data:
    """Read public rows by the `schema` of the private rows, with one row as the unit.

    `reading` are the options of `privaware.data.read`, and `labelled` says whether the target is read, too. `private`
    is the name of the built-in data set that is private in this run, or empty. Its rows raise `WrongInput`, because
    choices or labels made from them would not be public.
    """
    facts = replace(schema, unit="row", cap=1)
    if not is_built_in(public):
        return Data.of(read(public, **reading), facts, labelled=labelled)
    if public == private:
        raise WrongInput(f"expected other rows than the private ones with --public, got {public} for both")
    return Data.of(_raw(public), facts, labelled=labelled)


def _raw(name: str) -> Raw:
    """Return the training rows of a built-in data set in the form in which a file would hold them."""
    import pandas as pd

    rows = datasets.load(name).train
    schema = rows.schema
    target: Any = np.array(schema.classes, dtype=object)[rows.y] if schema.classes else rows.y
    if schema.form == "image":
        return Raw(images=rows.x, labels=target.astype(np.str_), name=name)
    if schema.form == "text":
        return Raw(frame=pd.DataFrame({"text": rows.x, schema.target: target}), name=name)
    columns: dict[str, Any] = {}
    for at, column in enumerate(schema.used):
        values = rows.x[:, at]
        if column.kind == "category":
            words = np.array([*column.categories, None], dtype=object)  # the last code means a missing value
            values = words[np.minimum(values.astype(np.int64), len(column.categories))]
        columns[column.name] = values
    return Raw(frame=pd.DataFrame({**columns, schema.target: target}), name=name)
