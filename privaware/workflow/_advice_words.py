"""The result of `advise` as lines of text (the estimate, a plot, the findings) and as an HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from privaware.workflow._accuracy_curves import TOLERANCE

PLOT_WIDTH = 40
"""Number of steps from the left end to the right end of an interval plot, which is one character wider."""
CERTAIN = 0.9
"""If the probability of reaching the accuracy is below this, the estimate in words names the probability."""
PAPERS = {
    "Bao et al.": "Bao, Bauer and Bindschaedler, On the importance of architecture and feature selection in "
    "differentially private machine learning (2022)",
    "DPMLBench": "Wei and others, DPMLBench: holistic evaluation of differentially private machine learning (2023)",
    "DPNAS": "Cheng and others, DPNAS: neural architecture search for deep learning with differential privacy (2022)",
    "Tramer and Boneh": "Differentially private learning needs better features (or much more data) (2021)",
}
"""Papers by the words with which the evidence cites them."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Advice for {title}</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em }}</style></head>
<body><h1>Advice for {title}</h1>
{answer}
{plot}
<h2>Findings for these data at epsilon {epsilon:g}</h2>
<ul>
{findings}
</ul>
{papers}
<p>{charged}</p>
</body></html>
"""


def advice_lines(advised: Any, *, why: bool = False) -> list[str]:
    """Return the lines that `privaware advise` prints for `advised`, a result of `advise`.

    With `why`, the evidence for the chosen learner, and the reason and the evidence of each finding, are added.
    """
    others = " on other tables" if advised.estimate.get("about") == "other tables" else ""
    lines = [*answer_lines(advised), *plot_lines(advised.curve, others), advised.choice["why"]]
    if advised.choice["warning"]:
        lines.append(advised.choice["warning"])
    if why:
        lines.append(f"   Evidence: {advised.choice['evidence']}")
    shows = "" if why else "; `privaware advise --why` shows the evidence"
    lines.append(f"Findings for these data at epsilon {advised.epsilon:g} (--epsilon changes it{shows}):")
    for finding in advised.advice:
        lines.append(f"- {finding['rule']}.")
        lines += _evidence_lines(finding) if why else ()
    lines += _paper_lines(advised.advice) if why else ()
    return [*lines, _risk_line(advised), advised.charged]


def answer_lines(advised: Any) -> list[str]:
    """Return the estimate of `advised`, a result of `advise`, in one or two lines.

    If an accuracy was given and the estimate is about other tables, the first line says which epsilons these tables
    need, and the second recommends a pilot. If a pilot gave an epsilon, the only line names it and says how uncertain
    it is, and whether the table probably reaches the accuracy at all. Otherwise the only line says why no epsilon is
    named.
    """
    estimate, accuracy = advised.estimate, advised.accuracy
    if estimate.get("about") == "other tables" and accuracy is not None:
        classes = "5 or more classes" if advised.facts["classes"] >= 5 else "2 to 4 classes"
        tables = f"{estimate['tables']} other tables with {classes} and a similar number of rows"
        tables += ", on which a constant prediction does not reach it,"
        if estimate["low"] is None:
            found = f"Fewer than a tenth of {tables} reach accuracy {accuracy:g} at epsilon 10."
        else:
            high = "more than 10" if estimate["high"] is None else f"{estimate['high']:g}"
            found = f"Accuracy {accuracy:g}: the middle 80% of {tables} need epsilon {estimate['low']:g} to {high}."
        return [found, estimate["reason"]]
    if estimate["epsilon"] is not None:
        interval = f"80% interval: {estimate['low']:g} to {estimate['high']:g}"
        needed = f"about epsilon {estimate['epsilon']:g} ({interval})"
        probability = f"the probability that it does at epsilon 10 or less is {estimate['chance']:.0%}"
        if estimate["chance"] > 0.5:
            found = f"By a pilot on this table, accuracy {accuracy:g} needs {needed}"
            found += "" if estimate["chance"] >= CERTAIN else f", if the table reaches it: {probability}"
        else:
            found = f"By a pilot, this table probably does not reach accuracy {accuracy:g}: {probability}. "
            found += f"If it does, it needs {needed}"
        near = (
            f"For this estimate, accuracies within about {TOLERANCE:g} of {accuracy:g} count as {accuracy:g}, so the "
            f"accuracies below may reach {accuracy:g} at another epsilon."
        )
        return [" ".join(filter(None, (f"{found}.", near, estimate["reason"])))]
    return [estimate["reason"]]


def plot_lines(curve: Sequence[Mapping[str, float]], where: str = "") -> list[str]:
    """Return a header, and one line for each epsilon of `curve`: the expected accuracy, its interval, and a plot of it.

    `where` stands after the word accuracy in the header. An empty `curve` gives no lines.

    >>> for line in plot_lines([{"epsilon": 1.0, "accuracy": 0.7, "low": 0.6, "high": 0.8}]):
    ...     print(line)
    epsilon  accuracy (80% interval)
          1      0.70 (0.60 to 0.80)  |-------------------o-------------------|
    """
    if not curve:
        return []
    left, right = min(point["low"] for point in curve), max(point["high"] for point in curve)

    def place(accuracy: float) -> int:
        return round((accuracy - left) / max(right - left, 0.01) * PLOT_WIDTH)

    lines = [f"epsilon  accuracy{where} (80% interval)"]
    for point in curve:
        cells = [" "] * (PLOT_WIDTH + 1)
        low, middle, high = (place(point[name]) for name in ("low", "accuracy", "high"))
        cells[low : high + 1] = ["-"] * (high + 1 - low)
        cells[low] = cells[high] = "|"
        cells[middle] = "o"
        interval = f"{point['accuracy']:9.2f} ({point['low']:.2f} to {point['high']:.2f})"
        lines.append(f"{point['epsilon']:7g} {interval}  {''.join(cells).rstrip()}")
    return lines


def advice_page(advised: Any) -> str:
    """Return the estimate, a plot and the findings with their evidence, as an HTML page that needs no other file.

    `advised` is the `Advised` that `advise` returns.
    """
    answer = "\n".join(f"<p>{html.escape(line)}</p>" for line in answer_lines(advised))
    findings = "\n".join(
        f"<li>{html.escape(finding['rule'])}.<ul>{_items(_evidence_lines(finding))}</ul></li>"
        for finding in advised.advice
    )
    return PAGE.format(
        title=html.escape(advised.data),
        answer=answer,
        plot=_plot(advised.curve),
        epsilon=advised.epsilon,
        findings=findings,
        papers="\n".join(f"<p>{html.escape(line)}</p>" for line in _paper_lines(advised.advice)),
        charged=html.escape(advised.charged),
    )


def _items(lines: Sequence[str]) -> str:
    """Return `lines` as items of an HTML list."""
    return "".join(f"<li>{html.escape(line.strip())}</li>" for line in lines)


def _plot(curve: Sequence[Mapping[str, float]]) -> str:
    """Return `curve` as a static SVG, with its values as text; an empty text for an empty curve."""
    if not curve:
        return ""
    top, step, height = 30, 110, 240

    def y(accuracy: float) -> float:
        return top + (1 - accuracy) * height

    parts = []
    for at, point in enumerate(curve):
        x = 60 + at * step
        low, middle, high = (y(point[name]) for name in ("low", "accuracy", "high"))
        parts.append(f'<line x1="{x}" x2="{x}" y1="{low:.1f}" y2="{high:.1f}" stroke="#3f7fc1" stroke-width="3"/>')
        parts.append(f'<circle cx="{x}" cy="{middle:.1f}" r="5" fill="#3f7fc1"/>')
        parts.append(f'<text x="{x + 10}" y="{middle + 5:.1f}">{point["accuracy"]:.2f}</text>')
        parts.append(f'<text x="{x}" y="{top + height + 24}" text-anchor="middle">{point["epsilon"]:g}</text>')
    axis = f'<line x1="20" x2="{step * len(curve)}" y1="{y(0):.1f}" y2="{y(0):.1f}" stroke="#999"/>'
    title = '<text x="20" y="16">Accuracy to expect, with its 80% interval, at each epsilon</text>'
    box = f'viewBox="0 0 {step * len(curve) + 60} {top + height + 40}" role="img" aria-label="accuracy by epsilon"'
    return f'<svg {box} font-family="sans-serif" font-size="14">{title}{axis}{"".join(parts)}</svg>'


def _evidence_lines(finding: Mapping[str, Any]) -> list[str]:
    lines = [f"   Reason: {finding['reason']}."]
    for evidence in finding["evidence"]:
        lines.append(f"   Measured: {evidence['ours']} ({evidence['page']})")
        if evidence["paper"]:
            lines.append(f"   Published{' (differs)' if evidence['differs'] else ''}: {evidence['paper']}")
    return lines


def _paper_lines(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reference of each of `PAPERS` that the evidence of `findings` cites, one line each."""
    cited = [str(evidence["paper"]) for finding in findings for evidence in finding["evidence"]]
    return [f"{name}: {paper}." for name, paper in PAPERS.items() if any(text.startswith(name) for text in cited)]


def _risk_line(advised: Any) -> str:
    """Return a sentence on what attackers can find out at the planned epsilon, if the learner adds Gaussian noise."""
    unit = advised.facts["unit"]
    outside, inside = f"values of {unit!r} outside the data for values in", f"values of {unit!r} in the data"
    if unit == "row":
        outside, inside = "rows outside the data for rows in", "rows in the data"
    elif unit == "label":
        outside, inside = "wrong labels for labels of", "labels of the data"
    first, *others = (f"{100 * each['fpr']:g}%" for each in advised.risk)
    bound, *bounds = (f"{100 * each['gaussian']:.3g}%" for each in advised.risk)
    more = "".join(f"; with {fpr} it is at most {tpr}" for fpr, tpr in zip(others, bounds, strict=True))
    return (
        f"Attacks at epsilon {advised.epsilon:g} on a learner that adds Gaussian noise, such as linear: an attacker "
        f"who wrongly takes {first} of the {outside} the data identifies at most {bound} of the {inside}{more}."
    )
