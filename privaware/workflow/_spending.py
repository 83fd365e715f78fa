"""A chart of the budget spent on a data set after each charge: the sum of all epsilons, and their composition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privaware._files import atomic_write
from privaware._rounded import number
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.report import _charts

FORMATS = (".svg", ".png", ".pdf", ".html")
COMPOSED = "composed"
"""Label of the epsilon of the composition of all releases."""

ADDED = "added up"
"""Label of the sum of the epsilons of all releases."""


def plot_spending(ledger: Ledger, path: Path) -> Path:
    """Write the chart of `ledger` to the new file `path`, in the format of its suffix, and return `path`.

    Raise `WrongInput` for a suffix that is not in `FORMATS`, for an existing file, and for a ledger without charges.
    """
    if path.suffix.lower() not in FORMATS:
        raise WrongInput(f"expected the plot as a file that ends in {', '.join(FORMATS)}, got {path.name!r:.80}")
    if path.exists():
        raise WrongInput(f"{str(path)!r:.120} exists and is not overwritten; choose another file for the plot")
    if not ledger.history():
        raise WrongInput("expected a ledger with charges to plot, got one without any")
    chart = spending_chart(ledger)
    if path.suffix.lower() != ".html":
        _charts.save(chart, path)
        return path
    try:
        atomic_write(path, chart.to_html(inline=True).encode())
    except OSError as problem:
        raise WrongInput(f"cannot write {str(path)!r:.120}: {problem.strerror or problem}") from None
    return path


def spending_chart(ledger: Ledger) -> Any:
    """Return an Altair chart of the epsilon spent by number of charges, composed and added up, with the limit."""
    import altair as alt

    alone = {entry["number"]: entry["epsilon"] for entry in ledger.json()["events"]}
    nothing = {"charge": 0, "what": "created", "epsilon": 0.0}
    points: list[dict[str, Any]] = [{**nothing, "way": way} for way in (ADDED, COMPOSED)]
    added = 0.0
    for count, (entry, composed) in enumerate(ledger.history(), 1):
        added += alone[entry.number]
        facts = {"charge": count, "what": entry.what, "time": entry.time}
        points += [{**facts, "way": ADDED, "epsilon": added}, {**facts, "way": COMPOSED, "epsilon": composed}]
    last = points[-1]["charge"]
    ticks = list(range(0, last + 1, 1 + last // 10))
    scale = alt.Scale(domain=[COMPOSED, ADDED], range=[_charts.ORANGE, _charts.GREY])
    dash = alt.Scale(domain=[COMPOSED, ADDED], range=[[1, 0], [5, 4]])
    legend = alt.Legend(title=None, orient="top", symbolType="stroke")
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("charge:Q", title="charges", axis=alt.Axis(values=ticks, format="d")),
        y=alt.Y("epsilon:Q", title=f"epsilon spent, at delta {number(ledger.delta)}", scale=alt.Scale(domainMin=0)),
        color=alt.Color("way:N", scale=scale, legend=legend),
        tooltip=["what:N", "time:N", "way:N", alt.Tooltip("epsilon:Q", format=".4g")],
    )
    lines = base.mark_line(strokeWidth=3).encode(strokeDash=alt.StrokeDash("way:N", scale=dash, legend=legend))
    limit = alt.Chart(alt.InlineData(values=[{"limit": ledger.limit}])).mark_rule(strokeWidth=2)
    chart = lines + base.mark_point(size=50, filled=True, opacity=1) + limit.encode(y="limit:Q", tooltip=["limit:Q"])
    title = f"{ledger.path.name}: limit epsilon {number(ledger.limit)}"
    sized = chart.properties(width=_charts.WIDTH, height=260, title=title)
    return sized.configure(font="sans-serif", background="white")
