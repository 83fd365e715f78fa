"""What is chosen before a charge: a search on public rows is free, and the standard workflow is never certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware import accounting, fit, verify
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.guarantee import CHOSEN_WITHOUT_NOISE
from privaware.workflow.run.source import draft_schema
from tests.cli.people import write_people

SPACE = {"learner": "linear", "choices": {"norm": [0.25, 0.5]}, "build": {"norm": "$norm", "steps": 2}}
SEARCH: dict[str, Any] = {"search": "grid", "search_settings": {"space": SPACE}}


def test_standard_workflow_runs_without_noise_and_says_so(tmp_path: Path) -> None:
    released = fit("wisconsin", epsilon=1.0, select="top", workflow="standard", out=tmp_path / "m", **SEARCH)
    assert released.certified is False
    assert released.sentence.startswith(f"NOT PRIVATE: {CHOSEN_WITHOUT_NOISE}")
    assert released.workflow == "standard"
    assert released.search is not None
    assert len(released.search["columns"]) == 5
    assert set(released.search["point"]) == {"norm"}
    # the whole budget is for one training
    assert released.event.event == Gaussian(noise=released.event.event.noise)  # type: ignore[attr-defined]
    assert accounting.epsilon(released.event, 1e-5) == pytest.approx(1.0, rel=1e-3)
    assert "standard workflow" in (tmp_path / "m" / "report.html").read_text()
    verdict = verify(tmp_path / "m")
    assert (verdict.valid, verdict.certified) == (True, False)


def test_standard_selection_does_not_depend_on_the_budget() -> None:
    chosen = [
        fit("wisconsin", epsilon=epsilon, select="top", learner="linear", workflow="standard", seed=seed).search
        for epsilon, seed in ((0.1, 1), (10.0, 2))
    ]
    assert chosen[0] == chosen[1]


def test_standard_workflow_of_auto_looks_at_no_row() -> None:
    """Without a selection or a search only the learner is chosen as if there were no noise: that is private."""
    standard = fit("wisconsin", epsilon=1.0, workflow="standard", dry_run=True)
    assert (standard.learner, standard.certified) == ("fourier", True)
    assert "Learner: fourier, chosen by the standard workflow, which ignores the noise." in standard.plan
    assert not any("standard workflow" in line for line in fit("wisconsin", epsilon=1.0, dry_run=True).plan)


def test_search_on_public_rows_is_free(tmp_path: Path) -> None:
    people, public = write_people(tmp_path / "p.csv", rows=200), write_people(tmp_path / "q.csv", rows=150, seed=9)
    options: dict[str, Any] = {"schema": tmp_path / "people.toml", "epsilon": 1.0, "seed": 1}
    schema_of(people, tmp_path / "people.toml")
    found = fit(people, public=public, **SEARCH, **options)
    assert found.search is not None
    assert found.epsilon == pytest.approx(1.0, rel=1e-3)
    assert len(found.plan) == 4
    assert "on public rows, which has no privacy cost" in found.plan[0]
    assert found.seconds is not None


def test_standard_workflow_refuses_rows_of_a_person(tmp_path: Path) -> None:
    people = write_people(tmp_path / "p.csv", rows=200)
    with pytest.raises(WrongInput, match="leave workflow= out"):
        fit(people, target="y", epsilon=1.0, select="top", workflow="standard")
    assert not Path(f"{people}.ledger").exists()


def schema_of(people: Path, path: Path) -> None:
    path.write_text(draft_schema(people, target="y").toml())
