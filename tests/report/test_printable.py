"""Untrusted text is inert on the page, and what is for the owner only never reaches it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.events import Unproven, to_json
from tests.report.pages import Reader, card_entries, page

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}${7*7}]]>--><svg/onload=a>"


def poisoned(value: Any, text: str) -> Any:
    """Every text from untrusted input, replaced by `text`."""
    entries: dict[str, Any] = copy.deepcopy(value)
    for name in ("version", "created", "learner"):
        entries[name] = text
    for column in entries["schema"]["columns"]:
        column["name"] += text
    entries["schema"].update(target=text, classes=["a" + text, "b" + text], assumed=[text])
    entries["schema"]["columns"][1]["categories"] = [text]
    entries.update(settings={text: text}, features=[{text: [text]}], architecture={text: text})
    entries.update(plan=[text], ledger={"entry": text, "run": text})
    for name in ("unit", "relation", "sampler", "method", "sentence"):
        entries["guarantee"][name] = text
    entries["guarantee"].update(assumptions=[text], accountants={text: 1.0}, seed=text)
    entries["events"][0]["what"] = text
    entries["events"].append({"what": text, "event": to_json(Unproven(reason=text)), "epsilon": 0.5})
    return entries


@pytest.fixture(scope="module")
def harmless() -> Reader:
    return Reader(page(poisoned(card_entries(), "x")))


def test_hostile_text_is_escaped(harmless: Reader) -> None:
    bad = Reader(page(poisoned(card_entries(), HOSTILE)))
    assert bad.tags == harmless.tags
    assert bad.attributes == harmless.attributes
    assert not any(name.startswith("on") for name in bad.attributes)
    assert "49" not in re.findall(r"\d+", bad.text.replace("7*7", ""))
    assert "{{ 7*7 }}" in bad.text  # shown as text, not worked out


@given(st.text(min_size=1, max_size=20))
@example("\x00\u202e")
@example("'/**/--></style><b>")
@settings(max_examples=15, deadline=None)
def test_any_text_gives_a_page_with_the_same_tags(harmless: Reader, text: str) -> None:
    html = page(poisoned(card_entries(), text))
    html.encode("utf-8")
    assert Reader(html).tags == harmless.tags


def test_page_replaces_lone_surrogates_and_schema_refuses_them() -> None:
    text = "\ud800\x00\u202e"
    entries = poisoned(card_entries(), text) | {"schema": card_entries()["schema"]}
    html = page(entries)
    html.encode("utf-8")
    assert "\N{REPLACEMENT CHARACTER}" in html
    with pytest.raises(WrongInput, match=r"model\.json: column .* expected a non-empty name"):
        page(poisoned(card_entries(), text))


def test_p32_scores_and_private_fields_never_reach_the_page() -> None:
    entries = card_entries()
    entries["internal"] = {"test_score": 0.8642}
    entries["seconds"] = 0.8642
    entries["settings"]["internal"] = 0.8642
    entries["settings"]["nested"] = {"test_score": 0.8642, "depth": 2}
    entries["architecture"]["accuracy"] = 0.8642
    entries["features"][0]["Scores"] = [0.8642]
    entries["guarantee"]["internal"] = 0.8642
    entries["events"][0]["batch"] = 0.8642
    html = page(entries)
    assert "8642" not in html
    assert not re.search("internal|test_score|accuracy|scores", html.lower())


def test_scores_inside_lists_are_not_shown() -> None:
    entries = card_entries()
    entries["settings"] = {"rounds": [{"test_score": 0.8642, "depth": 3}]}
    assert "0.8642" not in page(entries)
