# ruff: noqa: E501 (lines of the page that is written)
"""docs/results/features.md and its plots, from the numbers that `benchmarks.features` stored."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from privaware.report import plot

METHODS = ("All", "PAFS", "CFS-Greedy", "CFS-GA", "Random")
X = {
    0.01: (50.11, 49.99, 50.30, 50.44, 49.84), 0.1: (50.98, 52.09, 51.27, 51.72, 51.71),
    0.5: (53.75, 54.92, 54.05, 54.49, 53.34), 1: (53.85, 55.12, 55.20, 55.38, 54.23),
    1.5: (55.34, 55.78, 55.63, 55.82, 55.35), 2: (55.43, 56.84, 56.21, 56.47, 55.67),
    5: (56.74, 64.21, 60.23, 62.34, 59.30), 10: (61.78, 68.75, 67.09, 67.41, 66.87),
    20: (68.13, 71.00, 70.36, 69.53, 70.12), 25: (69.59, 73.48, 70.59, 69.74, 70.61),
    30: (70.75, 71.52, 70.62, 69.85, 70.67), 35: (71.45, 71.72, 70.70, 69.92, 70.66),
    40: (72.11, 73.60, 70.71, 69.94, 70.57),
}  # fmt: skip
XVI = {0.1: ((65.93, 5.36), (69.65, 3.33)), 0.05: ((65.5, 4.73), (66.13, 4.48)),
       0.01: ((64.33, 4.47), (59.03, 9.81)), 0.001: ((57.86, 16.64), (50.98, 16.06)),
       0.0001: ((50.58, 23.98), (50.07, 17.26)), 1e9: ((84.44, 0), (84.85, 0))}  # fmt: skip
DESCENT: dict[str, dict[Any, dict[int, float]]] = {
    "breast": {
        0.236: {2: 67.37, 10: 65.26, 20: 68.42, 30: 66.31, 40: 66.26, 43: 66.32},
        0.014: {2: 65.26, 10: 64.21, 20: 60.00, 30: 62.11, 40: 59.35, 43: 59.48},
        None: {2: 65.26, 10: 69.47, 20: 72.63, 30: 71.58, 40: 73.68, 43: 73.68},
    },
    "adult": {
        0.0196: {2: 75.90, 28: 80.75, 48: 80.81, 68: 79.24, 88: 78.83, 108: 77.76},
        0.00817: {2: 76.25, 28: 77.10, 48: 77.02, 68: 78.59, 88: 74.44, 108: 71.10},
        None: {2: 75.91, 28: 81.81, 48: 83.33, 68: 85.30, 88: 84.91, 108: 85.21},
    },
}  # fmt: skip


def write(store: Path) -> None:
    """The page, with whatever pieces there are; what is missing is said."""
    pieces = {path.stem: json.loads(path.read_text()) for path in sorted(store.glob("*.json"))}
    lines = _head(pieces)
    for name, make in (
        ("breast", _breast),
        ("charged", _charged),
        ("adult", _adult),
        ("descent", _descent),
    ):
        lines += make(pieces[name], store) if name in pieces else [f"Not run yet: `{name}`.", ""]
    (store.parent / "features.md").write_text("\n".join(lines))


def _head(pieces: dict[str, Any]) -> list[str]:
    runs = "; ".join(
        f"`python -m benchmarks.features {name}` at commit {facts['run']['commit']}, {facts['run']['repeats']} "
        f"repeats, {facts['run']['device']}, {facts['run']['date']}"
        for name, facts in pieces.items()
    )
    return [
        "# Choosing columns under a budget", "",
        f"Commands: {runs}. Seeds are in the code. Machine of the processor runs: 2 cores, {platform.machine()}.", "",
        "Numbers are test accuracies in per cent, mean ± spread over repeats, with the published value in "
        "brackets. The data are public benchmarks; test rows were looked at freely, and none of this is a release.", "",
        "Column lists. Breast Cancer: the 43 categories that occur among its 286 rows, \"?\" among them. Adult: the 102 "
        "categories that occur in the training file, \"?\" among them, and the six numbers, `fnlwgt` among them, "
        "scaled to [0, 1] by public bounds: 108. The paper's \"seven\" columns without one-hot cannot be rebuilt: without "
        "`fnlwgt` and with `sex` there are six, which is what we took. Splits have the paper's sizes (191 and 95; 22,750 "
        "and 9,750) by a fixed public order, not the paper's own, which is not published.", "",
        "Models: objective perturbation as Chaudhuri et al. published it (pure, one row replaced, ridge 1 as the "
        "library that the paper used has by default), with the row norm entering squared, the constant column "
        "counted and exact minimisers; the norm is the root of the number of attributes plus one, never read off the rows.", "",
    ]  # fmt: skip


def _timing(facts: dict[str, Any], store: Path) -> list[str]:
    lines = ["## Seconds on Breast Cancer (191 rows, 43 columns), in process", "",
             "Best of three, while other work ran on the machine: the processor's seconds are what a quiet one would take. "
             "The paper reports 3.8 s, 57.6 s and about 9 hours for CFS-Greedy, CFS-GA and PAFS.", "",
             "| selector | processor seconds | wall seconds | asked |", "|---|---|---|---|"]  # fmt: skip
    asked = {"cfs_greedy": "0.1", "cfs_ga, 5,000 x 10": "1", "pafs, 600 x 10": "10"}
    for name, row in facts.items():
        if name != "run":
            lines.append(
                f"| {name} | {row['processor']:.3f} | {row['wall']:.3f} | {asked.get(name, '')} |"
            )
    return [*lines, ""]


def _breast(facts: dict[str, Any], store: Path) -> list[str]:
    known = facts["facts"]
    lines = ["## Table X: Breast Cancer, the choice itself not charged", "",
             f"As in the paper the choice of columns is not charged here: CFS on exact uncertainties (CFS-GA keeps "
             f"{len(known['cfs_ga'])} columns: {', '.join(known['cfs_ga'])}; CFS-Greedy and Random as many), and PAFS with 600 x 10 "
             "private models scored on the test rows, three searches for each epsilon. A constant gets "
             f"{100 * known['constant']:.2f} on these test rows.", "",
             f"| epsilon | {' | '.join(METHODS)} | PAFS seconds | PAFS sizes |", "|---|" + "---|" * 7]  # fmt: skip
    for epsilon, published in X.items():
        row = facts.get(f"X {epsilon:g}")
        if row is None:
            lines.append(f"| {epsilon:g} | not run yet |")
            continue
        cells = [
            f"{_shown(row[name])} ({value:.2f})"
            for name, value in zip(METHODS, published, strict=True)
        ]
        lines.append(
            f"| {epsilon:g} | {' | '.join(cells)} | {row['PAFS seconds']:.1f} | {_joined(row['PAFS sizes'])} |"
        )
    if none := facts.get("X 1e+09"):
        lines.append(f"| none | {' | '.join(_shown(none[name]) for name in METHODS)} | | |")
    figure = _figure(facts, "4", 43, store)
    return [*lines, "", *_claims_x(facts), *figure, *_claims_4(facts), *_crossing(facts)]


def _claims_4(facts: dict[str, Any]) -> list[str]:
    names, order = facts["facts"]["names"], facts["facts"]["order"]
    first = [names[at] for at in order[:3]]
    return [
        f"The greedy order begins with {', '.join(first)}. The paper says: up to epsilon 1 the single best column is best, at 5 "
        "it is eleven columns, and without privacy all of them. On our split none of the three holds: the best size in the table "
        "is the same small one at every epsilon, with and without privacy, and one column alone is below the constant. One of the "
        "95 test rows is 1.05 points, so which size is best is a matter of the split; that few columns beat all of them at every "
        "budget is not.", "",
        "The dips (epsilon 2 at eight columns; PAFS and Random at 2 in table X) are the published algorithm's own: where epsilon is "
        "just above 2 ln(1 + R^2 / 4) it keeps the ridge and leaves next to nothing for the noise, while a little less epsilon "
        "would raise the ridge instead. The tight analysis (next section but one) has no such step.", "",
    ]  # fmt: skip


def _claims_x(facts: dict[str, Any]) -> list[str]:
    rows = {epsilon: facts[f"X {epsilon:g}"] for epsilon in X if f"X {epsilon:g}" in facts}
    if not rows:
        return []
    best = {epsilon: max(METHODS, key=lambda name: row[name][0]) for epsilon, row in rows.items()}
    gaps = {epsilon: row["PAFS"][0] - row["All"][0] for epsilon, row in rows.items()}
    widest = max(gaps, key=lambda epsilon: gaps[epsilon])
    constant = 100 * facts["facts"]["constant"]
    ours = sum(row[name][0] < constant for row in rows.values() for name in METHODS)
    random = [epsilon for epsilon, row in rows.items() if row["Random"][0] > row["All"][0]]
    return [
        "What the paper claims of it:", "",
        f"- \"PAFS is best from epsilon 2 up\": here the best is {', '.join(f'{name} at {e:g}' for e, name in best.items())}.",
        f"- \"A gain of 11.51 points\": the largest gap between PAFS and All in the paper's own table is 7.47, at 5; here "
        f"it is {gaps[widest]:.2f}, at {widest:g}. PAFS is scored on the very test rows that it was searched on, so its "
        "numbers are flattered in both.",
        f"- Below a constant: {ours} of {5 * len(rows)} cells here are below the {constant:.2f} of a constant predictor "
        "(in the paper's table, taking its test rows to hold about as many, most are).",
        f"- \"Random beats All in many cases\": here at {', '.join(f'{e:g}' for e in random)}.", "",
    ]  # fmt: skip


def _figure(facts: dict[str, Any], figure: str, width: int, store: Path) -> list[str]:
    """Accuracy against the number of columns, best first, one line an epsilon."""
    points = []
    for key, value in facts.items():
        words = key.split()
        if words[0] != figure:
            continue
        if figure == "4":
            points += [(int(words[1]), epsilon, score) for epsilon, score in value.items()]
        else:
            points.append((int(words[1]), words[2], value))
    name, data = ("Figure 4", "Breast Cancer") if figure == "4" else ("Figure 3", "Adult")
    if not points:
        return [f"## {name}: not run yet", ""]
    plot(_chart(points), store / f"figure{figure}.svg")
    by = {epsilon: {} for _, epsilon, _ in points}  # type: dict[str, dict[int, list[float]]]
    for size, epsilon, score in points:
        by[epsilon][size] = score
    lines = [f"## {name}: {data}, best columns first (CFS-Greedy), every size that was run", "",
             f"![Accuracy against number of columns](features/figure{figure}.svg)", "",
             "| epsilon | best size | accuracy there | one column | all columns |", "|---|---|---|---|---|"]  # fmt: skip
    for epsilon in sorted(by, key=float):
        line = by[epsilon]
        top = max(line, key=lambda size: line[size][0])
        whole = _shown(line[width]) if width in line else "not run yet"
        shown = "none (1e9)" if float(epsilon) >= 1e9 else epsilon
        lines.append(f"| {shown} | {top} | {_shown(line[top])} | {_shown(line[1])} | {whole} |")
    return [*lines, ""]


def _chart(points: list[tuple[int, str, list[float]]]) -> Any:
    import altair as alt

    values = [
        {"columns": size, "epsilon": "none" if float(e) >= 1e9 else f"{float(e):g}", "accuracy": score[0],
         "low": score[0] - score[1], "high": score[0] + score[1]}
        for size, e, score in points
    ]  # fmt: skip
    order = sorted(
        {v["epsilon"] for v in values}, key=lambda e: float("inf") if e == "none" else float(e)
    )
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("columns:Q", title="columns, best first"),
        color=alt.Color(
            "epsilon:N",
            sort=order,
            scale=alt.Scale(scheme="viridis"),
            legend=alt.Legend(symbolOpacity=1, symbolType="stroke"),
        ),
    )
    y = alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.05).encode(y=alt.Y("low:Q"), y2="high:Q")
    return (band + base.mark_line(strokeWidth=2).encode(y=y)).properties(width=520, height=340)


def _crossing(facts: dict[str, Any]) -> list[str]:
    pairs = {}
    for key, value in facts.items():
        if key.startswith("crossing"):
            _, epsilon, size = key.split()
            pairs.setdefault(float(epsilon), {})[int(size)] = next(iter(value.values()))
    if not pairs:
        return []
    lines = ["## Where all 43 columns overtake the best one (paper: between 60 and 70)", "",
             "| epsilon | one column | all columns |", "|---|---|---|"]  # fmt: skip
    for epsilon, pair in sorted(pairs.items()):
        if len(pair) == 2:
            lines.append(f"| {epsilon:g} | {_shown(pair[1])} | {_shown(pair[43])} |")
    wins = [e for e, pair in sorted(pairs.items()) if len(pair) == 2 and pair[1][0] > pair[43][0]]
    said = (
        f"One column wins up to epsilon {max(wins):g} of those tried."
        if wins
        else "One column never wins."
    )
    return [*lines, "", said, ""]


def _charged(facts: dict[str, Any], store: Path) -> list[str]:
    lines = ["## Breast Cancer with the choice charged", "",
             "Half of epsilon (delta 1e-5) chooses columns, half trains; one row added or removed, the tight analysis of "
             "`privaware.learn.objective`; `all` has the whole epsilon for training. This is what can be released.", "",
             "| epsilon | selector | accuracy | mean size | choices made | seconds a choice |", "|---|---|---|---|---|---|"]  # fmt: skip
    for key, row in facts.items():
        if key.startswith("charged"):
            _, epsilon, name = key.split(" ", 2)
            each = row["seconds"] / row["choices"]
            lines.append(f"| {epsilon} | {name} | {_shown(row['score'])} | {row['size']:.1f} | {row['choices']} | {each:.2f} |")  # fmt: skip
    return [*lines, ""]


def _adult(facts: dict[str, Any], store: Path) -> list[str]:
    lines = ["## Table XVI: Adult, one-hot or drop", "",
             f"{facts['run']['repeats']} repeats. A constant gets {100 * facts['facts']['constant']:.2f}.", "",
             "| epsilon | six columns, no one-hot | 108 columns, one-hot |", "|---|---|---|"]  # fmt: skip
    for epsilon, published in XVI.items():
        cells = []
        for name, (mean, spread) in zip(("without", "with"), published, strict=True):
            row = facts.get(f"XVI {epsilon:g} {name}")
            ours = _shown(row) if row else "not run yet"
            cells.append(
                f"{ours} ({mean:.2f} ± {spread:.2f})" if spread else f"{ours} ({mean:.2f})"
            )
        lines.append(f"| {'none' if epsilon == 1e9 else f'{epsilon:g}'} | {' | '.join(cells)} |")
    return [*lines, "", *_claims_xvi(facts), *_figure(facts, "3", 108, store), *_claims_3(facts)]


def _claims_xvi(facts: dict[str, Any]) -> list[str]:
    pairs = {e: [facts.get(f"XVI {e:g} {name}") for name in ("without", "with")] for e in XVI}
    done = {e: pair for e, pair in pairs.items() if all(pair) and e < 1e9}
    wins = [e for e, pair in done.items() if pair[0][0] > pair[1][0]]
    said = (
        f"Dropping wins at {', '.join(f'{e:g}' for e in sorted(wins))}"
        if wins
        else "Dropping never wins"
    )
    return [f"The paper's crossing lies between 0.01 and 0.05. {said} of those tried here: our six columns, with public "
            "scaling, do far better than the paper's seven, so the claim that one-hot pays from 0.05 on "
            f"{'fails' if 0.1 in wins else 'holds'} here.", ""]  # fmt: skip


def _claims_3(facts: dict[str, Any]) -> list[str]:
    epsilons = sorted({float(key.split()[2]) for key in facts if key.startswith("3 ")} - {1e9})
    pairs = {e: [facts.get(f"3 {size} {e:g}") for size in (6, 108)] for e in epsilons}
    done = {e: pair for e, pair in pairs.items() if all(pair)}
    if not done:
        return []
    lines = ["The best six columns against all 108 (paper: all overtake between 10 and 20; at 0.1 five columns get 78.58, all 70.86):", "",
             "| epsilon | six columns | all columns |", "|---|---|---|"]  # fmt: skip
    lines += [f"| {e:g} | {_shown(six)} | {_shown(whole)} |" for e, (six, whole) in done.items()]
    wins = [e for e, (six, whole) in done.items() if six[0] > whole[0]]
    return [
        *lines,
        "",
        f"Six columns win up to epsilon {max(wins):g} of those tried."
        if wins
        else "Six columns never win.",
        "",
    ]


def _descent(facts: dict[str, Any], store: Path) -> list[str]:
    lines = ["## Tables II and XVIII: softmax of two units by noisy gradient descent", "",
             "The captions of the two tables are swapped in the paper. 40 epochs, gradients cut to length 1, the learning rate "
             "the best of three by mean test accuracy (the paper tunes it too, on what is not said). Adult: Poisson batches of 250 "
             "expected rows. Breast Cancer: the printed batch of 250 is larger than its 191 rows, so every row is in every step, 40 "
             "steps. Noise is calibrated to the printed epsilon by the distribution accountant; the paper's 0.00817 lies below "
             "what its own accountant can return.", ""]  # fmt: skip
    for data, tables in DESCENT.items():
        for epsilon, published in tables.items():
            found = {size: facts.get(f"{data} {epsilon} {size}") for size in published}
            if not any(found.values()):
                continue
            lines += [f"{data}, epsilon {epsilon or 'none'}:", "", "| columns | accuracy (published) | lr | noise |", "|---|---|---|---|"]  # fmt: skip
            for size, value in published.items():
                row = found[size]
                ours = (
                    f"{_shown(row['score'])} ({value:.2f}) | {row['lr']:g} | {row['noise']:.3g}"
                    if row
                    else f"not run yet ({value:.2f}) | |"
                )
                lines.append(f"| {size} | {ours} |")
            lines.append("")
    return lines


def _shown(score: list[float]) -> str:
    return f"{score[0]:.2f} ± {score[1]:.2f}"


def _joined(values: list[int]) -> str:
    return ", ".join(map(str, values))
