"""What the template of docs/results/attacks.md computes: tables of how often audits are right, and of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from research.papers._page import Page

__all__ = ["functions"]

Line = dict[str, Any]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """What the template calls."""
    view = View(page)
    return {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}


class View:
    """The stored lines of the page as its template takes them."""

    def __init__(self, page: Page) -> None:
        self._folder = page.results / page.name

    def _lines(self, name: str) -> list[Line]:
        return [json.loads(line) for line in (self._folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]

    def _study(self, name: str) -> list[Line]:
        return [line for line in self._lines("audits") if line["study"] == name]

    def audits_run(self) -> str:
        """Commit, date and seconds of the studies."""
        known = self._lines("audits")
        seconds = sum(line["seconds"] for line in known)
        return f"{known[0]['date']} at {known[0]['commit']}, {seconds:.0f} s of one core in all"

    def bounds(self) -> str:
        rows = [
            [
                f"{line['share_of_noise']:.0%}",
                line["runs"],
                f"{line['mean']:.2f}",
                f"{line['least']:.2f} to {line['most']:.2f}",
                f"{line['above']} ({line['above'] / line['runs']:.1%})",
                line["alarms"],
            ]
            for line in self._study("bounds")
        ]
        head = ["noise", "runs", "mean bound", "least to most", "bound above epsilon 4", "alarms (99.9%)"]
        return markdown(head, rows)

    def alarms(self) -> str:
        known = self._study("alarms")
        rows = [
            [line["mechanism"], line["runs"], f"{line['mean']:.2f}", line["above"], line["alarms"]] for line in known
        ]
        runs, above, alarms = (sum(line[name] for line in known) for name in ("runs", "above", "alarms"))
        head = ["mechanism", "audits", "mean bound", "bound above epsilon 2", "alarms"]
        return markdown(head, [*rows, ["all", runs, "", above, alarms]])

    def commands(self) -> str:
        rows = [
            [
                f"`privaware audit {line['command']}`",
                line["exit"],
                f"{line['seconds']:.0f}",
                f"{line['claimed']:.3g}",
                f"{line['lower']:.2f}",
            ]
            for line in self._lines("commands")
        ]
        return markdown(["command", "exit", "seconds of one core", "epsilon claimed", "lower bound at 95%"], rows)

    def odds(self) -> str:
        """Areas of the black box that reads log odds, targets side by side."""
        groups: dict[tuple[str, str], list[Line]] = {}
        for line in self._lines("odds_epsilon4"):
            groups.setdefault((line["target"], line["shadows"]["training"]), []).append(line)
        rows = [
            [
                target,
                shadow,
                ", ".join(f"{line['accuracy']:.3f}" for line in each),
                ", ".join(f"{line['auc']:.3f}" for line in each),
                f"{mean(line['auc'] for line in each):.3f}",
                *(
                    ", ".join(f"{100 * line['tpr_at_fpr'][fpr]['tpr']:.2f}" for line in each)
                    for fpr in ("0.001", "0.01")
                ),
            ]
            for (target, shadow), each in groups.items()
        ]
        rates = [f"TPR in % at {fpr} FPR" for fpr in ("0.1%", "1%")]
        return markdown(["targets", "shadows trained", "accuracy", "area under the curve", "mean", *rates], rows)

    def odds_most(self) -> str:
        """The largest upper end of an interval of an area at epsilon 4."""
        private = [line for line in self._lines("odds_epsilon4") if line["target"] != "without privacy"]
        return f"{max(line['auc_interval'][1] for line in private):.3f}"
