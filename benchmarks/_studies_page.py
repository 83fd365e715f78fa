"""docs/results/studies.md and the studies' part of docs/results/search.md from the results of the cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from privaware.report import _charts
from privaware.workflow._curves import Point, lines

HEAD = """# Studies: why simple models win under noise

Everything here is an evaluation on public benchmark rows: a sweep trains many models on the same rows and looks at
test scores, and none of it is a private release. On private rows the same studies charge every training (`privaware
crossover`, `privaware.studies`).

Numbers are means ± spread (standard deviation) over the seeds told, accuracies in per cent; intervals in plots are
95% t-intervals, crossovers come with an interval from paired repeats. Published values stand beside ours; those of
Table I are the best of three runs or more by test accuracy, so the best of ours is given too. Learning rates are
chosen on validation rows with models of a seed of their own (100), never on the test rows that are told. Epsilon
is counted as the paper concerned does: Bao et al. by the improved Renyi conversion, Tramer and Boneh by the classic
one. Schedules are shorter than the papers', with the noise that gives equal epsilon, and are stated in each table.
CNNs see pixels moved and scaled by fixed numbers (0.5 and 0.25 for photographs, 0.13 and 0.31 for MNIST), FCNs exact
principal components of the training rows where the paper has them. A run marked `--quick` has fewer places and epochs
and three seeds; it shows the way, not the number. On a GPU products are computed in tf32, where rows are clipped at
511/512 of the norm because it rounds; scores are taken in full single precision.

One command runs what is missing, resumable, by weight: `python -m benchmarks.studies run --device cuda`; `list` instead
of `run` tells what is done and about how long the rest takes; `page` writes this page and the list in `search.md`.
"""

GLANCE = """## Table I at a glance

The published numbers are the best of three runs or more, picked by test accuracy; ours are means over seeds, and the
best run stands beside them. The networks are the paper's: those its standard workflow found without noise (STW) and
those its privacy-aware one found with it (PAW).
"""

VALUES = ("DP-SGD", "ours", "with noise", "accuracy")
BEGIN, END = "<!-- studies: written by benchmarks.studies page -->", "<!-- end of studies -->"


def write(titles: dict[str, str], folder: Path) -> None:
    """One section a cell, in their order; what has no result is said to have none."""
    made = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in titles if (folder / f"{name}.json").exists()
    }
    parts = [HEAD, glance(made)]
    parts += [section(titles[name], one, folder) for name, one in made.items()]
    missing = [f"* {title} (`{name}`)" for name, title in titles.items() if name not in made]
    if missing:
        parts.append("## Not run yet\n\n" + "\n".join(missing) + "\n")
    page = folder.parent / "studies.md"
    page.write_text("\n".join(parts))
    print(page)
    linked(titles, made, folder.parent / "search.md")


def glance(made: dict[str, dict[str, Any]]) -> str:
    """The seven parts of Table I together."""
    head = ["network", "data", "workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run", "published", "run"]
    rows = [head, ["---"] * len(head)]
    for kind, name in [("FCN", n) for n in ("mnist", "fashion_mnist", "svhn", "cifar10")] + [
        ("CNN", n) for n in ("mnist", "svhn", "cifar10")
    ]:
        one = made.get(f"table1_{kind.lower()}_{name}")
        if one is None:
            rows.append([kind, name, *[""] * 6, "not run"])
            continue
        rows += [[kind, name, *row, extent(one)] for row in one["tables"][0]["rows"]]
    return GLANCE + "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def extent(made: dict[str, Any]) -> str:
    """How much of a cell was run."""
    if made["quick"]:
        return f"short, seeds {made['seeds']}"
    return f"{'in part' if made.get('partial') else 'whole'}, seeds {made['seeds']}"


def section(title: str, made: dict[str, Any], folder: Path) -> str:
    ran = f"`{made['command']}` at commit {made['commit']}, seeds {made['seeds']}"
    place = made["machine"] + (" in tf32" if made.get("precision") == "tf32" else "")
    out = [f"## {title}", f"{ran}, {place}, {made['date']}, {made['seconds']:g} s."]
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


def linked(titles: dict[str, str], made: dict[str, dict[str, Any]], page: Path) -> None:
    """One line an item between the marks of `page`, if it has them."""
    text = page.read_text() if page.exists() else ""
    if BEGIN not in text or END not in text:
        return
    items = [
        f"* [{title}](studies.md#{anchor(title)}) ({extent(made[name])}): {brief(made[name])}"
        if name in made
        else f"* {title}: not run (`python -m benchmarks.studies run --only {name} --device cuda`)."
        for name, title in titles.items()
    ]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + BEGIN + "\n" + "\n".join(items) + "\n" + END + after)
    print(page)


def anchor(title: str) -> str:
    """A heading's name in a link, as GitHub makes it.

    >>> anchor("Table I: FCN on fashion_mnist")
    'table-i-fcn-on-fashion_mnist'
    """
    return re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")


def brief(made: dict[str, Any]) -> str:
    """A cell's result in one line: the values with noise, the best place of each curve, or its own first words."""
    table = made["tables"][0]
    head, rows, words = table["head"], table["rows"], made.get("words", [])
    if head[0] in ("parameters", "learning rate"):
        return "best " + ", ".join(_best(head, rows, at) for at in range(1, len(head))) + "."
    values = [at for at, name in enumerate(head) if name in VALUES]
    if values:
        last = values[0]
        told = [f"{_label(head[:last], row[:last])} {row[last]}" for row in rows]
        published = [at for at, name in enumerate(head) if name.startswith("published")]
        if published:
            told = [f"{one} ({row[published[0]]})" for one, row in zip(told, rows)]
        return "; ".join(told) + (" (published in brackets)." if published else ".")
    best = [one for text in words for one in re.findall(r"Best with noise: [^.]*\.\d+[^.]*\.\d+", text)]
    return f"{best[0]}." if best else str(words[0] if words else table["title"])


def _label(head: list[str], row: list[str]) -> str:
    form = {"inputs": "{} inputs", "parameters": "of {}", "epsilon": "at {}", "rate": "at {}"}
    kept = [form.get(name, "{}").format(value) for name, value in zip(head, row)]
    return " ".join(kept)


def _best(head: list[str], rows: list[list[str]], at: int) -> str:
    row = max((row for row in rows if row[at]), key=lambda row: float(row[at].split()[0]))
    return f"{head[at]} {row[at]} at {row[0]}"
