# ruff: noqa: E501 (lines of the page that is written)
"""The parts of docs/results/features.md about Adult, noisy gradient descent, SVHN and transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._features_plots import by_epsilon, by_size, crossing, told

XVI = {
    0.1: ((65.93, 5.36), (69.65, 3.33)),
    0.05: ((65.5, 4.73), (66.13, 4.48)),
    0.01: ((64.33, 4.47), (59.03, 9.81)),
    0.001: ((57.86, 16.64), (50.98, 16.06)),
    0.0001: ((50.58, 23.98), (50.07, 17.26)),
    1e9: ((84.44, 0), (84.85, 0)),
}
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
}


def best_sizes(by: dict[str, dict[int, list[float]]], places: tuple[int, ...]) -> list[str]:
    """For each epsilon the best number of columns, its accuracy and those at some other numbers."""
    lines = []
    for epsilon in sorted(by, key=float):
        line = by[epsilon]
        top = max(line, key=lambda size: line[size][0])
        name = "none (1e9)" if float(epsilon) >= 1e9 else epsilon
        lines.append(f"| {name} | {top} | {' | '.join(shown(line[size]) for size in (top, *places))} |")
    return lines


def shown(score: list[float]) -> str:
    return f"{score[0]:.2f} ± {score[1]:.2f}"


def adult(facts: dict[str, Any], store: Path) -> list[str]:
    constant = 100 * facts["facts"]["constant"]
    few, many = ({float(e): score for e, score in facts[f"XVI {name}"].items()} for name in ("without", "with"))
    lines = [
        "## Table XVI: Adult, one-hot or drop",
        "",
        f"{facts['run']['repeats']} repeats. A constant gets {constant:.2f}.",
        "",
        "| epsilon | six columns, no one-hot | 108 columns, one-hot |",
        "|---|---|---|",
    ]
    for epsilon in sorted(few):
        cells = []
        for at, line in enumerate((few, many)):
            mean, spread = XVI[epsilon][at] if epsilon in XVI else (None, 0)
            said = "" if mean is None else f" ({mean:.2f} ± {spread:.2f})" if spread else f" ({mean:.2f})"
            cells.append(shown(line[epsilon]) + said)
        lines.append(f"| {'none' if epsilon == 1e9 else f'{epsilon:g}'} | {' | '.join(cells)} |")
    by_epsilon({"six, no one-hot": few, "108, one-hot": many}, store / "table16.svg", constant)
    said = _crossed(facts, "XVI", few, many)
    return [
        *lines,
        "",
        "![One-hot or drop](features/table16.svg)",
        "",
        f"One-hot columns overtake at {said}. The paper's "
        "crossing lies between 0.01 and 0.05: our six columns, scaled by public bounds, do far better than the paper's seven "
        f"({few[0.1][0]:.1f} against 65.9 at 0.1) while the 108 do as well as there, so that the claim that one-hot pays from 0.05 on fails here.",
        "",
        *_figure_3(facts, store, constant),
    ]


def _crossed(facts: dict[str, Any], name: str, few: dict[float, list[float]], many: dict[float, list[float]]) -> str:
    alone, whole = (
        crossing(_gaps(facts, name, few, many, share), level) for share, level in ((0.0, 0.999), (1.0, 0.95))
    )
    return f"{alone[0]:.3g} (99.9 % interval for the repeats alone: {told(alone)}; 95 % with the sampling of the test rows: {told(whole)})"


def _gaps(
    facts: dict[str, Any], name: str, few: dict[float, list[float]], many: dict[float, list[float]], share: float
) -> dict[float, tuple[float, float]]:
    """Points between two lines, with the error of the repeats and, for a share of 1, of the test rows."""
    repeats, gaps = facts["run"]["repeats"], {}
    for key, (apart, rows) in facts[f"gap {name}"].items():
        epsilon = float(key)
        if epsilon < 1e9:
            draws = (few[epsilon][1] ** 2 + many[epsilon][1] ** 2) / repeats
            gaps[epsilon] = (apart, float(np.sqrt(draws + (share * rows) ** 2)))
    return gaps


def _figure_3(facts: dict[str, Any], store: Path, constant: float) -> list[str]:
    by: dict[str, dict[int, list[float]]] = {}
    for key, line in facts.items():
        if key.startswith("3 "):
            for epsilon, score in line.items():
                by.setdefault(epsilon, {})[int(key.split()[1])] = score
    whole = max(len(line) for line in by.values())
    drawn = {epsilon: line for epsilon, line in by.items() if len(line) > 2}
    by_size(
        [(size, e, score) for e, line in drawn.items() for size, score in line.items()], store / "figure3.svg", constant
    )
    lines = [
        f"## Figure 3: Adult, best columns first (CFS-Greedy), {whole} sizes from 1 to 108",
        "",
        "![Accuracy against number of columns](features/figure3.svg)",
        "",
        "| epsilon | best size | accuracy there | one column | five columns | all columns |",
        "|---|---|---|---|---|---|",
    ]
    lines += best_sizes(drawn, (1, 5, 108))
    six, all_ = ({float(e): score for e, score in facts[f"3 {size}"].items()} for size in (6, 108))
    by_epsilon({"best six": six, "all 108": all_}, store / "crossing3.svg", constant)
    top, free = (max(drawn[e], key=lambda size: drawn[e][size][0]) for e in ("0.1", "1e+09"))
    lines += [
        "",
        f"The paper: at 0.1 five columns are best with 78.58, all get 70.86. Here at 0.1 the best size is {top} with "
        f"{drawn['0.1'][top][0]:.2f}, five get {drawn['0.1'][5][0]:.2f} and all {drawn['0.1'][108][0]:.2f}. That accuracy falls with more columns at small budgets holds. "
        f"Without privacy the best size is {free} with {drawn['1e+09'][free][0]:.2f}, all get {drawn['1e+09'][108][0]:.2f}: nearly, not quite, the paper's 'all'.",
        "",
        "The best six columns against all 108 (paper: all overtake between 10 and 20):",
        "",
        "![Six columns and all of them](features/crossing3.svg)",
        "",
        "| epsilon | six columns | all columns |",
        "|---|---|---|",
    ]
    lines += [f"| {e:g} | {shown(six[e])} | {shown(all_[e])} |" for e in sorted(set(six) & set(all_)) if e < 1e9]
    said = _crossed(facts, "six", six, all_)
    return [
        *lines,
        "",
        f"All columns overtake the best six at {said}; the wider interval meets the paper's range, the narrow one does not.",
        "",
    ]


def descent(facts: dict[str, Any], store: Path) -> list[str]:
    lines = [
        "## Tables II and XVIII: softmax of two units by noisy gradient descent",
        "",
        "The captions of the two tables are swapped in the paper. 40 epochs, gradients cut to length 1, the learning rate "
        "the best of 0.05, 0.5 and 5 by mean training accuracy (the paper tunes it too, on what is not said). Adult: Poisson batches of 250 "
        "expected rows, 3,640 steps. Breast Cancer: the printed batch of 250 is larger than its 191 rows, so every row is in every step, 40 "
        "steps. Noise is calibrated to the printed epsilon by the distribution accountant, for which the paper's noise of about 100 on Adult costs 0.0172 rather than 0.0196; "
        "the paper's 0.00817 lies below what its own accountant can return.",
        "",
    ]
    for data, tables in DESCENT.items():
        for epsilon, published in tables.items():
            found = {size: facts.get(f"{data} {epsilon} {size}") for size in published}
            lines += [
                f"{data}, epsilon {epsilon or 'none'}:",
                "",
                "| columns | accuracy (published) | lr | noise |",
                "|---|---|---|---|",
            ]
            for size, value in published.items():
                row = found[size]
                ours = (
                    f"{shown(row['score'])} ({value:.2f}) | {row['lr']:g} | {row['noise']:.3g}"
                    if row
                    else f"not run yet ({value:.2f}) | |"
                )
                lines.append(f"| {size} | {ours} |")
            lines.append("")
    return [*lines, *_claims_descent(facts)]


def _claims_descent(facts: dict[str, Any]) -> list[str]:
    said = []
    for data, tables in DESCENT.items():
        for epsilon, published in tables.items():
            rows = {size: facts.get(f"{data} {epsilon} {size}") for size in published}
            if all(rows.values()):
                scores = {size: row["score"] for size, row in rows.items() if row}
                best, whole = max(scores, key=lambda size: scores[size][0]), max(scores)
                error = float(np.hypot(scores[best][1], scores[whole][1])) / facts["run"]["repeats"] ** 0.5
                said.append(
                    f"{data} at {epsilon or 'no noise'}: {best} columns, {scores[best][0] - scores[whole][0]:.2f} ± {error:.2f} above all"
                )
    if not said:
        return []
    return [
        f"Best size, and how far above all columns (± standard error): {'; '.join(said)}. So a subset beats all columns under noise on Adult, as the paper says; on Breast Cancer ten runs cannot tell. "
        '"With SGD all features are always best" fails here on Breast Cancer, and in the paper\'s own table (68 columns of Adult, 85.30, against 85.21 for all).',
        "",
    ]


V = {"PCA": ((72.90, 85.32), (76.10, 84.12)), "no PCA": ((64.40, 87.08), (70.38, 86.01))}


def svhn(facts: dict[str, Any], known: dict[str, Any]) -> list[str]:
    lines = [
        "## Table V: grey SVHN, fully connected networks, 300 principal components or none",
        "",
        "42,000 training rows, 5,000 to choose the learning rate on, 5,000 test rows (the first of each file, in file order, so that no house is in two parts). Each "
        "image has its mean taken off and length 1. Everything private costs 2.58 at delta 1e-5 by the accountant of the paper (RDP; "
        f"{known['no PCA']['epsilon']:.2f} by ours), the components included where they are private. Batches of 2,048 (Poisson) and "
        f"{facts['run']['steps']:,} steps in place of 100 and 210,000, at noise {known['no PCA']['step']:.3f} in place of 2; momentum 0.9, gradients cut to length 1, dropout 0.2; "
        f"{facts['run']['repeats']} seeds. Without components the paper's 1,577,738 parameters are those of 512-2048-256-10, so we average pairs of "
        "neighbouring pixels to 512 inputs; its 55,042 fit no network of its space, 52,042 is the nearest.",
        "",
        "| inputs | price of the components | network | parameters | private | validation rows | lr | plain SGD | published, private and plain |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in known.items():
        for at, network in enumerate(_networks(facts, name)):
            private, plain = (facts.get(f"{name} | {network} | {way}") for way in ("private", "plain"))
            published = V["no PCA" if name == "no PCA" else "PCA"][at]
            price = (
                "none: not private"
                if name == "PCA, not private"
                else ""
                if row["pca"] is None
                else f"{row['pca epsilon']:.3f} (noise {row['pca']:g})"
            )
            lines.append(
                f"| {name} | {price} | {network} | {private['parameters']:,} | {_seeds(private)} | {max(private['held']):.2f} | {private['lr']:g} | {_seeds(plain)} | {published[0]:.2f}, {published[1]:.2f} |"
            )
    return [
        *lines,
        "",
        "Test rows are of the official test file, which is harder than the training file that the validation rows (and, in all likelihood, the paper's test "
        "rows, cut from 52,000 images) come from. The paper prints the best of at least three runs by test accuracy. One draw of the noisy components serves all seeds. Rates tried: 0.025 to 0.4 by factors of two (0.8 for 300-128-10 with noise 4 on a processor: 72.38 on the validation rows, worse).",
        "",
        *_claims_v(facts),
        "",
    ]


def _claims_v(facts: dict[str, Any]) -> list[str]:
    def mean(name: str, at: int) -> float:
        return float(np.mean(facts[f"{name} | {_networks(facts, name)[at]} | private"]["scores"]))

    ours = {
        name: [mean(name, at) for at in (0, 1)]
        for name in ("no PCA", "PCA, not private", "PCA, noise 8", "PCA, noise 4")
    }
    gain = [ours["PCA, not private"][at] - ours["no PCA"][at] for at in (0, 1)]
    honest = [max(ours["PCA, noise 8"][at], ours["PCA, noise 4"][at]) - ours["no PCA"][at] for at in (0, 1)]
    return [
        f"The paper: components gain 8.50 points (standard network) and 5.72 (privacy-aware), uncharged. Here, uncharged: {gain[0]:+.2f} and "
        f"{gain[1]:+.2f}; with the components private and paid for out of the same 2.58: {honest[0]:+.2f} and {honest[1]:+.2f}. So the order of the table holds (components and the "
        "smaller network are better under privacy) at smaller gaps, and noise 8 on the components (0.43 if alone) loses nothing: 300 directions are far more than the noise leaves apart."
    ]


def _networks(facts: dict[str, Any], name: str) -> list[str]:
    return [key.split(" | ")[1] for key in facts if key.startswith(f"{name} | ") and key.endswith("private")]


def _seeds(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{np.mean(row['scores']):.2f} ± {np.std(row['scores'], ddof=1):.2f}"


def transfer(facts: dict[str, Any], store: Path) -> list[str]:
    lines = [
        "## Transfer: EfficientNet-Lite0 (ImageNet-1k) features and a linear head, CIFAR-10",
        "",
        f"Public photographs were used, so this stands apart from everything else. Images enlarged to {facts['run']['size']} pixels, 1,280 features "
        "(`privaware.features.Extractor`), each row brought to length 1; head and step size of "
        f"`privaware.learners.linear`, 100 full-batch steps, delta 1e-5, {facts['run']['repeats']} seeds, nothing tuned on CIFAR-10.",
        "",
        "| epsilon | accuracy | noise | lr |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['epsilon']:g} | {row['mean']:.2f} ± {row['spread']:.2f} | {row['noise']:.2f} | {row['lr']:.3g} |"
        for row in facts["rows"]
    ]
    return [*lines, ""]
