"""The forms of the page as commands: each form becomes one call of the command line, with paths of the folder only.

Sentences of the command line name its options. A page shows the labels of the fields instead (`with_labels`).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import registry
from privaware.errors import WrongInput
from privaware.ui._folder import PREDICTIONS, Folder

Form = Mapping[str, str]

NAME = re.compile(r"[^/\\.\0\x01-\x1f][^/\\\0\x01-\x1f]{0,99}")
"""A name for a folder of results: one part of a path, of at most 100 characters, not hidden."""
Convert = Callable[[Folder, str, str], Any]
"""A function of a folder, the name of a field and its text, which returns the value of the option."""
Fields = Mapping[str, tuple[Convert, str]]
"""The fields of a form by name, each with its function and the start of its label on the page."""
HEADERS = {"yes": True, "no": False}
FORMATS = ("csv", "parquet")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One call of the command line.

    Attributes
    ----------
    verb
        The command: "fit", "predict" or "audit".
    out
        The name of the result in the folder. Two tasks with the same name never run at the same time.
    form
        The fields of the form, from which the task can be built again.
    words
        The arguments of `privaware`, beginning with the command; paths are absolute.
    """

    verb: str
    out: str
    form: Form
    words: tuple[str, ...]

    def command(self, folder: Folder) -> str:
        """Return the call as a user would type it in the folder, with paths relative to the folder."""
        return folder.shown(shlex.join(["privaware", *self.words]))

    def ledger(self, folder: Folder) -> str:
        """Return the name of the ledger that a training charges.

        It is the first of these ledgers that exists in `folder`: the one that the form names, DATA.ledger next to the
        data, and run.ledger in the model folder. The name is empty if none exists, and for a task that is no training.
        """
        names = (self.form.get("ledger", ""), f"{self.form.get('data', '')}.ledger", f"{self.out}/run.ledger")
        known = folder.ledgers() if self.verb == "fit" else {}
        return next((name for name in names if name in known), "")


def fit_options(folder: Folder, form: Form) -> dict[str, Any]:
    """Return the keyword arguments of `fit` in a form, without empty fields; an empty epsilon becomes 1.

    Raise `WrongInput` for a value that does not fit its field, and for a file that is not in the folder.
    """
    return {"epsilon": 1.0, **_options(folder, form, FIT_FIELDS)}


def _options(folder: Folder, form: Form, fields: Fields) -> dict[str, Any]:
    """Return the values of those `fields` that are not empty in `form`, by name of the field.

    The function of each field converts its text. It raises `WrongInput` for a text that does not fit.
    """
    return {name: convert(folder, name, form[name]) for name, (convert, _) in fields.items() if form.get(name)}


def fit_task(folder: Folder, form: Form) -> Task:
    """Return the call of `privaware fit` that a form describes.

    Raise `WrongInput` for a wrong field, unknown data, or a name that no model folder may have.
    """
    out = _new_folder(folder, form.get("out", "").strip())
    options = fit_options(folder, form)
    if options.pop("settings", None):
        options["set"] = form["settings"].split()
    data = data_path(folder, form)
    _expect_own_ledger(folder, data)
    words = ("fit", *_words(options), f"--out={folder.path / out}", "--", data)
    return Task(verb="fit", out=out, form=dict(form), words=words)


def predict_task(folder: Folder, form: Form, taken: Collection[str] = ()) -> Task:
    """Return the call of `privaware predict` that a form describes, with a new file in the folder of predictions.

    The file is not among `taken`, the results of other runs. Raise `WrongInput` for a wrong field, an unknown model or
    unknown data.
    """
    model = _chosen(folder.models(), form.get("model", ""), "a model")
    suffix = form.get("format") or FORMATS[0]
    if suffix not in FORMATS:
        raise WrongInput(f"expected {' or '.join(FORMATS)} as the format, got {suffix!r:.40}")
    data = data_path(folder, form)
    place = folder.path / PREDICTIONS
    if not folder.holds(place):
        raise WrongInput(f"expected {PREDICTIONS!r} as a folder inside this folder, got a link that leads out of it")
    out = _free_name(place, _stem(form["data"]), f".{suffix}", {Path(name).name for name in taken})
    options = _words(_options(folder, form, PREDICT_FIELDS))
    words = ("predict", *options, f"--out={place / out}", "--", str(model), data)
    return Task(verb="predict", out=f"{PREDICTIONS}/{out}", form=dict(form), words=words)


def audit_task(folder: Folder, name: str, form: Form) -> Task:
    """Return the call of `privaware audit` that a form describes, for the model `name` of the folder.

    Raise `WrongInput` for a wrong field or an unknown model.
    """
    model = _chosen(folder.models(), name, "a model")
    attack = form.get("attack") or "one_run"
    if attack not in AUDIT_FIELDS:
        raise WrongInput(f"expected {' or '.join(AUDIT_FIELDS)} as the attack, got {attack!r:.40}")
    options = _options(folder, form, {**AUDIT_FIELDS[attack], **AUDIT_LEDGER})
    words = ("audit", *_words({"attack": attack, **options}), "--", str(model))
    return Task(verb="audit", out=name, form={**form, "model": name}, words=words)


def reading(folder: Folder, form: Form) -> dict[str, Any]:
    """Return how to read a text file by the fields `encoding`, `sep`, `decimal` and `header` of a form.

    Empty fields are left out. Raise `WrongInput` for a value that does not fit its field.
    """
    return _options(folder, form, READING_FIELDS)


def data_path(folder: Folder, form: Form) -> str:
    """Return the absolute path of the data file that a form names, or the name of a built-in data set.

    Any other name raises `WrongInput`, and so does a built-in name that is also a file of the working directory.
    """
    name, files = form.get("data", ""), folder.data_files()
    if name in files:
        return str(files[name])
    if name not in registry.names("datasets"):
        raise WrongInput("expected a data file of the folder or a built-in data set; choose one of the list")
    if Path(name).exists():  # a file has precedence, and need not lie in the folder
        raise WrongInput(
            f"expected {name} as built-in data, got a file of that name where `privaware ui` was started; rename "
            "the file"
        )
    return name


def default_name(folder: Folder, data: str) -> str:
    """Return a new name for the model of a data file: "STEM-model", with a number if this name is taken."""
    return _free_name(folder.path, f"{_stem(data)}-model")


def _free_name(place: Path, stem: str, suffix: str = "", taken: Collection[str] = ()) -> str:
    """Return `stem` with `suffix`, or with -2, -3 and so on between them if that name is `taken` or in `place`."""
    names = (f"{stem}{f'-{number}' if number > 1 else ''}{suffix}" for number in range(1, 10_000))
    return next(name for name in names if name not in taken and not os.path.lexists(place / name))


def _stem(data: str) -> str:
    """Return the name of a data file up to its first dot, without folders; "data" if that is empty."""
    return Path(data).name.split(".")[0] or "data"


def _words(options: Mapping[str, Any]) -> list[str]:
    """Return the words of options of the command line, each `--NAME=VALUE`, so that no value is read as an option.

    The underscores of a name become hyphens. True becomes `--NAME` and False `--no-NAME`. A list becomes one
    `--NAME=ITEM` for each item.
    """
    words = []
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}={item}" for item in (value if isinstance(value, list) else [value])]
    return words


def _new_folder(folder: Folder, name: str) -> str:
    if not NAME.fullmatch(name) or name == PREDICTIONS or name.endswith(".ledger"):
        raise WrongInput(f"expected a name for the model folder, without a slash or a leading dot, got {name!r:.60}")
    if not folder.holds(folder.path / name):
        raise WrongInput(
            f"expected {name!r:.60} inside this folder, got a symbolic link that leads out of it; choose another name"
        )
    return name


def _expect_own_ledger(folder: Folder, data: str) -> None:
    if data not in registry.names("datasets") and not folder.holds(Path(f"{data}.ledger")):
        raise WrongInput("expected the ledger of the data inside this folder, got a link that leads out of it")


def _chosen(paths: Mapping[str, Path], name: str, what: str) -> Path:
    if name not in paths:
        raise WrongInput(f"expected {what} of the folder; choose one of the list")
    return paths[name]


def _text(folder: Folder, name: str, text: str) -> str:
    if "\0" in text:
        raise WrongInput(f"expected {name} without a zero character")
    return text


def number_of(name: str, text: str) -> float:
    """Return the number that `text`, the content of a field called `name`, spells; raise `WrongInput` if it is none."""
    try:
        return float(text)
    except ValueError:
        point = " with a point, such as 1.5" if "," in text else ""
        raise WrongInput(f"expected {name.replace('_', ' ')} as a number{point}, got {text!r:.40}") from None


def _number(folder: Folder, name: str, text: str) -> float:
    return number_of(name, text)


def _count(folder: Folder, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise WrongInput(f"expected {name.replace('_', ' ')} as a whole number, got {text!r:.40}") from None


def _header(folder: Folder, name: str, text: str) -> bool:
    if text not in HEADERS:
        raise WrongInput(f"expected {name} as yes or no, got {text!r:.40}")
    return HEADERS[text]


def _flag(folder: Folder, name: str, text: str) -> bool:
    return True


def _ledger(folder: Folder, name: str, text: str) -> str:
    return str(_chosen(folder.ledgers(), text, "a ledger"))


def _schema(folder: Folder, name: str, text: str) -> str:
    return str(_chosen(folder.schemas(), text, "a schema"))


def _rows(folder: Folder, name: str, text: str) -> str:
    return data_path(folder, {"data": text})


def _names(folder: Folder, name: str, text: str) -> list[str]:
    return [part.strip() for part in _text(folder, name, text).split(",") if part.strip()]


def _settings(folder: Folder, name: str, text: str) -> dict[str, Any]:
    try:
        return registry.settings(_text(folder, name, text).split())
    except ValueError as problem:
        raise WrongInput(f"expected settings as NAME=VALUE with spaces between them, got {problem}") from None


NO_HEADER = {"no-header": "The first line of a text file: is a row"}
READING_FIELDS: Fields = {
    "encoding": (_text, "Encoding"),
    "sep": (_text, "Separator"),
    "decimal": (_text, "Decimal mark"),
    "header": (_header, "The first line of a text file: holds the names of the columns"),
}
"""Fields of a form that say how a text file is read."""
PREDICT_FIELDS: Fields = {
    **READING_FIELDS,
    "keep": (_names, "Columns to copy to the predictions"),
    "keep_formulas": (_flag, "Keep cells that a spreadsheet would run as formulas"),
    "allow_unreadable": (
        _flag,
        "Predict although most values of a column cannot be read, or a column that matters is empty",
    ),
}
"""Fields of the form of `predict`, named like its options."""
AUDIT_FIELDS: dict[str, Fields] = {
    "one_run": {"canaries": (_count, "Canaries"), "insert": (_text, "Where one_run inserts canaries")},
    "many_run": {"runs": (_count, "Runs with and without the canary")},
}
"""Fields of the form of `audit` by attack, beside the attack and the ledger."""
AUDIT_LEDGER: Fields = {"ledger": (_ledger, "Ledger")}
FIT_FIELDS: Fields = {
    "target": (_text, "Target"),
    "epsilon": (_number, "Epsilon"),
    "delta": (_number, "Delta"),
    "limit": (_number, "Limit"),
    "unit": (_text, "Unit"),
    "cap": (_count, "Largest number of rows used for each person"),
    "not_persons": (_names, "Columns that identify nobody"),
    "check_persons": (_flag, "Count, with 1% of the budget, whether values of columns that may name persons repeat"),
    "learner": (_text, "Learner"),
    "settings": (_settings, "Settings of the learner"),
    "task": (_text, "Task"),
    "schema": (_schema, "Schema"),
    "test": (_rows, "Test rows"),
    "score": (_flag, "Release a score of the model"),
    "score_epsilon": (_number, "Epsilon of the released score"),
    "score_also": (_names, "Table beside the released score"),
    "ledger": (_ledger, "Ledger"),
    "new_ledger": (_flag, "Make a new ledger"),
    **READING_FIELDS,
}
"""Fields of the form of `fit`, named like its arguments."""


def _labels(*forms: Fields) -> dict[str, str]:
    """Return the labels of all fields of `forms`, by the option of each field without its leading hyphens."""
    labels = {name: label for fields in forms for name, (_, label) in fields.items()}
    return {"set" if name == "settings" else name.replace("_", "-"): label for name, label in labels.items()}


LABELS = {
    "fit": _labels(FIT_FIELDS) | NO_HEADER | {"out": "Name of the model folder"},
    "predict": _labels(PREDICT_FIELDS) | NO_HEADER | {"out": "Format of the predictions"},
    "audit": _labels(*AUDIT_FIELDS.values(), AUDIT_LEDGER) | {"attack": "Attack"},
}
"""The start of the label of each field, by command and by option; a colon separates a label from a choice."""
OPTION = re.compile(
    r"`[^`]*`|(?<![\w'\"-])(?P<verb>[Pp]ass )?--(?P<name>[a-z]+(?:-[a-z]+)*)(?: (?P<placeholder>FILE|COLUMN|E)\b)?"
    r"(?(verb)(?: (?P<value>'[^']*'|[^\s'`]*[^\s'`.,;:]))?)"
)
"""Text between backticks, or an option outside of quotation marks with the placeholder of its value.

After the word `pass`, the value itself belongs to the match, too.
"""


NEW_LIMIT = re.compile(r"--set-limit( [0-9][^\s`]*)?")
"""An option or a command that sets the limit of a ledger, with or without the number."""
NEW_EPSILON = re.compile(r"`privaware fit .*--epsilon ([^\s`]+)")
"""A command that trains with an epsilon that fits into the ledger."""


def with_labels(sentence: str, verb: str) -> str:
    """Return `sentence` with the labels of the form of `verb` in place of the options of the command line.

    An option that has no field or stands between backticks stays, with "the command-line option" before it. A command
    between backticks stays as it is, unless it raises the limit of a ledger or trains with another epsilon: then the
    page has a field for it.
    """

    def shown(found: re.Match[str]) -> str:
        if limit := NEW_LIMIT.search(found[0]):
            return f"“New limit”{limit[1] or ''} on the page of the ledger"
        if epsilon := NEW_EPSILON.search(found[0]):
            return f"“Epsilon” {epsilon[1]}"
        if found["name"] is None and not found[0].startswith("`--"):
            return found[0]
        label, asked = LABELS[verb].get(found["name"]), found["verb"] or ""
        if label is None:
            return f"{asked}the command-line option {found[0].removeprefix(asked)}"
        what = found["value"] or ("the column" if found["placeholder"] == "COLUMN" else "")
        enter = f"{'E' if asked.startswith('P') else 'e'}nter {what} under " if what else asked
        return f"{enter}“{label}”"

    return OPTION.sub(shown, sentence)
