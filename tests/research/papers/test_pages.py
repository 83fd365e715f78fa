"""Every page of docs/results comes out of its stored cells, and every item that names a page has cells on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.bench._store import Cell
from research import papers
from research.papers._page import Page, names, provenance, render
from research.papers._runner import run

PAGES = {name: Page(name) for name in names()}


@pytest.mark.parametrize("name", PAGES)
def test_page_equals_its_template_rendered_with_stored_cells(name: str) -> None:
    page = PAGES[name]
    assert render(page) == (page.results / f"{name}.md").read_text()


def test_every_page_of_results_has_a_template() -> None:
    written = {path.stem for path in Page("studies").results.glob("*.md")}
    assert written - {"gpu_tests"} == set(PAGES)  # `make gpu` writes that one


def test_every_plot_of_a_page_is_stored() -> None:
    for name in ("studies", "features", "dpmlbench"):
        page = PAGES[name]
        render(page)
        assert page.charts
        assert {f"{plot}.svg" for plot in page.charts} == {path.name for path in (page.results / name).glob("*.svg")}


def test_item_names_an_existing_page_or_has_cells() -> None:
    for item in papers.items():
        assert item.page is None or item.page in PAGES, item.id
        stored = PAGES[item.paper].cells(item.id) if item.paper in PAGES else []
        assert item.page or bool(stored) == (item.status in ("partly", "measured")), item.id


@pytest.mark.parametrize("name", ["studies", "features", "search"])
def test_stored_cells_are_those_that_the_items_plan(name: str) -> None:
    from privaware.bench._store import cell_key

    for id in PAGES[name].items():
        item = papers.find(id)
        planned = {cell_key(id, settings) for settings in item.runs}
        assert {cell.key for cell in PAGES[name].cells(id)} <= planned or item.is_outdated, id
        assert item.page == name


def test_provenance_names_commit_machine_and_date() -> None:
    facts = {"commit": "abc", "machine": "H200", "precision": "tf32", "date": "2026-01-01", "seconds": 3, "seeds": "0"}
    words = provenance(Cell(item="bao/lemma", settings={}, result={}, run=facts))
    assert words == "`privaware reproduce bao/lemma`: measured at commit abc, seeds 0, H200 in TF32, 2026-01-01, 3 s."


def test_provenance_of_a_new_run_counts_its_seeds() -> None:
    facts = {"commit": "abc", "machine": "CPU", "precision": "float32", "date": "2026-01-01", "seconds": 3.5}
    words = provenance(Cell(item="bao/lemma", settings={"seeds": 5}, result={}, run=facts))
    assert "seeds 0 to 4, CPU, 2026-01-01, 3.5 s" in words


def test_section_comes_out_of_a_fresh_run(tmp_path: Path) -> None:
    run(papers.find("bao/lemma"), tmp_path / "studies", scale="quick")
    section = Page("studies", results=tmp_path).section("bao/lemma")
    assert section.startswith("## Lemma 1 and Corollary 1\n\n`privaware reproduce bao/lemma`: measured at commit")
    assert "| 1 | 3.731 | 4.845 |" in section
