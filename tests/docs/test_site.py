"""The site: every page is reachable, every link leads somewhere, and the build has no warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import _generate
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
WRITTEN = sorted(path for path in DOCS.rglob("*.md") if not {"generated", "_build"} & set(path.parts))


def dead_links(page: str, folder: Path) -> list[str]:
    """Relative links of a page that lead nowhere before the site is built, such as links to generated pages."""
    targets = LINK.findall(re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    return [target for target in targets if "generated/" in target or not (folder / target).exists()]


@pytest.mark.parametrize("path", [ROOT / "README.md", *WRITTEN], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert dead_links(path.read_text(encoding="utf-8"), path.parent) == []


def test_dead_link_is_detected() -> None:
    assert dead_links("[a](nowhere.md) [b](index.md) [c](generated/cli.md)", DOCS) == ["nowhere.md", "generated/cli.md"]


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^[\w/*]+$", index, re.MULTILINE))
    for path in WRITTEN:
        name = str(path.relative_to(DOCS).with_suffix(""))
        assert name == "index" or name in listed or f"{path.parent.name}/*" in listed, name
    generated = {f"generated/{name}" for name in (*_generate.KINDS, "cli", "policy", "python", "gallery")}
    assert generated <= listed


def test_map_of_the_house_names_what_is_there() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "house.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    product, research = folders("privaware"), {f"research/{name}" for name in folders("research")}
    places = {name: ROOT if name in research else ROOT / "privaware" for name in named}
    assert {name for name, place in places.items() if not (place / name).exists()} == set()
    assert (product | research) - named == set()


def folders(package: str) -> set[str]:
    """The public folders of a package."""
    return {f"{path.name}/" for path in (ROOT / package).iterdir() if path.is_dir() and path.name[0] != "_"}


def test_picture_of_the_readme_is_small_and_there() -> None:
    picture = DOCS / "report.png"
    assert "docs/report.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    if find_spec("sphinx") is None or find_spec("myst_nb") is None or find_spec("furo") is None:
        pytest.skip("Sphinx, furo and myst-nb are not installed: pip install '.[docs]'")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        "-d",
        str(tmp_path / "trees"),
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon" in (tmp_path / "tutorials" / "data_owner.html").read_text(encoding="utf-8")
