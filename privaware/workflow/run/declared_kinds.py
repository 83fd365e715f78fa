"""Kinds of columns that the owner declares by name (`--kinds`), and sentences about kinds that noisy counts decided."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privaware._validate import suggestion
from privaware.data import is_identifier_name, read, read_names
from privaware.errors import WrongInput
from privaware.preprocessing._ranges.open_columns import NONE
from privaware.schema import DATE_PARTS, KINDS, Column, Schema

__all__ = ["draft_kinds", "guess_sentences", "read_kinds", "with_kinds"]

SURE = 0.95
"""A kind with a smaller probability is called a guess."""

MAX_NAMED = 5
"""Largest number of guesses that a sentence names."""

MORE_CATEGORIES = (
    "If its categories are public, declare them with --schema FILE; a larger epsilon, or fewer columns, release more."
)
"""What helps against lost categories."""


def read_kinds(kinds: Mapping[str, str] | str | Path) -> dict[str, str]:
    """Return the kinds of columns by name, from a mapping or a TOML file with lines such as `age = "number"`.

    Raise `WrongInput` for a file that cannot be read; names and kinds are checked by `with_kinds`.
    """
    if isinstance(kinds, Mapping):
        return dict(kinds)
    try:
        declared: dict[str, Any] = tomllib.loads(Path(kinds).read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongInput(f"expected a TOML file with kinds of columns at {str(kinds)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise WrongInput(f'{str(kinds)!r}: expected TOML lines such as age = "number"') from None
    return declared


def with_kinds(schema: Schema, kinds: Mapping[str, str]) -> Schema:
    """Return `schema` with the declared `kinds` of columns; the other columns stay as they are.

    If only a column of images is used, the form is image. Entries for the target and for the column that identifies
    persons are ignored. Raise `WrongInput` for another name that is not a column, for a word that is not a kind, and
    for data that are no table.
    """
    known = {column.name: column for column in schema.columns}
    for name, kind in kinds.items():
        if name not in known and name not in (schema.target, schema.unit):
            raise WrongInput(f"--kinds: expected columns of the data, got {name!r}; {suggestion(name, list(known))}")
        if kind not in KINDS:
            raise WrongInput(f"--kinds: expected {name!r} to be one of {', '.join(KINDS)}, got {kind!r}")
    if schema.form != "table":
        raise WrongInput(f"--kinds: expected a table, got a data set of form {schema.form}; leave --kinds out")
    columns = (_of_kind(column, kinds[column.name]) if column.name in kinds else column for column in schema.columns)
    declared = replace(schema, columns=tuple(columns))
    return replace(declared, form="image") if {each.kind for each in declared.declared} == {"image"} else declared


def _of_kind(column: Column, kind: str) -> Column:
    """Return a column with the name of `column` and with `kind`, without bounds and categories.

    A category or an undecided column ignores upper and lower case; a date has all parts but the hour.
    """
    parts = DATE_PARTS[:-1] if kind == "date" else ()
    return Column(name=column.name, kind=kind, fold=kind in ("category", "undecided"), parts=parts)


def draft_kinds(data: str | Path, *, without: Collection[str | None] = (), **reading: Any) -> str:
    """Return a TOML text with the kind of each column that is not in `without`, of a file that declares no types.

    Only the names of columns are used. The kind is "identifier" if the name suggests it, else "undecided". `reading`
    are the options of `privaware.data.read`. Raise `WrongInput` for a file that declares types, such as Parquet.
    """
    table = read_names(data, reading)
    table = read(data, **reading) if table is None else table
    if table.typed:
        raise WrongInput(
            f"expected a CSV, Excel or JSON file for --kinds, got {str(data)!r}, which declares types; leave out "
            "--kinds"
        )
    lines = [
        "# Replace undecided where you know the kind: a declared kind costs nothing, and undecided ones share a part",
        f"# of the budget. Kinds: {', '.join(KINDS)}.",
    ]
    for name in table.columns or ():
        if name not in without:
            kind = "identifier" if is_identifier_name(name) else "undecided"
            lines.append(f'{_quoted(name)} = "{kind}"')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return `text` as a basic string of TOML."""
    escaped = "".join(
        f"\\u{ord(letter):04x}" if letter in '"\\' or ord(letter) < 32 or ord(letter) == 127 else letter
        for letter in text
    )
    return f'"{escaped}"'


def guess_sentences(schema: Schema, before: Schema) -> list[str]:
    """Return sentences about kinds and categories that were estimated and may surprise; they follow from releases.

    They name columns of which no category, or only one, was frequent enough to be released; columns that are read as
    free text; and columns whose kind is unclear, which noisy counts give a probability below `SURE`. `schema` is the
    schema of the model, and `before` the schema as it was declared.
    """
    open_kinds = {column.name: column.kind for column in before.declared if not column.bounded}
    unsure = sorted((column for column in schema.columns if column.certainty < SURE), key=lambda each: each.certainty)
    counted = [column for column in schema.columns if column.kind == "category" and column.name in open_kinds]
    words = {column.name: set(column.categories) - {""} for column in counted}
    nothing = [column.name for column in counted if column.categories == NONE]
    presence = [name for name in words if not words[name]]
    alone = [name for name in words if len(words[name]) == 1 and name not in nothing]
    texts = [each.name for each in schema.columns if each.kind == "text" and open_kinds.get(each.name) == "undecided"]
    sentences = []
    for lost, learned in ((nothing, "nothing from it"), (presence, "only whether a value is missing")):
        if lost:
            named = ", ".join(map(repr, lost[:MAX_NAMED]))
            sentences.append(
                f"No value of {named}{_more(lost)} was frequent enough to stand out of the noise, so the model learns "
                f"{learned}. {MORE_CATEGORIES} If its values identify persons, leave the column out: "
                'kind = "ignore" in that file.'
            )
    if alone:
        named = ", ".join(map(repr, alone[:MAX_NAMED]))
        sentences.append(
            f"Only one category of {named}{_more(alone)} was frequent enough to stand out of the noise; all other "
            f"values are read as one other category. {MORE_CATEGORIES}"
        )
    if texts:
        named = ", ".join(map(repr, texts[:MAX_NAMED]))
        sentences.append(
            f"Columns read as free text, by noisy counts: {named}{_more(texts)}. If one of them is not, declare its "
            "kind (--kinds FILE)."
        )
    if unsure:
        named = ", ".join(f"{each.name!r} as {each.kind} ({each.certainty:.0%})" for each in unsure[:MAX_NAMED])
        sentences.append(
            f"The noise was too large to be sure of the kind of {len(unsure)} of {len(schema.columns)} columns. They "
            f"were read as follows, with the probability that this is right: {named}{_more(unsure)}. "
            "Declare kinds with --kinds FILE."
        )
    return sentences


def _more(names: Sequence[object]) -> str:
    """Return the words for the number of `names` beyond `MAX_NAMED`; an empty text if there are none."""
    return f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
