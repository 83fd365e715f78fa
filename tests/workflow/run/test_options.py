"""The options that charged verbs share are one value, and every verb shows and checks them alike."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from privaware import advise, audit, crossover, fit, predict, search, select
from privaware.cli._options import RUN_OPTIONS
from privaware.errors import WrongInput
from privaware.workflow.run.options import RunArguments, RunOptions

VERBS = [fit, select, search, crossover]
PROMISED = {
    fit: {"public", "learner", "settings", "test", "time_limit", "device", "epsilon"}
    | {
        "score",
        "score_epsilon",
        "score_also",
        "metric",
        "describe",
        "plan",
        "policy",
        "use",
        "select",
        "search",
        "search_settings",
        "features",
        "workflow",
        "ray",
        "select_settings",
    },
    select: {"workflow", "method", "settings", "epsilon", "describe", "level", "ray"},
    search: {"space", "strategy", "epsilon", "model_epsilon", "trials", "settings", "options", "held_out", "public"}
    | {"workflow", "workers", "ray", "test", "describe", "device"},
    crossover: {"simple", "complex", "epsilons", "repeats", "total", "settings", "device"},
}
SHARED = {"target", "task", "delta", "schema", "accept_schema", "private_schema", "unit", "cap", "not_persons"} | {
    "check_persons",
    "kinds",
    "verbose",
    "ledger",
    "new_ledger",
    "limit",
    "dry_run",
    "header",
    "sep",
    "decimal",
    "encoding",
    "out",
    "seed",
    "sign",
    "say",
}


def test_arguments_and_options_have_the_same_names() -> None:
    assert set(RunArguments.__annotations__) == SHARED
    assert {field.name for field in fields(RunOptions)} == SHARED | {"test", "public", "device", "describe", "ray"}


def test_command_line_has_shared_options_with_same_defaults() -> None:
    defaults = {field.name: field.default for field in fields(RunOptions)}
    assert {name: default for name, (_, default) in RUN_OPTIONS.items()} == {
        name: defaults[name] for name in SHARED - {"out", "say", "confirm"}
    }


@pytest.mark.parametrize("verb", VERBS)
def test_signature_lists_every_keyword(verb: Any) -> None:
    shown = inspect.signature(verb).parameters
    assert set(shown) == {"data"} | PROMISED[verb] | SHARED
    assert all(each.kind is each.KEYWORD_ONLY for name, each in shown.items() if name != "data")


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_keyword_is_named_in_one_sentence(verb: Any) -> None:
    needed: dict[str, Any] = {"simple": "majority", "complex": "linear"} if verb is crossover else {"epsilon": 1.0}
    with pytest.raises(TypeError, match=r"there is no argument 'dleta'; did you mean delta\?"):
        verb("wisconsin", dleta=1e-6, **needed)


def test_options_of_other_verbs_are_unknown() -> None:
    with pytest.raises(TypeError, match="'device'"):
        select("wisconsin", epsilon=1.0, device="cpu")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"cap": 0}, "cap"),
        ({"cap": 3}, "unit=COLUMN beside cap=3"),
        ({"target": ["y"]}, r"target= as the name of one column, got \['y'\]"),
        ({"task": "divination"}, "task= as"),
        ({"device": "abacus"}, "device= as cpu"),
    ],
)
def test_options_are_checked_when_they_are_made(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongInput, match=sentence):
        RunOptions(**wrong)


@pytest.mark.parametrize("verb", [*VERBS, audit, advise, predict])
def test_every_argument_refuses_another_type(verb: Any, tmp_path: Path) -> None:
    needed: dict[Any, dict[str, Any]] = {
        crossover: {"simple": "majority", "complex": "linear"},
        predict: {"out": tmp_path / "out.csv"},
    }
    rows = ["model", "wisconsin"] if verb is predict else ["wisconsin"]
    given = needed.get(verb, {"epsilon": 1.0})
    names = [name for name, parameter in inspect.signature(verb).parameters.items() if parameter.annotation != "Any"]
    for name in set(names) - {"model", "run_options"}:
        with pytest.raises(WrongInput, match=f"expected (--)?{name}=? as .*, got <object object"):
            verb(*rows, **{**given, name: object()})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"settings": 1}, {"kinds": 1}, {"use": 1}, {"accept_schema": "x"}, {"out": 1}, {"ledger": []}, {"plan": 1}),
        *({"policy": []}, {"describe": 1}, {"time_limit": "x"}, {"score_also": 1}, {"not_persons": [1]}, {"say": "x"}),
    ],
)
def test_fit_names_the_argument_of_wrong_type(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=f"^expected {next(iter(wrong))} as "):
        fit("wisconsin", **{"epsilon": 1.0, "ledger": tmp_path / "ledger", **wrong})
    assert not [*tmp_path.iterdir()]
