"""The source of rows: a file, a DataFrame or a built-in data set, with its schema.

A schema is written by the user, estimated with part of the budget, or drafted from the rows and accepted. With a
written schema, no row is read to make the plan. Rows are first read by `Source.digest` and `Source.sketch`, which find
the ledger of the rows, or by `Source.read_private_rows`. Only a charged run calls `read_private_rows`; with an existing
ledger, it does so after the ledger confirmed that the budget suffices.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, registry
from privaware._validate import nearest
from privaware.data import (
    Data,
    LargeRows,
    Raw,
    Rows,
    Sketch,
    coded_rows,
    draft,
    hashes_and_sketch,
    labelled,
    labelled_part,
    large_csv,
    large_table,
    left_out,
    notices,
    person_columns,
    read,
    read_names,
    repeated_identifiers,
    rows_digest,
    target_of,
    typed,
    unused_columns,
    unused_index,
    with_images,
)
from privaware.data._parts import threads
from privaware.data._persons import expect_persons, of_persons
from privaware.errors import WrongInput
from privaware.learners import find_learner
from privaware.ledger import digest_key
from privaware.model import is_built_in
from privaware.schema import Column, Schema
from privaware.workflow.run.cluster import Cluster
from privaware.workflow.run.declared_kinds import read_kinds, with_kinds
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.process_pool import ProcessPool, RayPool
from privaware.workflow.run.public_rows import read_public

__all__ = ["Source", "draft_schema", "needs_public_rows", "resolve", "schema_of_rows", "scoring"]

MIN_CELLS_FOR_PROCESSES = 20_000_000
"""Number of cells from which on a table is read by several processes, which take more than a second to start."""
NAMES_NOT_CHECKED = (
    "Not checked: whether every row has a value in the unit column {unit!r}, because this dry run does not read all "
    "rows. The run itself checks this before its charge."
)
"""Notice of a dry run that does not check the names of persons."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Source:
    """The public facts about rows, and functions that read the rows.

    `builtin` is whether the rows are a built-in data set, and `path` is the file or folder of other rows (None for a
    DataFrame). `read_private_rows` returns the training rows and the test rows (or None), and `read_test_rows` the test
    rows alone. They hold whole texts if the schema that the function is given does. Without declared bounds, their
    values are not yet checked against bounds. `public` are public rows without labels, for a learner that needs them:
    the rows of `--public`, or those of the built-in data set. `read_public_rows` returns the rows of `--public` with
    labels, for a search. `digest` and `sketch` read the training rows to recognise them later; built-in data are public
    and have neither. `notices` are sentences for the owner only, before a charge. `left_out` are the notices about rows
    without a target. `dry_notices` are the notices of a dry run, which opens no file if the schema was written by the
    user. `unused` has sentences about declared columns that no learner sees. `persons` returns the columns that may
    identify persons or cases by their names, `repeated` the columns named like identifiers whose values repeat (for the
    owner only), and `read_words` the words of some columns of the training rows; built-in data have no `read_words`.
    """

    name: str
    schema: Schema
    read_private_rows: Callable[[Schema], tuple[Rows, Data | None]]
    read_test_rows: Callable[[Schema], Data | None]
    public: Data | None
    read_public_rows: Callable[[], Data]
    builtin: bool = False
    path: Path | None = None
    digest: Callable[[], str | None] = lambda: None
    sketch: Callable[[], Sketch | None] = lambda: None
    left_out: Callable[[], list[str]] = list
    notices: Callable[[], list[str]] = list
    dry_notices: Callable[[], list[str]] = list
    unused: list[str] = field(default_factory=list)
    persons: Callable[[], list[str]] = list
    repeated: Callable[[], list[str]] = list
    read_words: Callable[[tuple[str, ...]], Rows] | None = None

    def facts(self, declared: bool) -> dict[str, Any]:
        """Return the public facts about the data set that a model card states: `name`, `origin` and `columns` (names).

        `origin` says where the schema comes from: "built-in", "declared" (by the user), "drafted" (read from the rows
        without noise and not reviewed), "estimated" (with part of the budget), or "given" (not by a schema, but there
        is nothing to estimate, as for images). `declared` says whether the user gave a schema.
        """
        origin = "declared" if declared else "given" if self.schema.bounded else "estimated"
        if not self.schema.reviewed:
            origin = "drafted"
        columns = [column.name for column in self.schema.columns]
        return {"name": self.name, "origin": "built-in" if self.builtin else origin, "columns": columns}


def needs_public_rows(learner: str) -> bool:
    """Return whether `learner` uses public rows; the learner that "auto" chooses never does."""
    return learner != "auto" and find_learner(learner).needs_public


def resolve(data: Any, options: RunOptions, learner: str = "auto") -> Source:
    """Return the source of rows `data`, with its public facts; a built-in data set has its own schema.

    `learner` decides whether public rows are needed. If a built-in data set has such public rows of its own, a dry run
    does not load them, and `Source.public` holds as many empty rows. Raise `WrongInput` for data that do not exist or
    do not fit `options`.
    """
    if is_built_in(data):
        return _builtin(data, options, learner)
    path = None if hasattr(data, "columns") else _expect_there(data)
    _expect_target(data, options)
    image = _image_column(options)
    large = None if options.accept_schema or image else _large(data, options)
    table, raw = large, cache(lambda: _read(data, options, image) if large is None else large.head)
    schema = _schema_of(raw, options, table)
    if table is not None and schema.form != "table":
        table, raw = None, cache(lambda: read(data, **options.reading))
        schema = _schema_of(raw, options)
    _expect_parts(table, options)
    _expect_agreement(schema, options)
    _expect_known(raw, schema, options)
    of_table = labelled if table is None else labelled_part
    kept = cache(lambda: of_table(raw(), schema.target, schema.classes))
    checked = cache(lambda: _checked(raw(), schema, table))
    rows_left_out = cache(lambda: left_out(unlabelled(), schema.target))
    about_rows = cache(lambda: rows_left_out() + notices(kept(), schema))
    reads = options.schema is None or not options.dry_run
    public = partial(read_public, options.public, schema, options.reading, private="", known=checked if reads else None)
    needed = needs_public_rows(learner)

    def unlabelled() -> int:
        if table is None:
            return len(raw()) - len(kept())
        return len(table.column(schema.target)) - schema.rows if options.dry_run else checked()[2]

    def rows(planned: Schema) -> tuple[Rows, Data | None]:
        by = schema_of_rows(schema, planned)
        if table is not None:
            checked()  # reads every row, so that a row that does not fit raises before the charge
        test = _test_rows(raw, options, by)
        return coded_rows(kept(), by) if table is None else table.streamed(by), test

    return Source(
        name=path.name if path else "a DataFrame",
        schema=schema,
        read_private_rows=rows,
        read_test_rows=lambda planned: _test_rows(raw, options, schema_of_rows(schema, planned)),
        digest=lambda: checked()[0],
        sketch=lambda: checked()[1],
        left_out=rows_left_out,
        notices=about_rows,
        dry_notices=lambda: _dry_notices(schema, about_rows if reads else None, kept if table is None else None),
        unused=[*unused_columns(schema, written=options.schema is not None), *unused_index(data)],
        persons=lambda: person_columns(_named(raw, schema, options), schema, _not_persons(options)),
        repeated=lambda: repeated_identifiers(kept(), schema, _not_persons(options)) if reads else [],
        read_words=lambda names: _words(kept, schema, table, names),
        public=public(labelled=False) if options.public is not None and (schema.bounded or needed) else None,
        read_public_rows=partial(public, labelled=True),
        path=path,
    )


def schema_of_rows(schema: Schema, planned: Schema) -> Schema:
    """Return the schema by which the rows are read: `schema`, with whole texts if the schema of the plan has them.

    `planned` is the schema of the plan. If the plan uses columns, and only such whose bounds are declared, it releases
    no bounds: then the schema has these columns alone.
    """
    schema = schema.with_whole_texts() if planned.has_whole_texts else schema
    if planned.used and planned.bounded and not schema.bounded:
        return schema.keep(tuple(column.name for column in planned.used))
    return schema


def _test_rows(raw: Callable[[], Raw], options: RunOptions, schema: Schema) -> Data | None:
    """Return the rows of `--test`, or else the test rows that `raw` reads beside the training rows, or None.

    Raise `WrongInput` if `--test` has no rows.
    """
    test = raw().test if options.test is None else read(options.test, **options.reading)
    if test is not None and not len(test):
        raise WrongInput("expected at least one test row, got none; check --test, or leave it out")
    coded = Data.of if schema.bounded else Data.uncoded
    return None if test is None else coded(labelled(test, schema.target, schema.classes), scoring(schema))


def _image_column(options: RunOptions) -> str | None:
    """Return the column of images that the user's schema or `--kinds` declares, or None if neither does.

    Raise `WrongInput` if `--kinds` declares several such columns.
    """
    if options.schema is not None:
        return (options.schema if isinstance(options.schema, Schema) else Schema.read(options.schema)).image
    kinds = read_kinds(options.kinds) if options.kinds is not None else {}
    images = [name for name, kind in kinds.items() if kind == "image" and name not in (options.target, options.unit)]
    if len(images) > 1:
        raise WrongInput(f"--kinds: expected at most one column of images, got {images[0]!r} and {images[1]!r}")
    return images[0] if images else None


def _read(data: Any, options: RunOptions, image: str | None) -> Raw:
    """Return the rows of `data`, with the images whose files the column `image` names, unless it is None."""
    raw = read(data, **options.reading)
    with raw.named():
        return with_images(raw, image)


def draft_schema(
    data: Any, *, target: str | None = None, task: str | None = None, unit: str | None = None, **reading: Any
) -> Schema:
    """Return a schema to edit and confirm: a draft from a file, or the reviewed schema of a built-in data set.

    A draft is read from the rows without noise. `target`, `task` and `unit` are for a file only. `reading` are the
    options of `privaware.data.read`.
    """
    if is_built_in(data):
        return datasets.schema(data)
    raw = read(data, **reading)
    target = _target_of(raw, target)
    return draft(labelled(raw, target), target=target, task=task, unit=unit or "row")


def scoring(schema: Schema) -> Schema:
    """Return `schema` for test rows: the unit is one row, and target values are not clipped to a range."""
    return replace(schema, unit="row", cap=1, low=None, high=None)


def _checked(raw: Raw, schema: Schema, table: LargeRows | None) -> tuple[str, Sketch, int]:
    """Return the digest and the sketch of all rows, and how many rows of a large table have no target.

    The rows of `table` are also checked against `schema`. If `table` is None, the rows of `raw` are taken, they are not
    checked, and the number is 0.
    """
    key = digest_key()
    hashes, sketch, unlabelled = (*hashes_and_sketch(raw, key), 0) if table is None else table.checked(schema, key)
    return rows_digest(hashes, key), sketch.finished(), unlabelled


def _large(data: Any, options: RunOptions) -> LargeRows | None:
    """Return the table if its rows should be read in parts, or None if they should be read at once.

    With `--ray`, the workers of the cluster read the parts, whatever the size of the table. A table of at least
    `MIN_CELLS_FOR_PROCESSES` cells is read by several processes, if there is more than one processor.
    """
    address = options.ray
    if address is not None:
        machines = cache(lambda: RayPool(address))
        return large_table(data, lambda pieces: Cluster(machines(), pieces).parts)
    table = large_table(data)
    if table is None:
        return large_csv(data, options.reading)
    if threads() == 1 or table.rows * table.width < MIN_CELLS_FOR_PROCESSES:
        return table
    processes = cache(lambda: ProcessPool())
    return replace(table, place=lambda pieces: Cluster(processes(), pieces, near=True).parts)


def _dry_notices(schema: Schema, about: Callable[[], list[str]] | None, kept: Callable[[], Raw] | None) -> list[str]:
    """Return the notices of a dry run; raise `WrongInput` if a row that it reads has no value in the unit column.

    `about` returns the notices about the rows; it is None with a written schema, for which no file is opened. `kept`
    returns the training rows; it is None for a large table, whose rows a dry run does not read completely. A dry run
    that does not check the names of persons says so.
    """
    outside = ["Columns that the schema does not name are not used."] if schema.form == "table" else []
    said = outside if about is None else about()
    if not of_persons(schema):
        return said
    if about is None or kept is None:
        return [*said, NAMES_NOT_CHECKED.format(unit=schema.unit)]
    expect_persons(kept(), schema)
    return said


def _words(kept: Callable[[], Raw], schema: Schema, table: LargeRows | None, names: tuple[str, ...]) -> Rows:
    """Return the columns `names` of the training rows as words, before categories are known.

    If `table` is given, its rows are read in parts; otherwise `kept` returns the rows.
    """
    columns = tuple(Column(name=name, kind="category", missing="category", unseen="other") for name in names)
    bare = replace(schema, columns=columns, form="table")
    return coded_rows(kept(), bare) if table is None else table.streamed(bare)


def _not_persons(options: RunOptions) -> tuple[str, ...]:
    return tuple(options.not_persons or ())


def _named(raw: Callable[[], Raw], schema: Schema, options: RunOptions) -> Raw:
    """Return the rows that `raw` reads or, in a dry run with a user's schema, the declared columns without rows.

    In that case no file is opened.
    """
    if options.schema is None or not options.dry_run:
        return raw()
    return Raw(cells={column.name: np.zeros(0) for column in schema.columns}, rows=0)


def _expect_known(raw: Callable[[], Raw], schema: Schema, options: RunOptions) -> None:
    """Raise `WrongInput` if `--not-persons` or `--check-persons` names the target, or a name that is no column.

    `_named` returns the known columns. `raw` reads the rows; it is called only if one of the options names a column.
    """
    counted = options.check_persons if isinstance(options.check_persons, tuple) else ()
    asked = (*_not_persons(options), *counted)
    if not asked:
        return
    named = _named(raw, schema, options)
    if unknown := [name for name in asked if name not in (named.columns or ()) or name == schema.target]:
        raise WrongInput(
            "expected --not-persons and --check-persons among the columns "
            f"{named.columns_shown(schema.target)}, got {unknown[0]!r:.80}{named.advice(unknown[0], schema.target)}"
        )


def _expect_there(data: Any) -> Path:
    """Return the path of `data`; raise `WrongInput` if there is no such file or folder. It is not opened."""
    if not isinstance(data, (str, os.PathLike)):
        raise WrongInput(
            "expected a data file, a folder of images, a DataFrame or a built-in data set, got an object of "
            f"{type(data).__name__}; put rows in memory into a DataFrame with the target as a column"
        )
    try:
        if os.path.exists(data):
            return Path(data)
    except ValueError:
        pass
    shown = f"{str(data)!r:.80}"
    near = nearest(data, registry.names("datasets")) if isinstance(data, str) else None
    raise WrongInput(
        "expected a data file, a folder of images, a DataFrame or a built-in data set "
        f"(`privaware data list`), but there is nothing called {shown}" + (f"; did you mean {near}?" if near else "")
    )


def _expect_target(data: Any, options: RunOptions) -> None:
    """Raise `WrongInput`, before rows are read, if `--target` is not a column of a text file.

    Nothing is checked if the user gave a schema.
    """
    names = None if options.schema is not None or options.target is None else read_names(data, options.reading)
    if names is not None and options.target is not None:
        with names.named():
            target_of(names, options.target)


def _expect_parts(table: LargeRows | None, options: RunOptions) -> None:
    if table is None and options.ray is not None:
        raise WrongInput(
            "expected a Parquet table, or a folder of Parquet files, with --ray, and no --accept-schema; leave --ray "
            "out to read other data on this machine"
        )


def _expect_agreement(schema: Schema, options: RunOptions) -> None:
    task, target = options.task, options.target
    if task is not None and task != schema.task:
        raise WrongInput(
            f"the schema makes {schema.target!r} a {schema.task} target, but --task says {task}; change one of them"
        )
    if target not in (None, schema.target):
        raise WrongInput(
            f"the schema has the target {schema.target!r:.80}, but --target says {target!r:.80}; change one of them"
        )


def _builtin(name: str, options: RunOptions, learner: str) -> Source:
    declared = find_learner(learner) if learner != "auto" else None
    needs_public = declared is not None and declared.needs_public and options.public is None
    schema = datasets.schema(name, public=needs_public)
    if options.schema is not None:
        raise WrongInput(f"{name} brings its own schema; leave --schema out, or give the data as a file")
    _expect_agreement(schema, options)
    if options.unit not in (None, "row", "label"):
        raise WrongInput(f"{name} has one row for each person; expected --unit as row or label, got {options.unit!r}")
    if options.unit == "label" or (declared is not None and declared.unit == "label"):
        schema = replace(schema, unit="label")

    def rows(planned: Schema) -> tuple[Data, Data | None]:
        loaded = datasets.load(name, public=needs_public)
        return replace(loaded.train, schema=schema), replace(loaded.test, schema=schema)

    def test_rows(planned: Schema) -> Data:
        return replace(datasets.load(name, public=needs_public).test, schema=schema)

    public = partial(read_public, options.public, schema, options.reading, private=name)
    if needs_public:
        own = _public_part(name, schema, options.dry_run)
    else:
        own = None if options.public is None else public(labelled=False)
    return Source(
        name=name,
        schema=schema,
        read_private_rows=rows,
        read_test_rows=test_rows,
        public=own,
        read_public_rows=partial(public, labelled=True),
        builtin=True,
    )


def _public_part(name: str, schema: Schema, dry_run: bool) -> Data | None:
    if not dry_run:
        return datasets.load(name, public=True).public
    count = datasets.source(name).public_rows
    return Data(schema=schema, x=np.empty((count, 0)), y=np.zeros(count, dtype=np.int64))


def _schema_of(raw: Callable[[], Raw], options: RunOptions, table: LargeRows | None = None) -> Schema:
    if options.accept_schema + options.private_schema + (options.schema is not None) > 1:
        ways = "--schema, --accept-schema and --private-schema"
        raise WrongInput(f"expected one of {ways}, got several")
    if options.schema is not None:
        schema = options.schema if isinstance(options.schema, Schema) else Schema.read(options.schema)
        return schema if options.unit is None else replace(schema, unit=options.unit, cap=options.cap)
    rows = raw()
    target = _target_of(rows, options.target)
    rows = rows if table is not None else labelled(rows, target)
    facts: dict[str, Any] = {"target": target, "task": options.task, "unit": options.unit or "row", "cap": options.cap}
    facts["not_persons"] = _not_persons(options)
    labels = None
    if table is not None and target in (rows.columns or ()):
        all_labels = Raw(frame=table.column(target).to_frame(), name=rows.name)
        labels = target_of(labelled(all_labels, target), target)
    if options.accept_schema and rows.uneven:
        return draft(rows, **facts)
    known = typed(rows, **facts, labels=labels)
    if options.kinds is not None:
        known = with_kinds(known, read_kinds(options.kinds))
    bare = replace(known.bare(), reviewed=True)
    # Images and texts have nothing to estimate: a draft of their schema holds no bound or category of the rows.
    return draft(rows, **facts) if options.accept_schema and not bare.bounded else bare


def _target_of(raw: Raw, target: str | None) -> str:
    """Return the name of the target: `target`, or if it is None the usual name for such data.

    Raise `WrongInput` if a table has no usual name, and for another name than "class" for a folder of images.
    """
    if target is not None and raw.frame is None and raw.files and target != "class":
        raise WrongInput(
            "expected --target=class, or none, for a folder of images, whose sub-folders are the "
            f"classes, got {target!r:.80}; leave it out"
        )
    if target is not None:
        return target
    if raw.frame is None or raw.files:  # images, or the files of a folder
        return "class"
    for target, other in (("y", "x0"), ("class", "text")):
        if target in raw.frame.columns and other in raw.frame.columns and raw.declared:
            return target
    raise WrongInput(f"expected --target to name one of the columns {raw.columns_shown()}, got none")
