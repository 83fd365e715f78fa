"""The public rows that a cell of a benchmark trains and tests on.

A table in the grid says which rows. For built-in data it has `dataset`, and numbers of rows `train` and `test` if not
all rows are wanted; the schema is known before a row is read. For the user's own data it has `file` and `target`. It
must have `public = true`, because a benchmark trains many models without a ledger. It may have files with test rows
(`test`), and with public rows for learners that need them (`auxiliary`).

`protocol` is the split. "official" is the split of the data set. "halves" leaves half of the training rows and half of
the test rows to the attacker, who trains shadow models on them. "dpmlbench" is the split of the paper DPMLBench for
built-in images: also halves, of images resized to 32 x 32 pixels, and public rows are taken from the test rows. With
`shuffled = false` rows are in the order of the files, as in the code of the paper.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets
from privaware._validate import expect_count, expect_one_of
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.learners import Learner
from privaware.schema import Schema
from privaware.workflow.run.source import draft_schema

POOL = 9_000
"""Number of public rows of an ensemble in protocol "dpmlbench"."""
STUDENT_TEST = 1_000
"""Number of test rows of an ensemble in protocol "dpmlbench"."""
ANCHORS = 2_000
"""Number of public rows of any other learner in protocol "dpmlbench"."""
BUILT_IN = {"dataset", "protocol", "shuffled", "train", "test"}
OWN = {"file", "target", "public", "test", "auxiliary", "sha256", "protocol"}
PROTOCOLS = ("official", "halves", "dpmlbench")
"""The splits of built-in data."""
OWN_PROTOCOLS = ("official", "halves")
"""The splits of the user's own files."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BenchRows:
    """The disjoint sets of rows of a cell.

    `train` and `test` are the rows to train and to test on. `public` are the public rows of a learner that needs them,
    else None. `shadow_train` trains the attacker's shadow models, and `shadow_test` are rows of the attacker that no
    shadow model sees; both are None in protocol "official", which leaves no rows to an attacker. In protocol
    "dpmlbench" an ensemble (a learner such as `pate`) leaves no test rows to the attacker, so `shadow_test` is a fifth
    of the attacker's training rows.
    """

    train: Data
    test: Data
    public: Data | None = None
    shadow_train: Data | None = None
    shadow_test: Data | None = None


def expect_rows(
    label: str, table: Mapping[str, Any], folder: Path = Path(), *, attacker: bool = False
) -> dict[str, Any]:
    """Check the table of one data set, and return it completed.

    Parameters
    ----------
    label : str
        The name of the data set in the grid.
    table : mapping
        What the grid says about it. A wrong entry raises `WrongInput`.
    folder : Path
        The folder to which paths of files are relative.
    attacker : bool
        Whether an attacker needs rows for shadow models: the protocol is then "halves" unless the table says another.

    Returns
    -------
    dict
        The table for the entry `rows` of the settings of cells. For built-in data it has the name `dataset`, which is
        `label` by default. For the user's own data it has absolute paths, and as `sha256` a hash of all files.
    """
    who, known = f"data.{label}", OWN if "file" in table else BUILT_IN
    if unknown := sorted(set(table) - known):
        raise WrongInput(f"{who}: expected entries among {', '.join(sorted(known))}, got {unknown[0]!r}")
    if attacker:
        table = {**table, "protocol": table.get("protocol", "halves")}
    protocol = table.get("protocol", "official")
    expect_one_of(who, OWN_PROTOCOLS if "file" in table else PROTOCOLS, protocol=protocol)
    if attacker and protocol == "official":
        raise WrongInput(
            f'{who}: expected protocol = "halves", which leaves rows to the shadow models of attacks, got "official"'
        )
    if "file" in table:
        return _expect_own(who, table, folder)
    rows = {"dataset": label, **table}
    datasets.source(rows["dataset"])  # an unknown name is answered with the close ones
    expect_count(who, train=rows.get("train"), test=rows.get("test"), optional=True)
    if "shuffled" in rows and (rows.get("protocol") != "dpmlbench" or not isinstance(rows["shuffled"], bool)):
        wrong = rows["shuffled"]
        raise WrongInput(f'{who}: expected shuffled as true or false with protocol = "dpmlbench", got {wrong!r}')
    return rows


def _expect_own(who: str, table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    if table.get("public") is not True:
        raise WrongInput(
            f"{who}: expected public = true, because a benchmark trains many models without a ledger; for private rows "
            "use `privaware fit`, `search` or `crossover`, which charge what they release"
        )
    rows = dict(table)
    for name in ("file", "test", "auxiliary"):
        if name in rows:
            path = folder / str(rows[name])
            if not path.exists():
                raise WrongInput(f"{who}: expected a data file or folder as {name}, but there is no {str(path)!r}")
            rows[name] = str(path.absolute())
    rows["sha256"] = _digest(*(Path(rows[name]) for name in ("file", "test", "auxiliary") if name in rows))
    return rows


def _digest(*paths: Path) -> str:
    files = [
        file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()
    ]
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:16]


def bench_schema(rows: Mapping[str, Any], learner: type[Learner]) -> tuple[Schema, Data | None]:
    """Return the schema of the training rows in `rows`, the table of a cell, and stand-ins for the public rows.

    `learner` is the class of the learner. The stand-ins have the right number of rows, but no columns; they are None if
    the learner needs no public rows. Rows of built-in data are not read. The user's own files are read, and their
    public rows are returned instead of stand-ins. Raise `WrongInput` if the rows do not fit the protocol, such as too
    few test rows, or no images, for "dpmlbench".
    """
    if "file" in rows:
        loaded = bench_rows(rows, learner)
        return loaded.train.schema, loaded.public
    source = datasets.source(rows["dataset"])
    if rows.get("protocol") == "dpmlbench":
        _expect_test_rows(source, learner)
        schema = replace(_enlarged(source.facts), rows=source.facts.rows // 2)
        count = POOL if learner.phase == "model ensemble" else ANCHORS
    else:
        schema, count = source.schema(public=learner.needs_public), source.public_rows
        if rows.get("protocol") == "halves":
            schema = replace(schema, rows=schema.rows // 2)
    schema = replace(schema, rows=min(schema.rows, rows.get("train", schema.rows)), unit=learner.unit)
    if not learner.needs_public:
        return schema, None
    return schema, Data(schema=schema, x=np.empty((count, 0)), y=np.zeros(count, dtype=np.int64))


def _expect_test_rows(source: datasets.Source, learner: type[Learner]) -> None:
    """Raise `WrongInput` if a data set has too few test rows for protocol "dpmlbench", which makes some of them public.

    An ensemble needs `POOL + STUDENT_TEST` test rows, any other learner with public rows at least
    `2 * (ANCHORS + 1)`. A learner without public rows is not checked.
    """
    if not learner.needs_public:
        return
    ensemble = learner.phase == "model ensemble"
    enough = source.test_rows >= POOL + STUDENT_TEST if ensemble else source.test_rows // 2 > ANCHORS
    if not enough:
        words = f"at least {POOL + STUDENT_TEST:,}" if ensemble else f"at least {2 * (ANCHORS + 1):,}"
        raise WrongInput(
            f"expected {words} test rows, from which protocol dpmlbench takes public rows, got {source.test_rows:,}; "
            'take protocol = "halves"'
        )


def bench_rows(rows: Mapping[str, Any], learner: type[Learner]) -> BenchRows:
    """Return the rows that the class `learner` gets from `rows`, the table of a cell, after the split of its protocol.

    Their schemas have the unit of privacy of the learner. The rows that were read last are cached.
    """
    loaded = _load(json.dumps(rows, sort_keys=True), learner.needs_public, learner.phase == "model ensemble")
    if loaded.train.schema.unit == learner.unit:
        return loaded
    schema = replace(loaded.train.schema, unit=learner.unit)
    return replace(
        loaded,
        **{
            field.name: replace(part, schema=schema)
            for field in fields(loaded)
            if (part := getattr(loaded, field.name)) is not None
        },
    )


@lru_cache(maxsize=1)
def _load(table: str, needs_public: bool, ensemble: bool) -> BenchRows:
    rows = json.loads(table)
    if "file" in rows:
        return _split(rows, _own(rows, needs_public))
    if rows.get("protocol") == "dpmlbench":
        loaded = _dpmlbench(rows["dataset"], needs_public, ensemble, rows.get("shuffled", True))
    else:
        built_in = datasets.load(rows["dataset"], public=needs_public)
        loaded = _split(rows, BenchRows(train=built_in.train, test=built_in.test, public=built_in.public))
    limits = {"train": "train", "test": "test", "shadow_train": "train", "shadow_test": "test"}
    parts = {
        field.name: _first(part, rows.get(limits.get(field.name, "all")))
        for field in fields(loaded)
        if (part := getattr(loaded, field.name)) is not None
    }
    return BenchRows(**{name: replace(part, schema=parts["train"].schema) for name, part in parts.items()})


def _first(data: Data, count: int | None) -> Data:
    """Return `count` rows of `data`, with a schema that declares `count` rows.

    They are the first rows in a fixed order by a hash of the row number. `data` is returned unchanged if `count` is
    None, or at least the number of rows of `data`.
    """
    if count is None or count >= len(data):
        return data
    return datasets.parts(data, count)[0]


def _split(rows: Mapping[str, Any], loaded: BenchRows) -> BenchRows:
    """Return `loaded` with the second halves of training rows and test rows set aside for the attacker.

    `rows` is the table of the cell. The halves are taken in a fixed public order; of an odd number of rows, one is in
    no half. Public rows stay as they are. If the protocol of `rows` is not "halves", `loaded` is returned unchanged.
    """
    if rows.get("protocol") != "halves":
        return loaded
    parts: dict[str, Data] = {}
    for name in ("train", "test"):
        whole: Data = getattr(loaded, name)
        half = len(whole) // 2
        parts[name], parts[f"shadow_{name}"] = datasets.parts(whole, half, half)
    schema = parts["train"].schema
    if loaded.public is not None:
        parts["public"] = loaded.public
    return BenchRows(**{name: replace(part, schema=schema) for name, part in parts.items()})


def _own(rows: Mapping[str, Any], needs_public: bool) -> BenchRows:
    """Return the rows of the user's own files, with a schema drafted from the rows of `file`.

    The mapping `rows` has the path of the data as `file` and, optionally, the paths of test rows as `test` and of
    public rows as `auxiliary`. If there is no `test`, and `file` has no test rows of its own, a fifth of the rows of
    `file` is for testing, which is the same fifth in each call. With `needs_public` the public rows are read; raise
    `WrongInput` if there is no `auxiliary`.
    """
    schema = replace(draft_schema(rows["file"], target=rows.get("target")), reviewed=True)
    raw = read(rows["file"])
    train = Data.of(raw, schema)
    test_raw = read(rows["test"]) if "test" in rows else raw.test
    if test_raw is not None:
        test = Data.of(test_raw, schema)
    else:
        count = len(train) // 5
        train, test = datasets.parts(train, len(train) - count, count)
        test = replace(test, schema=train.schema)
    public = None
    if needs_public:
        if "auxiliary" not in rows:
            raise WrongInput("expected auxiliary = FILE with public rows for a learner that needs them, got none")
        public = Data.of(read(rows["auxiliary"]), train.schema, labelled=False)
    return BenchRows(train=train, test=test, public=public)


def _dpmlbench(name: str, needs_public: bool, ensemble: bool, shuffled: bool) -> BenchRows:
    """Return half of the training rows and half of at most 10,000 test rows; the other halves are the attacker's.

    `name` is a built-in data set of images, which are resized to 32 x 32 pixels. For an `ensemble`, 9,000 test rows are
    public and 1,000 are for testing; the attacker's test rows are then a fifth of its training rows. For any other
    learner that `needs_public`, 2,000 of the attacker's test rows are public instead. Public rows have the label 0.
    `shuffled` takes rows in a fixed public order instead of file order.
    """
    loaded = datasets.load(name)
    halves = datasets.halves(loaded, shuffled=shuffled)
    parts = {"train": halves.train, "test": halves.test, "shadow_train": halves.shadow_train}
    count = len(halves.shadow_test)
    if ensemble:
        parts["public"], parts["test"] = datasets.parts(loaded.test, POOL, STUDENT_TEST, shuffled=shuffled)
        kept = len(halves.shadow_train) // 5
        sizes = (len(halves.shadow_train) - kept, kept)
        parts["shadow_train"], parts["shadow_test"] = datasets.parts(halves.shadow_train, *sizes)
    elif needs_public:
        parts["public"] = halves.shadow_test.take(np.arange(ANCHORS))
        parts["shadow_test"] = halves.shadow_test.take(np.arange(ANCHORS, count))
    else:
        parts["shadow_test"] = halves.shadow_test
    if "public" in parts:
        parts["public"] = replace(parts["public"], y=np.zeros_like(parts["public"].y))
    return BenchRows(**{name: _resized(part, halves.train.schema) for name, part in parts.items()})


def _enlarged(schema: Schema) -> Schema:
    if schema.form != "image":
        raise WrongInput(f"expected images for the protocol dpmlbench, got a {schema.form}")
    return replace(schema, shape=(schema.shape[0], 32, 32))


def _resized(data: Data, schema: Schema) -> Data:
    """Return the images of `data` resized to 32 x 32 pixels by bilinear interpolation.

    The result has `schema`, with the new shape (channels, 32, 32). If `schema` has this shape already, the images stay
    as they are. Raise `WrongInput` if it is not a schema of images.
    """
    from torch import from_numpy
    from torch.nn.functional import interpolate

    if schema.shape[1:] == (32, 32):
        return replace(data, schema=schema)
    x = interpolate(from_numpy(data.x), size=(32, 32), mode="bilinear", align_corners=False).numpy()
    return replace(data, x=np.ascontiguousarray(x), schema=_enlarged(schema))
