"""The page in a browser: it opens without a network, nothing is cut at any width, and it looks as it did.

`python -m tests.report.test_page` takes the pictures of `pictures/` anew.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from privaware.card import ModelCard
from privaware.report import page
from privaware.report._risk import AuditRecord
from privaware.schema import Column, Schema
from tests.browser import Tab, chromium, needs_chromium
from tests.report.pages import card_entries

pytestmark = needs_chromium

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = (390, 800, 1280)
LOOKS = [(width, dark) for width in WIDTHS for dark in (False, True)]
SMALL = 32
"""Pictures are kept this many pixels wide: what matters at a glance, and nothing of how letters are drawn."""

CUT = """[...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('svg') || e.closest('thead') || getComputedStyle(e).visibility === 'hidden') return false;
  const box = e.getBoundingClientRect();
  if (!box.width || !box.height) return false;
  const scrolls = e.closest('.wide, pre');
  const outside = !scrolls && (box.left < -1 || box.right > innerWidth + 1);
  const clipped = e.scrollWidth > e.clientWidth + 1 && !['visible', 'auto'].includes(getComputedStyle(e).overflowX);
  return outside || clipped;
}).map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))"""
"""Elements beyond the edge of the window, or with more inside than they show."""
CUT_LABELS = """[...document.querySelectorAll('svg')].flatMap(s => {
  const frame = s.getBoundingClientRect();
  return [...s.querySelectorAll('text')].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
        || box.bottom > frame.bottom + 1 || t.textContent.includes('\\u2026');
  }).map(t => t.textContent);
})"""
SMALLEST_LETTERS = """Math.min(...[...document.querySelectorAll('body *')].filter(e => e.childElementCount === 0
  && e.textContent.trim() && e.getBoundingClientRect().height).map(e => parseFloat(getComputedStyle(e).fontSize)
  * (e.ownerSVGElement ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1)))"""
CONTRAST = """(() => {
  const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...['body', '.soft', 'th', '.pairs dt', '.yes', '.ends', 'figcaption'].map(name => {
    const ink = light(getComputedStyle(document.querySelector(name)).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05); }));
})()"""


def rich_page() -> str:
    """A page with every part: an owner, an audit, curves, bars, and names that are longer than a telephone is wide."""
    words = "a category whose name goes on and on until it is wider than the screen of a telephone"
    columns = (
        Column(name="age", low=0, high=80, bins=(20, 40)),
        Column(name="town", kind="category", categories=("north", "east", words)),
        Column(name="income_before_taxes_and_after_everything_else_in_one_unbroken_name", low=0, high=1e6),
        Column(name="person", kind="identifier"),
    )
    entries = card_entries()
    entries["schema"] = Schema(columns=columns, target="ill", classes=("no", "yes"), rows=32561).json()
    entries["features"] = [{"name": "onehot", "bins": 0, "norm": 1.0}]
    entries["architecture"] = {"name": "linear", "inputs": 7, "outputs": 2}
    entries["events"][0]["what"] = "bounds of income_before_taxes_and_after_everything_else_in_one_unbroken_name"
    entries["description"] = {"owner": "Town hospital", "intended_use": "Screening.", "contact": "x@hospital.example"}
    entries["score"] = {
        "metric": "accuracy",
        "value": 0.87,
        "low": 0.85,
        "high": 0.89,
        "epsilon": 0.1,
        "rows": 503.0,
        "confusion": [[300.2, 20.1], [13.5, 170.0]],
    }
    audit = AuditRecord(
        attack="one_run",
        assumes="nothing",
        epsilon_lower=0.75,
        epsilon_claimed=1.0,
        delta=1e-5,
        confidence=0.95,
        refuted=False,
        auc=0.61,
        roc=((0.01, 0.012), (0.1, 0.13), (1.0, 1.0)),
    )
    weights = np.array([[0.0] * 7, [1.0, -0.5, 0.2, 1.5, -1.0, 0.3, 0.8]], dtype=np.float32)
    tensors = {"output.weight": weights, "output.bias": np.zeros(2, np.float32)}
    return page(ModelCard.from_json(entries), audit, tensors)


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(rich_page(), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_page_opens_alone_and_nothing_is_cut(tab: Tab, path: Path, width: int, dark: bool) -> None:
    tab.show(path, width=width, dark=dark)
    assert tab.requests == [path.as_uri()]
    assert tab.problems == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(CUT) == []
    assert tab.run(CUT_LABELS) == []
    assert tab.run(SMALLEST_LETTERS) >= 10.5
    assert tab.run(CONTRAST) >= 4.5
    assert tab.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)"
    )


def test_charts_are_drawn(tab: Tab, path: Path) -> None:
    tab.show(path)
    boxes = "[...document.querySelectorAll('{}')].map(e => e.getBoundingClientRect()).map(b => [b.width, b.height])"
    curves = tab.run(boxes.format(".small polyline"))
    assert len(curves) == 2
    assert min(size for box in curves for size in box) > 10
    lines = tab.run(boxes.format('figure svg path[stroke="#d07a2d"], figure svg path[stroke="#3f7fc1"]'))
    assert len([box for box in lines if min(box) > 50]) == 2  # the best attacker and the audit
    bars = tab.run(boxes.format(".fill"))
    assert len(bars) == 6
    assert min(width for width, _ in bars) > 0.3


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("document.querySelector('h1').style.width = '2000px'", CUT),
        ("document.querySelector('h1').style.cssText = 'width: 20px; overflow: hidden; white-space: nowrap'", CUT),
        ("document.querySelector('svg text').setAttribute('x', 900)", CUT_LABELS),
    ],
    ids=["too wide", "clipped", "label outside its chart"],
)
def test_planted_fault_is_noticed(tab: Tab, path: Path, fault: str, check: str) -> None:
    tab.show(path)
    assert tab.run(check) == []
    tab.run(fault)
    assert tab.run(check) != []


def test_planted_request_and_planted_script_are_noticed(tab: Tab, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.html"
    wrong.write_text("<img src='nowhere.png'><script>nonsense()</script>")
    tab.show(wrong)
    assert [Path(address).name for address in tab.requests] == ["wrong.html", "nowhere.png"]
    assert any("nonsense" in problem for problem in tab.problems)


def test_page_prints_in_ink_on_paper_with_nothing_folded_away(tab: Tab, path: Path) -> None:
    tab.show(path, width=640, dark=True)
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run(CUT) == []
    pdf = base64.b64decode(tab.call("Page.printToPDF", printBackground=False)["data"])
    assert pdf.startswith(b"%PDF")
    tab.call("Emulation.setEmulatedMedia", media="")


def small_picture(tab: Tab, path: Path, width: int, dark: bool) -> np.ndarray:
    """The whole page, a few pixels wide."""
    from PIL import Image

    tab.show(path, width=width, dark=dark)
    grey = Image.fromarray((255 * tab.picture()).astype(np.uint8))
    return np.asarray(grey.resize((SMALL, round(SMALL * grey.height / grey.width)), Image.Resampling.BOX)) / 255.0


def fonts(tab: Tab) -> list[float]:
    """How wide letters are here, by which other fonts are known."""
    measure = "(f => { const c = document.createElement('canvas').getContext('2d'); c.font = f; return c.measureText"
    return [
        tab.run(f"{measure}('Adding or removing any').width; }})('{font}')")
        for font in ("16px system-ui", "600 20px system-ui", "14px monospace")
    ]


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The mean difference of two pictures in the largest block, after the other is brought to the height of the one."""
    from PIL import Image

    if abs(one.shape[0] / other.shape[0] - 1) > 0.02:
        return 1.0
    there = Image.fromarray((255 * other).astype(np.uint8)).resize(one.shape[::-1], Image.Resampling.BILINEAR)
    difference = np.abs(one - np.asarray(there) / 255.0)
    blocks = [difference[at : at + 16].mean() for at in range(0, len(difference), 16)]
    return float(max(blocks))


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_page_looks_as_it_did(tab: Tab, path: Path, width: int, dark: bool) -> None:
    from PIL import Image

    tab.show(path)
    known = json.loads((PICTURES / "fonts.json").read_text())
    if fonts(tab) != pytest.approx(known, rel=0.01):
        pytest.skip("this machine has other fonts than the one that took the pictures")
    stored = np.asarray(Image.open(PICTURES / f"{'dark' if dark else 'light'}-{width}.png")) / 255.0
    seen = small_picture(tab, path, width, dark)
    assert apart(seen, stored) < 0.02
    assert apart(1 - seen, stored) > 0.1
    assert apart(np.roll(seen, 20, axis=0), stored) > 0.02


def take_pictures() -> None:
    from tempfile import TemporaryDirectory

    from PIL import Image

    with TemporaryDirectory() as folder, chromium() as tab:
        path = Path(folder) / "report.html"
        path.write_text(rich_page(), encoding="utf-8")
        tab.show(path)
        (PICTURES / "fonts.json").write_text(json.dumps(fonts(tab)) + "\n")
        for width, dark in LOOKS:
            grey = Image.fromarray((255 * small_picture(tab, path, width, dark)).astype(np.uint8))
            grey.save(PICTURES / f"{'dark' if dark else 'light'}-{width}.png", optimize=True)


if __name__ == "__main__":
    take_pictures()
