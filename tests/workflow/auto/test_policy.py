"""Policies: what is wrong with one is one sentence, the first rule that matches wins, and results record it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privaware import PrivateClassifier, fit
from privaware.cli import main
from privaware.errors import WrongInput
from privaware.registry import names
from privaware.schema import Column, Schema
from privaware.workflow.auto import Policy, choose, default_policy
from privaware.workflow.auto._policy import _time_sentence

TABLE = Schema(columns=(Column(name="a", low=0, high=9),), classes=("no", "yes"), rows=500)
ADDITIVE = {"name": "all", "use": {"learner": "additive"}, "why": "Learner: {learner}, as agreed."}
ROOT = Path(__file__).parents[3]


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "mine", "rule": [{**ADDITIVE, **rule} for rule in rules or ({},)], **more}


def test_first_rule_that_matches_wins() -> None:
    small = {"name": "few", "when": {"rows": ["> 100", "< 1000"]}, "use": {"learner": "majority"}}
    chosen = choose(TABLE, 1.0, policy=Policy.read(policy(small, {})))
    assert (chosen.learner, chosen.rule) == ("majority", "few")
    assert choose(TABLE, 1.0, policy=Policy.read(policy({**small, "when": {"rows": "< 100"}}, {}))).rule == "all"


def test_plan_says_the_sentence_of_the_rule() -> None:
    assert choose(TABLE, 1.0, policy=Policy.read(policy())).reasons == ("Learner: additive, as agreed.",)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (policy(colour="red"), "policy 'mine' has no 'colour'"),
        (policy({"wen": {}}), "rule 'all' has no 'wen'; did you mean when?"),
        (policy({"when": {"row": "< 5"}}), "rule 'all': when has no 'row'; did you mean rows?"),
        (policy({"when": {"rows": "few"}}), "expected rows as a number or a comparison such as \">= 5\", got 'few'"),
        (policy({"when": {"form": "tabel"}}), "rule 'all': expected form among table, text, image, got 'tabel'"),
        (policy({"when": {"installed": "gpt"}}), "expected installed among sentences, extractor, got 'gpt'"),
        (policy({"cost": {"seconds": "long"}}), "rule 'all': cost: expected seconds as a number >= 0, got 'long'"),
        (policy({"use": {"learner": "lineer"}}), "no learner is called 'lineer'; did you mean linear?"),
        (policy({"use": {"learner": "linear", "settings": {"stepz": 1}}}), "settings of linear has no 'stepz'"),
        (policy({"use": {"learner": "linear", "before": ["sleep"]}}), "no release is called 'sleep'"),
        (policy({"use": {"learner": "linear", "settings": {"steps": "$many"}}}), "no quantity is called '$many'"),
        (policy({"use": 3}), "rule 'all': expected 'use' as a table, got 3"),
        (policy(floor={"least": 3}), "floor has no 'least'"),
        ({"name": "mine"}, "expected rules as [[rule]] tables, got none"),
    ],
)
def test_bad_policy_is_refused_with_one_sentence(table: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput) as problem:
        Policy.read(table)
    assert words in str(problem.value)


def test_no_matching_rule_is_refused() -> None:
    with pytest.raises(WrongInput, match=r"policy 'mine': no rule matches \(form table, .* add a last rule"):
        choose(TABLE, 1.0, policy=Policy.read(policy({"when": {"form": "text"}})))


def write(path: Path, learner: str = "additive", name: str = "mine") -> Path:
    path.write_text(
        f'name = "{name}"\n[[rule]]\nname = "all"\nuse = {{learner = "{learner}"}}\nwhy = "Learner: {learner}."\n'
    )
    return path


def test_command_line_refuses_a_bad_policy_before_a_charge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write(tmp_path / "bad.toml", "lineer")
    words = ["fit", "wisconsin", "--epsilon", "1", "--policy", str(bad), "--out", str(tmp_path / "model")]
    assert main(words) == 2
    assert "no learner is called 'lineer'; did you mean linear?" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
    assert main([*words[:5], str(tmp_path / "none.toml")]) == 2


def test_model_and_plan_record_the_policy(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.toml")
    options: dict[str, Any] = {"epsilon": 1.0, "seed": 1, "policy": mine}
    fit("wisconsin", out=tmp_path / "model", **options)
    label = Policy.read(mine).label
    assert json.loads((tmp_path / "model" / "model.json").read_text())["settings"]["policy"] == label
    fit("wisconsin", plan=tmp_path / "plan.toml", dry_run=True, **options)
    assert f'policy = "{label}"' in (tmp_path / "plan.toml").read_text()


def test_plan_of_another_policy_is_refused(tmp_path: Path) -> None:
    plan = {"learner": "auto", "policy": "mine 0123456789ab"}
    with pytest.raises(WrongInput, match="expected policy= with the policy of this plan"):
        fit("wisconsin", epsilon=1.0, plan=plan, dry_run=True)


def test_folder_of_another_policy_is_not_resumed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epsilon": 1.0, "seed": 1, "out": tmp_path / "model"}
    fit("wisconsin", policy=write(tmp_path / "one.toml"), **options)
    with pytest.raises(WrongInput, match="model"):
        fit("wisconsin", policy=write(tmp_path / "two.toml", name="other"), **options)


def test_policy_needs_the_learner_auto(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="expected policy= with learner='auto', got linear"):
        fit("wisconsin", epsilon=1.0, learner="linear", policy=write(tmp_path / "mine.toml"), dry_run=True)


def test_estimator_follows_a_policy() -> None:
    frame = pd.DataFrame({"a": [1, 8] * 100})
    rules = policy({"use": {"learner": "majority"}})
    model = PrivateClassifier(schema=TABLE, random_state=0, policy=rules).fit(frame, ["no", "yes"] * 100)
    assert len(set(model.predict(frame))) == 1


def test_every_rule_links_to_a_page_of_evidence() -> None:
    for rule in default_policy().rules:
        page, _, anchor = rule.evidence.partition("#")
        text = (ROOT / page).read_text(encoding="utf-8")
        heads = {slug(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
        assert not anchor or anchor in heads, rule.name


def slug(heading: str) -> str:
    """The anchor of a heading as the site writes it."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def test_default_policy_ends_with_a_rule_for_every_form() -> None:
    unconditional = {rule.when["form"] for rule in default_policy().rules if set(rule.when) == {"form"}}
    assert unconditional == {"table", "text", "image"}
    assert {rule.use["learner"] for rule in default_policy().rules} <= {"constant", *names("learners")}


def test_equal_ends_of_a_time_are_said_once(monkeypatch):
    monkeypatch.setattr("privaware.workflow.auto._policy.threads", lambda: 2)
    assert _time_sentence(0.01, "cpu") == "Features and training take about 1 s on 2 processor cores."
