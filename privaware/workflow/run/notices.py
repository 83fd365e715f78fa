"""What a run tells the owner: its plan, questions about columns, and scores on test rows."""

from __future__ import annotations

from privaware import accounting, metrics
from privaware._rounded import rounded_up
from privaware.data import Data, Outside
from privaware.errors import PersonsWarning, UnusedColumnWarning
from privaware.model import Model
from privaware.schema import NOT_USED, Schema
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.persons_check import persons_question
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.source import Source, scoring

__all__ = ["internal_scores", "plan_lines", "questions"]

MAX_LINES = 8
"""Largest number of lines of a plan; `verbose` shows all of its sentences."""
MAX_ASSUMED = 4
"""Largest number of assumed facts that a plan names; `verbose` names them all."""
MAX_COLUMNS = 20
"""Largest number of columns of one kind that a plan names."""
KINDS = {
    "number": "numbers",
    "category": "categories",
    "boolean": "truth values",
    "date": "dates",
    "time": "times",
    "text": "free text",
    "image": "images",
}
"""What a plan calls the values of a column, by the kind of the column."""


def plan_lines(plan: Plan, schema: Schema, options: RunOptions) -> list[str]:
    """Return the lines that show a plan; a schema that was read from the rows comes first.

    Parameters
    ----------
    plan : Plan
        The plan.
    schema : Schema
        The schema of the rows.
    options : RunOptions
        The options of the run; `verbose` shows every sentence of the plan, else its summary is shown.

    Returns
    -------
    list of str
        The lines.
    """
    drafted = f"{schema.toml()}\nNot reviewed: this schema was read from the rows and is treated as public."
    first = [_data_sentence(plan.data["name"], schema)]
    if options.delta is None and plan.delta != accounting.DEFAULT_DELTA:
        first.append(
            f"Delta: {rounded_up(plan.delta)} (0.1 / {schema.rows:,} rows), because no --delta was given "
            f"and {rounded_up(accounting.DEFAULT_DELTA)} is too large for this many rows."
        )
    if (assumed := plan.schema.assumed) and options.verbose:
        first += [f"Assumed to be public: {fact}." for fact in assumed]
    elif assumed:
        more = [f"{len(assumed) - MAX_ASSUMED} more facts"] if len(assumed) > MAX_ASSUMED else []
        first.append(f"Assumed to be public: {'; '.join([*assumed[:MAX_ASSUMED], *more])}.")
    first += kind_sentences(schema) if options.verbose else _free_text(schema, options)
    sentences = plan.sentences if options.verbose else plan.summary(MAX_LINES - len(first))
    return [*([] if schema.reviewed else [drafted]), *first, *sentences]


def kind_sentences(schema: Schema) -> list[str]:
    """Return a sentence for each kind of the used columns of a table, as far as kinds are known before the charge.

    Kinds are known from the types of the data, from `--kinds` or a schema, and for columns of free text. The last
    sentence names the other columns, whose kinds are estimated.

    >>> from privaware.schema import Column
    >>> kind_sentences(Schema(columns=(Column(name="age"), Column(name="note", kind="text"))))
    ["Columns read as numbers: 'age'.", "Columns read as free text: 'note'."]
    """
    if schema.form != "table":
        return []
    names: dict[str, list[str]] = {}
    for column in schema.declared:
        names.setdefault(column.kind, []).append(column.name)
    sentences = [f"Columns read as {words}: {_named(names[kind])}." for kind, words in KINDS.items() if kind in names]
    if "undecided" in names:
        sentences.append(f"Columns whose kinds part of the budget estimates: {_named(names['undecided'])}.")
    return sentences


def _free_text(schema: Schema, options: RunOptions) -> list[str]:
    """Return a sentence that names the columns of free text of a table without a schema, or no sentence."""
    of_text = [column.name for column in schema.declared if column.kind == "text"]
    if schema.form != "table" or not of_text or options.schema is not None:
        return []
    return [f"Columns read as free text: {_named(of_text)}. If one of them is not, declare its kind (--kinds FILE)."]


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_COLUMNS:,} more" if len(names) > MAX_COLUMNS else ""
    return ", ".join(map(repr, names[:MAX_COLUMNS])) + more


def questions(source: Source, options: RunOptions) -> tuple[str, list[tuple[str, type[Warning]]]]:
    """Return (question, warnings): the question whether columns identify persons, and warnings for the caller.

    `source` has the rows and their schema. The question is an empty text if no column seems to identify persons. A
    warning is a pair of a sentence and its class. The question, if there is one, is also one of the warnings. If
    `options.schema` is None, further warnings name the columns that are not used, unless the question names all of
    these columns. The warnings are for a caller that gave no function `options.say`, which would get the sentences.
    """
    warned: list[tuple[str, type[Warning]]] = []
    repeated = source.repeated()
    columns = list(dict.fromkeys((*source.persons(), *repeated)))
    unused = {column.name for column in source.schema.columns if column.kind in NOT_USED}
    if options.schema is None and not (unused and unused <= set(columns)):
        warned += [(sentence, UnusedColumnWarning) for sentence in source.unused]
    if not columns:
        return "", warned
    used = {column.name for column in source.schema.declared}
    question = persons_question(columns, [name for name in columns if name in used], repeated)
    return question, [*warned, (question, PersonsWarning)]


def internal_scores(
    model: Model, rows: Data | None, *, coded: bool, metric: str, device: str, outside: Outside
) -> dict[str, float | None]:
    """Compute the scores of `model` on test rows, for the data owner only; they are never written or released.

    `coded` says whether the rows are already coded by a schema with bounds; otherwise they are coded by the schema of
    `model` first. The entries are those of `metrics.internal`, such as `test_score`. If `metric` is "auc" and the rows
    have both classes, the entry `auc` is added. Without rows, the only entry is a `test_score` of None. `outside`
    receives the counts of values that the released ranges and categories do not include.
    """
    if rows is None or not len(rows):
        return {"test_score": None}
    if not coded:
        rows = rows.coded_by(scoring(model.schema), outside)
    rows = rows.keep(tuple(column.name for column in model.schema.used))  # the columns that a selection kept
    scores = metrics.internal(model.schema.task, rows.y, model.predictions(rows, device))
    if metric == "auc" and 0 < rows.y.sum() < len(rows):
        chances = model.probabilities(rows, device)[:, 1]
        scores["auc"] = metrics.auc(chances[rows.y == 1], chances[rows.y == 0])
    return scores


def _data_sentence(name: str, schema: Schema) -> str:
    """Return the first sentence of a plan: the data set `name`, its numbers of rows and columns, target and unit."""
    count = len(schema.declared)
    columns = f" and {count:,} column{'s' if count != 1 else ''}" if schema.form == "table" else ""
    task = f"{len(schema.classes):,} classes" if schema.classes else "a number"
    whom = {"row": "one row", "label": "the label of one row"}.get(schema.unit, f"all rows of one {schema.unit}")
    return f"Data: {name}, {schema.rows:,} rows{columns}; target {schema.target} ({task}). Protected: {whom}."
