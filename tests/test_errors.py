"""Warnings point at the line of the user, and messages name settings as their caller writes them."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import privaware
from privaware import Ledger, PrivateClassifier, bench, fit, report, train, ui
from privaware.errors import SETTING, SETTINGS, PersonsWarning, WrongInput, for_caller, naming_options

HERE = Path(__file__).name


@pytest.fixture
def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(draw.normal(size=(200, 3)), columns=list("abc")).assign(y=draw.choice(["no", "yes"], 200))


def places(caught: list[warnings.WarningMessage]) -> set[str]:
    assert caught
    return {Path(each.filename).name for each in caught}


def test_warning_of_a_charge_points_at_the_caller(table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[:3, "y"] = None
    call = {"target": "y", "epsilon": 1.0, "learner": "majority", "accept_schema": True}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "b"):
            fit(table, ledger=tmp_path / f"{name}.ledger", **call)
    assert places(caught) == {HERE}


def test_warning_of_train_points_at_the_caller(tmp_path: Path) -> None:
    x, y = torch.randn(100, 2), torch.zeros(100, dtype=torch.long)
    options = {"epsilon": 1.0, "steps": 1, "sampling_rate": 1.0, "clipping_norm": 1.0, "lr": 1.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "b"):
            ledger = Ledger.create(tmp_path / f"{name}.ledger", limit=1.0)
            train(torch.nn.Linear(2, 2), x, y, ledger=ledger, **options)
    assert places(caught) == {HERE}


def test_warning_in_a_pipeline_points_at_the_caller(table: pd.DataFrame) -> None:
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(PrivateClassifier(learner="majority"), table[["a", "b"]], table["y"], cv=2)
    assert places(caught) == {HERE}


@pytest.mark.parametrize(
    ("written", "keyword", "option"),
    [
        ("name it with --sep", "name it with sep=", "name it with --sep"),
        ("--kinds: expected a table", "kinds: expected a table", "--kinds: expected a table"),
        ("pass --not-persons COLUMN.", "pass not_persons=COLUMN.", "pass --not-persons COLUMN."),
        ("give --task=regression.", "give task='regression'.", "give --task regression."),
        ("(--cap=2, --delta=1e-05)", "(cap=2, delta=1e-05)", "(--cap 2, --delta 1e-05)"),
        ("`--epsilons=0.1,1 --repeats=3`", "`epsilons=[0.1, 1], repeats=3`", "`--epsilons 0.1,1 --repeats 3`"),
        ("say --header=False, or --header=True", "say header=False, or header=True", "say --no-header, or --header"),
        ("--unit='case \"id'", "unit='case \"id'", "--unit 'case \"id'"),
        ("`privaware schema --kinds`", "`privaware schema --kinds`", "`privaware schema --kinds`"),
        ("the column '--cap' of a/--b--c", "the column '--cap' of a/--b--c", "the column '--cap' of a/--b--c"),
    ],
)
def test_setting_is_named_as_its_caller_writes_it(written: str, keyword: str, option: str) -> None:
    assert for_caller(written) == keyword == for_caller(keyword)
    with naming_options():
        assert for_caller(written) == option == for_caller(option)


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    first, second = naming_options(), naming_options()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert for_caller("--out") == "--out"
    second.__exit__(None, None, None)
    assert for_caller("--out") == "out="


def test_error_from_another_process_is_told_to_the_caller() -> None:
    sent = pickle.dumps(WrongInput("give --test FILE"))
    with naming_options():
        assert str(pickle.loads(sent)) == "give --test FILE"
    assert str(pickle.loads(sent)) == "give test=FILE"


def test_error_in_a_chain_is_told_to_the_caller() -> None:
    first = WrongInput("give --test FILE")
    second = WrongInput(f"the rows: {first}, or leave --test out")
    second.__cause__ = first
    lines = "".join(traceback.format_exception(second))
    assert "WrongInput: give test=FILE\n" in lines
    assert "WrongInput: the rows: give test=FILE, or leave test= out\n" in lines


def test_plan_notices_and_warnings_name_keywords(table: pd.DataFrame, tmp_path: Path) -> None:
    said: list[str] = []
    named = table.assign(patient_id=np.arange(200), y=np.arange(200) % 3)
    call: dict[str, Any] = {"target": "y", "epsilon": 1.0, "dry_run": True, "learner": "linear"}
    planned = fit(named, ledger=tmp_path / "a.ledger", say=said.append, verbose=True, **call)
    with pytest.warns(PersonsWarning, match="pass unit='patient_id'"):
        fit(named, ledger=tmp_path / "a.ledger", **call)
    texts = [*said, *planned.plan, *planned.notices]
    assert any("pass unit='patient_id'" in text for text in texts)
    assert any("give task='regression'" in text for text in planned.plan)
    assert not [text for text in texts if "--" in SETTINGS.sub(lambda found: "" if found[1] is None else "--", text)]


PACKAGE = Path(privaware.__file__).parent
COMMANDS = ("cli/", "ui/_tasks.py", "errors.py")
"""Files that only the command line reaches, or that write its words."""
PYTHON_ONLY = ("estimators/", "workflow/_torch_rows.py")
"""Files that the command line never reaches, whose messages name keyword arguments."""
WORDS = ("--close", "--short", "pip install ")
"""Starts of texts that are words of a command."""


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """The file and the text of each string that is neither a docstring nor a file of `COMMANDS`.

    A value in an f-string is shown as V.
    """
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        nodes = [] if file.startswith(COMMANDS) else list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        inner |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            if id(node) not in inner and isinstance(parts[0], (ast.Constant, ast.FormattedValue)):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "V" for part in parts)
                found.append((file, text))
    return tuple(found)


@cache
def keywords() -> set[str]:
    """The names of the arguments of all public functions and classes with settings."""
    packages = (privaware, bench, report, ui)
    members = [getattr(package, name) for package in packages for name in package.__all__]
    public = [each for each in members if inspect.isroutine(each) or inspect.isclass(each)]
    return {name for each in public for name in inspect.signature(each).parameters}


@cache
def options() -> dict[str, set[str]]:
    """The options of each command, such as "ledger" or "account dpsgd"; those of all commands together for ""."""
    import typer

    from privaware.cli._verbs import app

    found: dict[str, set[str]] = {"": set()}

    def walk(command: Any, name: str) -> None:
        found[name] = {each for one in command.params for each in (*one.opts, *one.secondary_opts)}
        found[""] |= found[name]
        for part, inside in getattr(command, "commands", {}).items():
            walk(inside, f"{name} {part}".strip())

    walk(typer.main.get_command(app), "")
    return found


def test_every_option_in_a_message_is_also_a_keyword() -> None:
    seen, wrong = set(), []
    for file, text in messages():
        for found in SETTINGS.finditer(text) if not text.startswith(WORDS) else ():
            for name, *_ in SETTING.findall(found[0]) if found[1] else ():
                seen.add(name)
                if f"--{name}" not in options()[""] or name.replace("-", "_") not in keywords():
                    wrong.append((file, text))
    assert not wrong
    assert {"sep", "not-persons", "pilot", "out"} <= seen


def test_every_option_in_a_command_of_a_message_exists() -> None:
    seen, wrong = set(), []
    for file, text in messages():
        for command in re.findall("`privaware ([^`]*)`", text):
            verb = next((name for name in sorted(options(), reverse=True) if name and command.startswith(name)), "")
            named = set(re.findall("(?<![^ ])--[a-z-]+", command))
            seen |= named
            if named - (options()[verb] if verb else set()):
                wrong.append((file, text))
    assert not wrong
    assert {"--set-limit", "--restore", "--close"} <= seen


def test_no_message_names_a_keyword_at_the_command_line() -> None:
    known = {name.removeprefix("--").replace("-", "_") for name in options()[""]}
    texts = [each for each in messages() if not each[0].startswith(PYTHON_ONLY)]
    assert not [each for each in texts if known & set(re.findall("(?<![-:\\w])([a-z_]+)=(?![=\\s])", each[1]))]
