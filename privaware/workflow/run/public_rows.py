"""The public rows of `--public`: a file, a DataFrame, or the training rows of a built-in data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privaware import datasets
from privaware.data import Data, Raw, Sketch, hashes_and_sketch, read, rows_digest
from privaware.errors import WrongInput
from privaware.ledger import digest_key, known_ledgers, knows_rows
from privaware.model import is_built_in
from privaware.schema import Schema
from privaware.workflow.run.other_ledgers import similar_ledgers

__all__ = ["read_public"]


def read_public(
    public: Any,
    schema: Schema,
    reading: Mapping[str, Any],
    *,
    private: str,
    labelled: bool,
    known: Callable[[], tuple[str, Sketch, int]] | None = None,
) -> Data:
    """Read public rows by the `schema` of the private rows, with one row as the unit.

    `reading` are the options of `privaware.data.read`, and `labelled` says whether the target is read, too. `private`
    is the name of the built-in data set that is private in this run, or empty. `known()` returns the digest and the
    sketch of the private rows of this run, and a number; None if they may not be read. Rows that are private in this
    run, or in a ledger that the registry knows, raise `WrongInput`, because choices or labels made from them would not
    be public. A `schema` that leaves bounds or categories open, and public data without rows, raise `WrongInput`, too.
    """
    if not schema.bounded:
        raise WrongInput(
            "expected declared bounds and categories of all columns beside --public, because public rows are read by "
            "them before any are estimated; give --schema FILE"
        )
    facts = replace(schema, unit="row", cap=1)
    if not is_built_in(public):
        raw = read(public, **reading)
        if not len(raw):
            raise WrongInput(f"expected public rows, got none in {raw.name or 'a DataFrame'!r:.80}; check --public")
        _expect_not_private(raw, known)
        return Data.of(raw, facts, labelled=labelled)
    if public == private:
        raise WrongInput(f"expected other rows than the private ones with --public, got {public} for both")
    return Data.of(_raw(public), facts, labelled=labelled)


def _expect_not_private(raw: Raw, known: Callable[[], tuple[str, Sketch, int]] | None) -> None:
    """Raise `WrongInput` if the public rows `raw` are private rows, as far as digests and sketches of rows tell.

    `known` is as for `read_public`.
    """
    if known is None and not knows_rows():
        return
    key = digest_key()
    hashes, unfinished = hashes_and_sketch(raw, key)
    digest, sketch = rows_digest(hashes, key), unfinished.finished()
    private = None if known is None else known()
    shown, advice = raw.name or "a DataFrame", "give --public rows that nobody needs protected"
    if private is not None and (digest == private[0] or sketch.resembles(private[1])):
        raise WrongInput(f"expected public rows, got {shown!r:.80}, which shares rows with the private rows; {advice}")
    for ledger in (*known_ledgers(digest), *similar_ledgers(digest, sketch)):
        if ledger.open() is not None:
            raise WrongInput(
                f"expected public rows, got {shown!r:.80}, whose rows, or half of them, were charged as private rows "
                f"to '{ledger.path}'; {advice}"
            )


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
