# ruff: noqa: E501 (lines of the page that is written)
"""docs/results/features.md and its plots, from the numbers that `benchmarks.features` and its neighbours stored."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._features_page_more import adult, best_sizes, descent, shown, svhn, transfer
from benchmarks._features_plots import by_epsilon, by_size, crossing, last_win, told

METHODS = ("All", "PAFS", "CFS-Greedy", "CFS-GA", "Random")
X = {
    0.01: (50.11, 49.99, 50.30, 50.44, 49.84),
    0.1: (50.98, 52.09, 51.27, 51.72, 51.71),
    0.5: (53.75, 54.92, 54.05, 54.49, 53.34),
    1: (53.85, 55.12, 55.20, 55.38, 54.23),
    1.5: (55.34, 55.78, 55.63, 55.82, 55.35),
    2: (55.43, 56.84, 56.21, 56.47, 55.67),
    5: (56.74, 64.21, 60.23, 62.34, 59.30),
    10: (61.78, 68.75, 67.09, 67.41, 66.87),
    20: (68.13, 71.00, 70.36, 69.53, 70.12),
    25: (69.59, 73.48, 70.59, 69.74, 70.61),
    30: (70.75, 71.52, 70.62, 69.85, 70.67),
    35: (71.45, 71.72, 70.70, 69.92, 70.66),
    40: (72.11, 73.60, 70.71, 69.94, 70.57),
}


def write(store: Path) -> None:
    """The page, with whatever pieces there are; what is missing is said."""
    pieces = {path.stem: json.loads(path.read_text()) for path in sorted(store.glob("*.json"))}
    lines = _head(pieces)
    sections: dict[str, Any] = {
        "breast": lambda facts, store: _breast(facts, pieces.get("splits", {}), store),
        "charged": _charged,
        "adult": adult,
        "descent": descent,
        "svhn": lambda facts, store: svhn(facts, pieces["svhn_noise"]),
        "transfer": transfer,
        "timing": _timing,
    }
    for name, make in sections.items():
        lines += make(pieces[name], store) if name in pieces else [f"Not run yet: `{name}`.", ""]
    (store.parent / "features.md").write_text("\n".join(lines))


COMMANDS = {"svhn": "benchmarks.svhn_pca run", "transfer": "benchmarks.transfer train"}


def _head(pieces: dict[str, Any]) -> list[str]:
    runs = [
        f"| `python -m {COMMANDS.get(name, f'benchmarks.features {name}')}` | {facts['run']['commit']} | "
        f"{facts['run']['repeats']} | {facts['run'].get('device', 'cpu')} | {facts['run']['date']} |"
        for name, facts in pieces.items()
        if "run" in facts
    ]
    return [
        "# Choosing columns under a budget",
        "",
        "| command | commit | repeats | device | date |",
        "|---|---|---|---|---|",
        *runs,
        "",
        f"Seeds are in the code. Processor: 2 cores, {platform.machine()} (Neoverse N1), shared with other work. cuda: one H200.",
        "",
        "Numbers are test accuracies in per cent, mean ± spread (standard deviation) over repeats, with the published value in "
        "brackets. The data are public benchmarks; test rows were looked at freely, and none of this is a release.",
        "",
        'Column lists. Breast Cancer: the 43 categories that occur among its 286 rows, "?" among them. Adult: the 102 '
        'categories that occur in the training file, "?" among them, and the six numbers, `fnlwgt` among them, '
        'scaled to [0, 1] by public bounds: 108. The paper\'s "seven" columns without one-hot cannot be rebuilt: without '
        "`fnlwgt` and with `sex` there are six, which is what we took. Splits have the paper's sizes (191 and 95; 22,750 "
        "and 9,750) by a fixed public order, not the paper's own, which is not published.",
        "",
        "Models: objective perturbation as Chaudhuri et al. published it (pure, one row replaced, ridge 1 as the "
        "library that the paper used has by default), with the row norm entering squared, the constant column "
        "counted and exact minimisers; the norm is the root of the number of attributes plus one, never read off the rows.",
        "",
        "The paper's claims, in short (each below with its numbers):",
        "",
        "| claim | here |",
        "|---|---|",
        "| at small budgets few columns beat all (figures 3 and 4) | holds on both data sets |",
        "| random columns beat all in many cases (table X) | holds |",
        "| PAFS is best from epsilon 2 up (table X) | only where it is scored on the rows it was searched on and the search is not paid for; charged, it is nowhere best |",
        "| a gain of 11.51 points (headline) | not in its own table, whose largest is 7.47 |",
        "| (not said) most of table X lies below a constant predictor | so it does: 48 of its 65 cells |",
        "| all columns of Adult overtake six between 10 and 20 | near 8; test rows counted in, the interval meets that range |",
        "| all columns of Breast Cancer overtake one between 60 and 70 | near 25 on average, but a single split cannot place it |",
        "| one-hot pays from 0.01 to 0.05 on (table XVI) | fails: from about 4 on, with publicly scaled numbers |",
        "| a subset beats all columns under noisy descent too (tables II, XVIII) | holds on Adult; cannot be told on Breast Cancer |",
        "| principal components help a private network (table V) | holds, by less, and still when they are private and paid for |",
        "",
    ]


def _timing(facts: dict[str, Any], store: Path) -> list[str]:
    lines = [
        "## Seconds on Breast Cancer (191 rows, 43 columns), in process",
        "",
        "Best of several runs on two cores, with the load of the machine at the time; processor seconds are of all threads. "
        "The paper reports 3.8 s, 57.6 s and about 9 hours for CFS-Greedy, CFS-GA and PAFS.",
        "",
        "| work | wall seconds | processor seconds | asked | load |",
        "|---|---|---|---|---|",
    ]
    asked = {
        "cfs_greedy": "0.1",
        "cfs_ga, 5,000 x 10": "1",
        "pafs, 600 x 10": "10",
        "1,000 repeats x 13 epsilons": "seconds",
    }
    for name, row in facts.items():
        if name != "run":
            lines.append(
                f"| {name} | {row['wall']:.3f} | {row['processor']:.3f} | {asked.get(name, '')} | {row.get('load', '')} |"
            )
    return [*lines, ""]


def _breast(facts: dict[str, Any], splits: dict[str, Any], store: Path) -> list[str]:
    known = facts["facts"]
    lines = [
        "## Table X: Breast Cancer, the choice itself not charged",
        "",
        f"As in the paper the choice of columns is not charged here: CFS on exact uncertainties (CFS-GA keeps "
        f"{len(known['cfs_ga'])} columns: {', '.join(known['cfs_ga'])}; CFS-Greedy and Random as many), and PAFS with 600 x 10 "
        "private models scored on the test rows, three searches for each epsilon. A constant gets "
        f"{100 * known['constant']:.2f} on these test rows.",
        "",
        f"| epsilon | {' | '.join(METHODS)} | PAFS sizes |",
        "|---|" + "---|" * 6,
    ]
    for epsilon, published in X.items():
        row = facts.get(f"X {epsilon:g}")
        if row is None:
            lines.append(f"| {epsilon:g} | not run yet |")
            continue
        cells = [f"{shown(row[name])} ({value:.2f})" for name, value in zip(METHODS, published, strict=True)]
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} | {', '.join(map(str, row['PAFS sizes']))} |")
    if none := facts.get("X 1e+09"):
        lines.append(f"| none | {' | '.join(shown(none[name]) for name in METHODS)} | |")
    curves = {name: {e: facts[f"X {e:g}"][name] for e in X if f"X {e:g}" in facts} for name in METHODS}
    by_epsilon(curves, store / "table10.svg", 100 * known["constant"])
    return [
        *lines,
        "",
        "![Table X: accuracy against epsilon](features/table10.svg)",
        "",
        *_splits(splits),
        *_claims_x(facts, splits),
        *_figure_4(facts, store),
        *_crossing(facts, splits, store),
    ]


def _splits(splits: dict[str, Any]) -> list[str]:
    """Means over other cuts of the rows, with the spread from cut to cut."""
    cuts = [row for key, row in splits.items() if key.startswith("split")]
    if not cuts:
        return ["Over other cuts of the rows: not run yet.", ""]
    constant = [row["constant"] for row in cuts]
    lines = [
        f"The 95 test rows decide much of this: one of them is 1.05 points. The same over {len(cuts)} random cuts into 191 and 95 "
        f"rows ({splits['run']['repeats']} models each; mean ± spread from cut to cut; columns chosen afresh on each cut's training rows; "
        f"PAFS on ten of the cuts). A constant gets {np.mean(constant):.2f} ± {np.std(constant):.2f}.",
        "",
        "| epsilon | All | PAFS | CFS-Greedy | Random | best column |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon, published in X.items():
        cells = []
        for name in ("All", "PAFS", "CFS-Greedy", "Random"):
            found = _over_cuts(splits, name, epsilon)
            value = published[METHODS.index(name)]
            cells.append(
                f"{np.mean(found):.2f} ± {np.std(found):.2f} ({value:.2f})" if found else f"not run ({value:.2f})"
            )
        one = _over_cuts(splits, "one", epsilon)
        cells.append(f"{np.mean(one):.2f} ± {np.std(one):.2f}")
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} |")
    return [*lines, ""]


def _over_cuts(splits: dict[str, Any], name: str, epsilon: float) -> list[float]:
    if name == "PAFS":
        return [value for key, value in splits.items() if key.startswith("pafs") and key.endswith(f" {epsilon:g}")]
    return [row[name][f"{epsilon:g}"] for key, row in splits.items() if key.startswith("split")]


def _claims_x(facts: dict[str, Any], splits: dict[str, Any]) -> list[str]:
    rows = {epsilon: facts[f"X {epsilon:g}"] for epsilon in X if f"X {epsilon:g}" in facts}
    best = {epsilon: max(METHODS, key=lambda name: row[name][0]) for epsilon, row in rows.items()}
    gaps = {epsilon: row["PAFS"][0] - row["All"][0] for epsilon, row in rows.items()}
    widest = max(gaps, key=lambda epsilon: gaps[epsilon])
    constant = 100 * facts["facts"]["constant"]
    ours = sum(row[name][0] < constant for row in rows.values() for name in METHODS)
    whole = 100 * 201 / 286
    theirs = sum(value < whole for values in X.values() for value in values)
    random = [epsilon for epsilon, row in rows.items() if row["Random"][0] > row["All"][0]]
    fails = [f"{e:g} ({best[e]})" for e in rows if e >= 2 and best[e] != "PAFS"]
    lines = [
        "What the paper claims of it:",
        "",
        f'- "PAFS is best from epsilon 2 up": {"fails at " + ", ".join(fails) if fails else "holds"} on our split; PAFS is best at '
        f"{', '.join(f'{e:g}' for e in rows if best[e] == 'PAFS')}. In its own table PAFS is best at 0.1, 0.5 and from 2 up. But PAFS is scored on the very test rows "
        "that it was searched on, with hundreds of models tried: where the choice is charged and made on held-out training rows (below), "
        "PAFS is not the best at any epsilon. As a claim about models that may be released it fails.",
        f'- "A gain of 11.51 points (20.11 % relative)" is not in its own table: the largest gap between PAFS and All there is 7.47, at 5. Here '
        f"it is {gaps[widest]:.2f}, at {widest:g}, flattered in the same way.",
        f"- Below a constant: {theirs} of the paper's 65 cells are below the {whole:.2f} that the more frequent class has among all 286 rows; "
        f"{ours} of {5 * len(rows)} here are below the {constant:.2f} of the constant on our test rows.",
        f'- "Random beats All in many cases": holds; here at {", ".join(f"{e:g}" for e in random)}.',
    ]
    cuts = [e for e in X if _over_cuts(splits, "PAFS", e)]
    if cuts:
        mean = {
            e: {n: float(np.mean(_over_cuts(splits, n, e))) for n in ("All", "PAFS", "CFS-Greedy", "Random")}
            for e in cuts
        }
        wins = [f"{e:g}" for e in cuts if max(mean[e], key=lambda n: mean[e][n]) == "PAFS"]
        most = max(cuts, key=lambda e: mean[e]["PAFS"] - mean[e]["All"])
        lines.append(
            f"- Over the cuts PAFS (test rows seen) is best at {', '.join(wins) or 'none'}; its largest mean gap to All is "
            f"{mean[most]['PAFS'] - mean[most]['All']:.2f}, at {most:g}."
        )
    return [*lines, ""]


def _figure_4(facts: dict[str, Any], store: Path) -> list[str]:
    points = [
        (int(key.split()[1]), epsilon, score)
        for key, line in facts.items()
        if key.startswith("4 ")
        for epsilon, score in line.items()
    ]
    constant = 100 * facts["facts"]["constant"]
    by_size(points, store / "figure4.svg", constant)
    by: dict[str, dict[int, list[float]]] = {}
    for size, epsilon, score in points:
        by.setdefault(epsilon, {})[size] = score
    lines = [
        "## Figure 4: Breast Cancer, best columns first (CFS-Greedy), every size from 1 to 43",
        "",
        "![Accuracy against number of columns](features/figure4.svg)",
        "",
        "| epsilon | best size | accuracy there | one column | eleven columns | all columns |",
        "|---|---|---|---|---|---|",
    ]
    lines += best_sizes(by, (1, 11, 43))
    names, order = facts["facts"]["names"], facts["facts"]["order"]
    return [
        *lines,
        "",
        f"The greedy order begins with {', '.join(names[at] for at in order[:3])}. The paper says: up to epsilon 1 the single best column is best, at 5 "
        "it is eleven columns, and without privacy all of them. On our split none of the three holds: the best size "
        "is the same small one at every epsilon, with and without privacy, and one column alone is below the constant (dashed). That few columns "
        "beat all of them at every budget does hold; and over the hundred cuts above one column does beat nine and all up to epsilon 2, on average.",
        "",
        "The dips (epsilon 2 at eight columns; PAFS and Random at 2 in table X) are the published algorithm's own: where epsilon is "
        "just above 2 ln(1 + R^2 / 4) it keeps the ridge and leaves next to nothing for the noise, while a little less epsilon "
        "would raise the ridge instead. The tight analysis (next section but one) has no such step.",
        "",
    ]


def _crossing(facts: dict[str, Any], splits: dict[str, Any], store: Path) -> list[str]:
    pairs: dict[float, dict[int, list[float]]] = {}
    for key, value in facts.items():
        if key.startswith("crossing"):
            _, epsilon, size = key.split()
            pairs.setdefault(float(epsilon), {})[int(size)] = next(iter(value.values()))
    pairs = {e: pair for e, pair in sorted(pairs.items()) if len(pair) == 2}
    many = facts["run"]["repeats"]
    gaps = {
        e: (pair[1][0] - pair[43][0], float(np.hypot(pair[1][1], pair[43][1])) / many**0.5) for e, pair in pairs.items()
    }
    curves = {name: {e: pair[size] for e, pair in pairs.items()} for name, size in (("best column", 1), ("all 43", 43))}
    by_epsilon(curves, store / "crossing4.svg", 100 * facts["facts"]["constant"])
    lines = [
        "## Where all 43 columns overtake the best one (paper: between 60 and 70)",
        "",
        "![One column and all of them](features/crossing4.svg)",
        "",
        "| epsilon | one column | all columns |",
        "|---|---|---|",
    ]
    lines += [f"| {e:g} | {shown(pair[1])} | {shown(pair[43])} |" for e, pair in pairs.items()]
    found = crossing(gaps)
    said = f"On our split the crossing is at {found[0]:.3g} (99.9 % interval for the repeats alone: {told(found)})."
    return [*lines, "", f"{said} {_crossing_over_cuts(splits)}", ""]


def _crossing_over_cuts(splits: dict[str, Any]) -> str:
    cuts = [row for key, row in splits.items() if key.startswith("split")]
    if not cuts:
        return ""
    epsilons = [e for e in cuts[0]["All"] if float(e) >= 0.5]
    apart = np.array([[row["one"][e] - row["All"][e] for e in epsilons] for row in cuts])
    at = np.log([float(e) for e in epsilons])
    each = [last_win(at, line) for line in apart]
    error = apart.std(axis=0) / len(cuts) ** 0.5
    mean = crossing({float(e): pair for e, *pair in zip(epsilons, apart.mean(axis=0), error, strict=True)}, 0.95)
    low, middle, high = np.quantile(each, [0.1, 0.5, 0.9], method="nearest")
    always, within = sum(map(np.isinf, each)), sum(60 <= one <= 70 for one in each)
    return (
        f"Over {len(cuts)} cuts of the rows the mean of all columns overtakes that of the best one at {mean[0]:.3g} (95 % interval {told(mean)}), but single cuts lie far "
        f"apart: median {middle:.3g}, a tenth below {low:.3g}, a tenth at {'more than 400' if np.isinf(high) else f'{high:.3g} or more'}; in {always} the best column still wins at 400, and in {within} the "
        "crossing lies between 60 and 70. So one split of 286 rows cannot place it, the paper's included."
    )


def _charged(facts: dict[str, Any], store: Path) -> list[str]:
    lines = [
        "## Breast Cancer with the choice charged",
        "",
        "Half of epsilon (delta 1e-5) chooses columns, half trains; one row added or removed, the tight analysis of "
        "`privaware.learners.objective_perturbation`; `all` has the whole epsilon for training. This is what can be released.",
        "",
        "| epsilon | selector | accuracy | mean size | choices made | seconds a choice |",
        "|---|---|---|---|---|---|",
    ]
    if "prices" in facts:
        rows = [f"| {name} | {value:.3g} |" for name, value in facts["prices"].items()]
        before = [
            "What the choice alone costs at the paper's settings, by our accountant (the paper prints 49.63 for PAFS, which counts the models that happened to be trained and scores them "
            "on the test rows, and 2.31 for CFS; delta 1e-6 and 1e-5 as there):",
            "",
            "| choice | epsilon |",
            "|---|---|",
            *rows,
            "",
        ]
        lines = [*lines[:4], *before, *lines[4:]]
    keys = [key for key in facts if key.startswith("charged")]
    for key in sorted(keys, key=lambda key: float(key.split()[1])):
        row = facts[key]
        _, epsilon, name = key.split(" ", 2)
        each = row["seconds"] / row["choices"]
        lines.append(
            f"| {epsilon} | {name} | {shown(row['score'])} | {row['size']:.1f} | {row['choices']} | {each:.2f} |"
        )
    return [*lines, ""]
