"""The page loads nothing and runs nothing, and `write` replaces no file but its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from privaware import report
from privaware.errors import WrongInput
from tests.report.pages import Reader, card_entries, page


@pytest.fixture(scope="module")
def plain() -> str:
    return page(card_entries())


def fetches(page: str) -> list[str]:
    return re.findall(r"""(?i)\b(?:src|href|srcset|action|data)\s*=|url\(|@import|https?:|//\w""", page)


def test_page_fetches_nothing_and_runs_no_script(plain: str) -> None:
    assert fetches(plain) == []
    assert not Reader(plain).tags & {"script", "link", "iframe", "object", "embed", "img", "image"}
    assert "default-src 'none'" in plain


def test_long_values_are_cut_and_say_where_the_rest_is() -> None:
    entries = card_entries()
    entries["features"] = [{"name": "weighed", "letters": "abc" * 4_000}]
    text = page(entries)
    assert "abc" * 20 not in text
    assert "11960 more characters in model.json" in text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.json").write_text(json.dumps(card_entries()))
    return model


def test_write_adds_a_missing_report_and_keeps_one_that_is_there(folder: Path) -> None:
    """The ledger binds the report of a folder, so that another page there would make the model invalid."""
    path = folder / "report.html"
    path.write_text("old")
    with pytest.raises(WrongInput, match="exists with other content"):
        report.write(folder)
    assert path.read_text() == "old"
    path.unlink()
    for _ in range(2):
        assert report.write(folder) == path
        assert path.read_text(encoding="utf-8") == page(card_entries())
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", "report.html"]


def test_write_overwrites_no_other_file_unless_asked(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "report.html"
    other.write_text("mine")
    with pytest.raises(WrongInput, match="exists already"):
        report.write(folder, other)
    assert other.read_text() == "mine"
    assert report.write(folder, other, overwrite=True) == other
    assert "</html>" in other.read_text(encoding="utf-8")


def test_write_does_not_follow_a_link_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.html"
    victim.write_text("mine")
    (folder / "report.html").symlink_to(victim)
    with pytest.raises(WrongInput, match="exists already"):
        report.write(folder, victim)
    report.write(folder, overwrite=True)
    assert victim.read_text() == "mine"


def test_write_never_replaces_the_model(folder: Path) -> None:
    before = (folder / "model.json").read_bytes()
    with pytest.raises(WrongInput, match=r"ending in \.html"):
        report.write(folder, folder / "model.json", overwrite=True)
    assert (folder / "model.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"format": 2}', b"9" * 5000])
def test_damaged_model_json_is_one_sentence_and_writes_nothing(folder: Path, content: bytes) -> None:
    (folder / "model.json").write_bytes(content)
    with pytest.raises(WrongInput) as caught:
        report.write(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert not (folder / "report.html").exists()


def test_missing_model_or_missing_target_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"model\.json"):
        report.write(tmp_path)
    with pytest.raises(WrongInput, match="cannot write the report"):
        report.write(folder, tmp_path / "nowhere" / "report.html")
