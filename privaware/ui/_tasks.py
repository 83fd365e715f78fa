"""The forms of the page as commands: each form becomes one call of the command line, with paths of the folder only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import registry
from privaware.errors import WrongInput
from privaware.ui._folder import PREDICTIONS, Folder

__all__ = ["Task", "audit_task", "data_path", "default_name", "fit_options", "fit_task", "predict_task", "reading"]

Form = Mapping[str, str]

NAME = re.compile(r"[^/\\.\0\x01-\x1f][^/\\\0\x01-\x1f]{0,99}")
"""A name for a folder of results: one part of a path, of at most 100 characters, not hidden."""
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
        The arguments of `privaware`, with absolute paths.
    """

    verb: str
    out: str
    form: Form
    words: tuple[str, ...]

    def command(self, folder: Folder) -> str:
        """Return the call as a user would type it in the folder."""
        return folder.shown(shlex.join(["privaware", *self.words]))

    def ledger(self, folder: Folder) -> str:
        """Return the name of the ledger that a training charges: the form names it, or it is next to the data or model.

        The name is empty if the folder has none of these ledgers, and for other verbs.
        """
        names = (self.form.get("ledger", ""), f"{self.form.get('data', '')}.ledger", f"{self.out}/run.ledger")
        known = folder.ledgers() if self.verb == "fit" else {}
        return next((name for name in names if name in known), "")


def fit_options(folder: Folder, form: Form) -> dict[str, Any]:
    """Return the keyword arguments of `fit` in a form, without empty fields; an empty epsilon becomes 1.

    Raise `WrongInput` for a value that does not fit its field, and for a file that is not in the folder.
    """
    options: dict[str, Any] = {"epsilon": 1.0}
    for name, convert in FIT_FIELDS.items():
        if form.get(name):
            options[name] = convert(folder, name, form[name])
    return options


def fit_task(folder: Folder, form: Form) -> Task:
    """Return the call of `privaware fit` that a form describes; raise `WrongInput` for a wrong field or name."""
    out = _new_folder(folder, form.get("out", "").strip())
    options = fit_options(folder, form)
    if options.pop("settings", None):
        options["set"] = form["settings"].split()
    data = data_path(folder, form)
    _expect_own_ledger(folder, data)
    words = ("fit", *_words(options), f"--out={folder.path / out}", "--", data)
    return Task(verb="fit", out=out, form=dict(form), words=words)


def predict_task(folder: Folder, form: Form) -> Task:
    """Return the call of `privaware predict` that a form describes, with a new file in the folder of predictions.

    Raise `WrongInput` for a wrong field, an unknown model or unknown data.
    """
    model = _chosen(folder.models(), form.get("model", ""), "a model")
    suffix = form.get("format") or FORMATS[0]
    if suffix not in FORMATS:
        raise WrongInput(f"expected {' or '.join(FORMATS)} as the format, got {suffix!r:.40}")
    data = data_path(folder, form)
    place = folder.path / PREDICTIONS
    if not folder.holds(place):
        raise WrongInput(f"expected {PREDICTIONS!r} as a folder inside this folder, got a link that leads out of it")
    out = _free_name(place, _stem(form["data"]), f".{suffix}")
    options = reading(folder, form)
    options |= {name: convert(folder, name, form[name]) for name, convert in PREDICT_FIELDS.items() if form.get(name)}
    words = ("predict", *_words(options), f"--out={place / out}", "--", str(model), data)
    return Task(verb="predict", out=f"{PREDICTIONS}/{out}", form=dict(form), words=words)


def audit_task(folder: Folder, name: str, form: Form) -> Task:
    """Return the call of `privaware audit` that a form describes, for the model `name` of the folder.

    Raise `WrongInput` for a wrong field or an unknown model.
    """
    model = _chosen(folder.models(), name, "a model")
    attack = form.get("attack") or "one_run"
    if attack not in AUDIT_FIELDS:
        raise WrongInput(f"expected {' or '.join(AUDIT_FIELDS)} as the attack, got {attack!r:.40}")
    options: dict[str, Any] = {"attack": attack}
    fields = AUDIT_FIELDS[attack] | {"ledger": _ledger}
    options |= {name: convert(folder, name, form[name]) for name, convert in fields.items() if form.get(name)}
    words = ("audit", *_words(options), "--", str(model))
    return Task(verb="audit", out=name, form={**form, "model": name}, words=words)


def reading(folder: Folder, form: Form) -> dict[str, Any]:
    """Return the format of a text file that a form gives: encoding, separator, decimal mark and header."""
    return {name: convert(folder, name, form[name]) for name, convert in READING_FIELDS.items() if form.get(name)}


def data_path(folder: Folder, form: Form) -> str:
    """Return the path of the data file that a form names, or the name of a built-in data set.

    Any other name raises `WrongInput`, and so does a built-in name that is also a file of the working directory.
    """
    name, files = form.get("data", ""), folder.data_files()
    if name in files:
        return str(files[name])
    if name not in registry.names("datasets"):
        raise WrongInput("expected data among those of the folder or built in; choose one of the list")
    if Path(name).exists():  # a file has precedence, and need not lie in the folder
        raise WrongInput(
            f"expected {name} as built-in data, got a file of that name where `privaware ui` was started; rename "
            "the file"
        )
    return name


def default_name(folder: Folder, data: str) -> str:
    """Return a new name for the model of a data file: "STEM-model", with a number if this name is taken."""
    return _free_name(folder.path, f"{_stem(data)}-model")


def _free_name(place: Path, stem: str, suffix: str = "") -> str:
    """Return `stem` with `suffix`, or with -2, -3 and so on between them if that name exists in `place`."""
    names = (f"{stem}{f'-{number}' if number > 1 else ''}{suffix}" for number in range(1, 10_000))
    return next(name for name in names if not (place / name).exists() and not (place / name).is_symlink())


def _stem(data: str) -> str:
    """Return the name of a data file without its suffixes."""
    return Path(data).name.split(".")[0] or "data"


def _words(options: Mapping[str, Any]) -> list[str]:
    """Return options of the command line, each as one word, so that no value is read as another option."""
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
        raise WrongInput(f"expected {name!r:.60} inside this folder, got a link that leads out of it; choose another")
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


def _number(folder: Folder, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongInput(f"expected {name.replace('_', ' ')} as a number, got {text!r:.40}") from None


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


Convert = Callable[[Folder, str, str], Any]
READING_FIELDS: dict[str, Convert] = {"encoding": _text, "sep": _text, "decimal": _text, "header": _header}
"""Fields of a form that say how a text file is read."""
PREDICT_FIELDS: dict[str, Convert] = {"keep": _names, "keep_formulas": _flag, "allow_unreadable": _flag}
"""Fields of the form of `predict` beside those that say how a file is read."""
AUDIT_FIELDS: dict[str, dict[str, Convert]] = {
    "one_run": {"canaries": _count, "insert": _text},
    "many_run": {"runs": _count},
}
"""Fields of the form of `audit` by attack."""
FIT_FIELDS: dict[str, Convert] = {
    "target": _text,
    "epsilon": _number,
    "delta": _number,
    "limit": _number,
    "unit": _text,
    "cap": _count,
    "not_persons": _names,
    "check_persons": _flag,
    "learner": _text,
    "settings": _settings,
    "task": _text,
    "schema": _schema,
    "test": _rows,
    "score": _flag,
    "score_epsilon": _number,
    "score_also": _names,
    "ledger": _ledger,
    "new_ledger": _flag,
    **READING_FIELDS,
}
"""Fields of the form of `fit`, named like its options."""
