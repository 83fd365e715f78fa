"""The attack-risk curve is the exact bound, and charts are saved by suffix."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from privaware import report
from privaware.errors import WrongInput
from privaware.events import Gaussian, Unproven, to_json
from privaware.report._charts import HEIGHT, WIDTH
from tests.report.pages import card_entries, page


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_attack_power_is_the_bound_of_kairouz_et_al(epsilon: float, delta: float) -> None:
    for step in range(1001):
        fpr = step / 1000
        one = math.exp(epsilon) * fpr + delta
        other = 1 - math.exp(-epsilon) * (1 - delta - fpr)
        assert report.power(epsilon, delta, fpr) == pytest.approx(min(one, other, 1), abs=1e-12)


def test_attack_power_at_zero_and_infinite_epsilon() -> None:
    assert report.power(0.0, 0.0, 0.3) == pytest.approx(0.3)
    assert report.power(math.inf, 0.0, 0.0) == 1.0
    assert report.power(1e6, 1e-5, 0.0) == 1e-5  # still never certain without a false alarm


@given(st.floats(0, 20), st.floats(0, 0.5), st.floats(0, 1))
def test_attack_power_is_attained_by_randomised_response(eps: float, delta: float, fpr: float) -> None:
    # The extreme (epsilon, delta) mechanism: its exact Neyman-Pearson curve by linear interpolation.
    lie = (1 - delta) / (1 + math.exp(eps))
    corners = [(0.0, delta), (lie, 1 - lie), (1 - delta, 1.0), (1.0, 1.0)]
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        if x0 <= fpr <= x1 and x1 > x0:
            exact = y0 + (y1 - y0) * (fpr - x0) / (x1 - x0)
            assert report.power(eps, delta, fpr) == pytest.approx(exact, rel=1e-9, abs=1e-12)
            break


def drawn_points(page: str) -> list[tuple[float, float]]:
    """The logarithms of the points of the attacker's line, read back from the drawing."""
    path = re.search(r'aria-label="[^"]*best possible attacker[^"]*"[^>]*\bd="M([^"]*)"', page)
    path = path or re.search(r'\bd="M([^"]*)"[^>]*stroke="#d07a2d"', page)
    assert path
    points = [tuple(map(float, point.split(","))) for point in path[1].split("L")]
    return [(4 * x / WIDTH - 4, -4 * y / HEIGHT) for x, y in points]


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0])
def test_risk_curve_without_trade_off_is_the_bound(epsilon: float) -> None:
    entries = card_entries()
    entries["guarantee"]["epsilon"] = epsilon
    entries["events"] = [{"what": "train", "event": to_json(Unproven(reason="none")), "epsilon": None}]
    across, up = zip(*drawn_points(page(entries).rpartition("<svg")[2]))
    for fpr in np.geomspace(1.1e-4, 0.99, 50):
        bound = math.log10(report.power(epsilon, 1e-5, fpr))
        assert np.interp(math.log10(fpr), across, up) == pytest.approx(bound, abs=0.03)


def test_drawn_risk_curve_is_the_trade_off_of_the_events() -> None:
    """One Gaussian: its exact trade-off, well below the bound of its epsilon and delta alone."""
    entries = card_entries()
    entries["events"] = [{"what": "train", "event": to_json(Gaussian(noise=3.73)), "epsilon": 1.0}]
    across, up = zip(*drawn_points(page(entries).rpartition("<svg")[2]))
    for fpr in np.geomspace(1e-3, 0.5, 20):
        exact = norm.cdf(norm.ppf(fpr) + 1 / 3.73)
        assert np.interp(math.log10(fpr), across, up) == pytest.approx(math.log10(exact), abs=0.02)
    assert 10 ** np.interp(-1.0, across, up) < 0.8 * report.power(1.0, 1e-5, 0.1)


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_plot_saves_by_suffix(tmp_path: Path, suffix: str, magic: bytes) -> None:
    import altair as alt

    chart = alt.Chart(alt.InlineData(values=[{"a": 1, "b": 2}])).mark_point().encode(x="a:Q", y="b:Q")
    path = report.plot(chart, tmp_path / f"plot.{suffix}")
    assert path.read_bytes().startswith(magic)


def test_plot_refuses_other_suffixes_and_missing_folders(tmp_path: Path) -> None:
    import altair as alt

    chart = alt.Chart(alt.InlineData(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    with pytest.raises(WrongInput, match=r"\.png, \.svg or \.pdf"):
        report.plot(chart, tmp_path / "plot.gif")
    with pytest.raises(WrongInput, match="cannot write the plot"):
        report.plot(chart, tmp_path / "nowhere" / "plot.svg")
