"""The labels of the forms: sentences of the command line name its options, and a page shows the fields instead."""

from __future__ import annotations

import re

__all__ = ["LABELS", "with_labels"]

READING = {
    "encoding": "Encoding",
    "sep": "Separator",
    "decimal": "Decimal mark",
    "header": "The first line of a text file: holds the names of the columns",
    "no-header": "The first line of a text file: is a row",
}
"""Labels of the fields that say how a text file is read."""
LABELS = {
    "fit": {
        "target": "Target",
        "epsilon": "Epsilon",
        "delta": "Delta",
        "limit": "Limit",
        "unit": "Unit",
        "cap": "Largest number of rows used for each person",
        "not-persons": "Columns that identify nobody",
        "check-persons": "Count, with 1% of the budget, whether values of columns that may name persons repeat",
        "learner": "Learner",
        "set": "Settings of the learner",
        "task": "Task",
        "schema": "Schema",
        "test": "Test rows",
        "score": "Release a score of the model",
        "score-epsilon": "Epsilon of the released score",
        "score-also": "Table beside the released score",
        "ledger": "Ledger",
        "new-ledger": "Make a new ledger",
        "out": "Name of the model folder",
        **READING,
    },
    "predict": {
        "keep": "Columns to copy to the predictions",
        "keep-formulas": "Keep cells that a spreadsheet would run as formulas",
        "allow-unreadable": "Predict although most values of a column cannot be read",
        "out": "Format of the predictions",
        **READING,
    },
    "audit": {
        "attack": "Attack",
        "insert": "Where one_run inserts canaries",
        "canaries": "Canaries",
        "runs": "Runs with and without the canary",
        "ledger": "Ledger",
    },
}
"""The start of the label of each field, by command and by option; a colon separates a label from a choice."""
OPTION = re.compile(r"`[^`]*`|(?<![\w'\"-])--([a-z]+(?:-[a-z]+)*)( FILE\b)?")
"""Text between backticks, or an option outside of quotation marks with the placeholder of its value."""


def with_labels(sentence: str, verb: str) -> str:
    """Return `sentence` with the labels of the form of `verb` in place of the options of the command line.

    An option without a field, or between backticks, is called a command-line option. A command between backticks stays
    as it is.
    """

    def shown(found: re.Match[str]) -> str:
        if found[1] is None and not found[0].startswith("`--"):
            return found[0]
        label = LABELS[verb].get(found[1])
        return f"the command-line option {found[0]}" if label is None else f"“{label}”"

    return OPTION.sub(shown, sentence)
