"""Each table and figure of the four papers has an outcome."""

from __future__ import annotations

import pytest

from research import papers
from research.papers._coverage import OUTCOMES, count_lines, names_of, parts


@pytest.mark.parametrize("paper", ["bao", "dpmlbench", "dpnas", "tramer_boneh"])
def test_each_table_and_figure_has_one_outcome_and_a_reason(paper: str) -> None:
    shown = parts(papers.matching(paper))
    assert [part.name for part in shown] == names_of(paper)
    assert all(part.outcome in OUTCOMES and part.words for part in shown)


def test_counts_add_up_to_all_tables_and_figures() -> None:
    shown = parts(papers.matching("dpnas"))
    [line] = count_lines(shown)
    assert line.startswith("dpnas: ")
    assert sum(int(words.split()[-1]) for words in line.removeprefix("dpnas: ").split(", ")) == len(names_of("dpnas"))


def test_outcomes_tell_full_runs_from_parts_of_them() -> None:
    by_name = {part.name: part for part in parts(papers.matching("bao"))}
    assert by_name["Table XIV"].outcome == "redone"
    assert "5 seeds" in by_name["Table XIV"].words
    assert by_name["Table I"].outcome == "differs"
    assert "purchase100" in by_name["Table I"].words
    privset = papers.matching("dpmlbench/table3/cifar10/privset")
    assert [part.outcome for part in parts(privset, whole=False)] == ["not run"]
    assert [part.outcome for part in parts(papers.matching("dpmlbench/table11"), whole=False)] == ["cannot be had"]
