"""docs/results/studies.md from the results of the cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privaware.report import _charts
from privaware.study._result import Point, lines

HEAD = """# Studies: why simple models win under noise

Everything here is an evaluation on public benchmark rows: a sweep trains many models on the same rows and looks at
test scores, and none of it is a private release. On private rows the same studies charge every training (`privaware
crossover`, `privaware.study`).

Numbers are means ± spread (standard deviation) over the seeds told, accuracies in per cent; intervals in plots are
95% t-intervals, crossovers come with an interval from paired repeats. Published values stand beside ours; those of
Table I are the best of three runs or more by test accuracy, so the best of ours is given too. Learning rates are
chosen on validation rows with models of their own seeds (100 and up), never on the test rows that are told. Epsilon
is counted as the paper concerned does: Bao et al. by the improved Renyi conversion, Tramer and Boneh by the classic
one. Schedules are shorter than the papers', with the noise that gives equal epsilon, and are stated in each table. A
run marked `--quick` has fewer places and epochs and three seeds; it shows the way, not the number.

One command runs what is missing, resumable, cheapest first: `python -m benchmarks.studies run --device cuda`; the
page is written by `python -m benchmarks.studies page`.
"""


def write(titles: dict[str, str], folder: Path) -> None:
    """One section a cell, in their order; what has no result is said to have none."""
    parts, missing = [HEAD], []
    for name, title in titles.items():
        place = folder / f"{name}.json"
        if place.exists():
            parts.append(section(title, json.loads(place.read_text()), folder))
        else:
            missing.append(f"* {title} (`{name}`)")
    if missing:
        parts.append("## Not run yet\n\n" + "\n".join(missing) + "\n")
    page = folder.parent / "studies.md"
    page.write_text("\n".join(parts))
    print(page)


def section(title: str, made: dict[str, Any], folder: Path) -> str:
    ran = f"`{made['command']}` at commit {made['commit']}, seeds {made['seeds']}"
    out = [f"## {title}", f"{ran}, {made['machine']}, {made['date']}, {made['seconds']:g} s."]
    for one in made.get("tables", []):
        rows = [one["head"], ["---"] * len(one["head"]), *one["rows"]]
        out.append(f"{one['title']}:\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    for one in made.get("charts", []):
        points = [Point(**{**p, "scores": tuple(p["scores"])}) for p in one["points"]]
        how = {key: one[key] for key in ("x", "y", "log") if key in one}
        _charts.save(lines(points, **how), folder / f"{one['name']}.svg")
        out.append(f"![{title}](studies/{one['name']}.svg)")
    out += made.get("words", [])
    return "\n\n".join(out) + "\n"
