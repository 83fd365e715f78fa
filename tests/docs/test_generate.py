"""Generated pages: every algorithm, verb and public name has its place, from its own card, help or docstring."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import _generate
import pytest

import privaware
from privaware import registry
from privaware.workflow.auto import default_policy

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", _generate.KINDS)
def test_every_file_of_a_folder_has_its_card(kind: str) -> None:
    page = _generate.cards(kind)
    names = sorted(path.stem for path in (ROOT / "privaware" / kind).glob("[!_]*.py"))
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == names
    for name in names:
        first = (importlib.import_module(f"privaware.{kind}.{name}").__doc__ or "").strip().splitlines()[0]
        assert first in page


@pytest.mark.parametrize("kind", ["learners", "selectors", "strategies"])
def test_cards_of_mechanisms_say_what_they_promise(kind: str) -> None:
    sections = re.split(r"^## ", _generate.cards(kind), flags=re.MULTILINE)[1:]
    assert [section.split()[0] for section in sections if "**Privacy:**" not in section] == []


def test_settings_are_listed_with_their_defaults() -> None:
    learner = registry.find("learners", "linear")
    assert f"| `steps` | `{learner().steps}` |" in _generate.settings_of(learner)


def test_command_line_has_every_verb_with_its_options() -> None:
    page = _generate.command_line()
    verbs = {path.stem for path in (ROOT / "privaware" / "cli").glob("[!_]*.py")}
    assert verbs <= set(re.findall(r"^## privaware ([\w-]+)$", page, re.MULTILINE))
    assert "--dry-run" in page
    assert "### privaware account dpsgd" in page


def test_interface_page_has_every_public_name_with_docstring() -> None:
    page = _generate.python_interface()
    for name in privaware.__all__:
        if not name.startswith("_"):
            assert f"### privaware.{name}\n" in page
    assert (privaware.fit.__doc__ or "").splitlines()[0] in page


def test_page_of_the_policy_has_every_rule() -> None:
    page = _generate.policy()
    for rule in default_policy().rules:
        assert f"| {rule.name} |" in page
        assert rule.why.replace("{learner}", rule.use["learner"]) in page


def test_doctests_of_a_docstring_become_blocks() -> None:
    text = _generate.markdown_of("What.\n\nPaper: a book.\n\n>>> 1 + 1\n2\n\nMore.")
    assert "**Paper:** a book." in text
    assert "```pycon\n>>> 1 + 1\n2\n```" in text
    assert text.endswith("More.")


def test_numpydoc_sections_become_lists() -> None:
    text = _generate.markdown_of(
        "What.\n\nParameters\n----------\nx, y\n    Two\n    numbers.\n\nReturns\n-------\nint\n    One."
    )
    assert "**Parameters**\n\n- `x, y`: Two\n  numbers.\n" in text
    assert text.endswith("**Returns**\n\n- `int`: One.")
