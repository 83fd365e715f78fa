"""Tables of a benchmark with columns of one's choice, as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from privaware._validate import expect_one_of
from privaware.bench._shown import markdown
from privaware.bench._summary import ATTACK_MEASURES, SummaryRow
from privaware.errors import WrongInput

FORMATS = ("text", "markdown", "latex", "csv")
SPECIAL = str.maketrans({char: rf"\{char}" for char in "&%$#_{}"})
"""Characters before which LaTeX needs a backslash."""


@dataclass(frozen=True)
class Measure:
    """How a measure is shown: its title, the factor on its values, and the number of decimals."""

    title: str
    scale: float = 1.0
    digits: int = 3


MEASURES = {
    "seeds": Measure("seeds", digits=0),
    "score": Measure("score (%)", 100.0, 2),
    "spread": Measure("deviation (%)", 100.0, 2),
    "utility_loss": Measure("utility loss (%)", 100.0, 2),
    "auc": Measure("AUC"),
    "tailored_auc": Measure("tailored AUC"),
    "leakage": Measure("leakage (%)", 100.0, 1),
    "seconds": Measure("seconds", digits=1),
}
"""The columns of a table by name; `auc`, `tailored_auc` and `leakage` may be of one attack: NAME:ATTACK."""
DEFAULT = ("seeds", "score", "utility_loss", *ATTACK_MEASURES, "seconds")
"""The columns if none are chosen; a column without any value is left out."""
PLACES = ("data", "network", "learner", "epsilon")


def chosen_columns(words: str | None, rows: Sequence[SummaryRow]) -> list[str]:
    """Return the columns named in `words`, separated by commas; None means the columns in `DEFAULT` with a value.

    Parameters
    ----------
    words : str or None
        Such as "score,auc,leakage:black_box". A column may be of one attack only if `rows` have this attack.
    rows : sequence of SummaryRow
        The rows of the table.

    Returns
    -------
    list of str
        Names of measures, in the order of `words`. An unknown name, or no name, raises `WrongInput`.
    """
    if words is None:
        return [name for name in DEFAULT if any(row.mean(name) is not None for row in rows)]
    columns = [word.strip() for word in words.split(",") if word.strip()]
    labels = sorted({name.partition(":")[2] for row in rows for name in row.values if ":" in name})
    known = [*MEASURES, *(f"{name}:{label}" for name in ATTACK_MEASURES for label in labels)]
    unknown = [column for column in columns if column not in known]
    if unknown or not columns:
        got = repr(unknown[0]) if unknown else "none"
        raise WrongInput(f"bench table: expected columns among {', '.join(known)}, got {got:.80}")
    return columns


def column_title(column: str) -> str:
    """Return the title of a column.

    >>> column_title("leakage:black_box")
    'leakage (%) black_box'
    """
    name, _, label = column.partition(":")
    return " ".join(filter(None, [MEASURES[name].title, label]))


def entry(row: SummaryRow | None, column: str) -> str:
    """Return the mean over seeds of the measure `column` in `row`, with its 95% interval, such as "0.62 [0.60, 0.64]".

    `MEASURES` has the factor and the number of decimals. A mean without an interval stands alone. Without a
    measurement, or if `row` is None, the text is empty.
    """
    value = None if row is None else row.mean(column)
    if row is None or value is None:
        return ""
    measure = MEASURES[column.partition(":")[0]]
    ends = row.intervals.get(column)
    numbers = [f"{measure.scale * number:z.{measure.digits}f}" for number in (value, *(ends or ()))]
    return numbers[0] if ends is None else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def bench_table(rows: Sequence[SummaryRow], format: str, columns: Sequence[str] | None = None) -> str:
    """Return a table with one line for each row of the summary; with a single column, one column for each epsilon.

    `format` is "text", "markdown", "latex" or "csv". `columns` are names as `chosen_columns` returns them; None means
    its default. Numbers are means over seeds, with 95% intervals in brackets. CSV always has one line for each row;
    what other formats show in per cent is a fraction of 1 there, and the ends of an interval have their own columns.

    >>> row = SummaryRow(learner="linear", network="-", data="digits", epsilon=1.0, seeds=1, score=0.9, spread=0.0,
    ...     values={"score": [0.9]})
    >>> print(bench_table([row], "markdown", ["score"]))
    | data | network | learner | epsilon 1 |
    | --- | --- | --- | --- |
    | digits | - | linear | 90.00 |
    """
    expect_one_of("bench table", FORMATS, format=format)
    columns = chosen_columns(None, rows) if columns is None else list(columns)
    if format == "csv":
        return _csv(rows, columns)
    head, lines = _across(rows, columns[0]) if len(columns) == 1 else _long(rows, columns)
    return {"text": _text, "markdown": _markdown, "latex": _latex}[format](head, lines)


def _long(rows: Sequence[SummaryRow], columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of a table with one line for each of `rows`, ordered by the first four entries.

    A line begins with data, network, learner and epsilon (models without noise come last). The entries of `columns`
    follow.
    """
    ordered = sorted(rows, key=lambda row: (*_place(row), row.epsilon is None, row.epsilon or 0.0))
    lines = [[*_place(row), _epsilon(row.epsilon), *(entry(row, column) for column in columns)] for row in ordered]
    return [*PLACES, *map(column_title, columns)], lines


def _across(rows: Sequence[SummaryRow], column: str) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of a table: a line for each data set, network and learner, a column for each epsilon.

    The entries are values of the measure `column`. The last column is for models without noise, if there are any.
    """
    epsilons: list[float | None] = [*sorted({row.epsilon for row in rows if row.epsilon is not None})]
    if any(row.epsilon is None for row in rows):
        epsilons.append(None)
    head = [*PLACES[:-1], *("no noise" if each is None else f"epsilon {each:g}" for each in epsilons)]
    known = {(*_place(row), row.epsilon): row for row in rows}
    places = sorted({_place(row) for row in rows})
    return head, [[*place, *(entry(known.get((*place, each)), column) for each in epsilons)] for place in places]


def _place(row: SummaryRow) -> tuple[str, str, str]:
    return row.data, row.network, row.learner


def _epsilon(epsilon: float | None) -> str:
    return "no noise" if epsilon is None else f"{epsilon:g}"


def _csv(rows: Sequence[SummaryRow], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    with_ends = {column for column in columns if any(column in row.intervals for row in rows)}
    ends = {column: [f"{column}_low", f"{column}_high"] if column in with_ends else [] for column in columns}
    writer.writerow([*PLACES, *(name for column in columns for name in (column, *ends[column]))])
    for row in rows:
        numbers: list[float | None] = []
        for column in columns:
            numbers += [row.mean(column), *(row.intervals.get(column, (None, None)) if ends[column] else ())]
        values = [*_place(row), row.epsilon, *numbers]
        writer.writerow(["" if value is None else value for value in values])
    return out.getvalue().rstrip("\n")


def _text(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return the table for a terminal; the entries of a column are padded with spaces to the same width."""
    widths = [max(map(len, column)) for column in zip(head, *lines)]
    padded = (
        "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)) for line in (head, *lines)
    )
    return "\n".join(line.rstrip() for line in padded)


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown; a "|" in an entry is escaped, because it would begin another column."""
    first, *others = [[value.replace("|", r"\|") for value in line] for line in (head, *lines)]
    return markdown(first, others)


def _latex(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a LaTeX tabular with the rules of the package booktabs; special characters are escaped."""

    def joined(values: Sequence[str]) -> str:
        return " & ".join(value.translate(SPECIAL) for value in values) + r" \\"

    body = [r"\toprule", joined(head), r"\midrule", *map(joined, lines), r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{lll{'r' * (len(head) - 3)}}}", *body, r"\end{tabular}"])
