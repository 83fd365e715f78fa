"""What the template of docs/results/attacks.md computes: tables of how often audits are right, and of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from privaware.papers._page import Page, markdown

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """What the template calls."""

    def lines(name: str) -> list[dict[str, Any]]:
        text = (page.results / page.name / f"{name}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def study(name: str) -> list[dict[str, Any]]:
        return [line for line in lines("audits") if line["study"] == name]

    def run() -> str:
        """Commit, date and seconds of the studies."""
        known = lines("audits")
        seconds = sum(line["seconds"] for line in known)
        return f"{known[0]['date']} at {known[0]['commit']}, {seconds:.0f} s of one core in all"

    def bounds() -> str:
        rows = [
            [
                f"{line['share_of_noise']:.0%}",
                line["runs"],
                f"{line['mean']:.2f}",
                f"{line['least']:.2f} to {line['most']:.2f}",
                f"{line['above']} ({line['above'] / line['runs']:.1%})",
                line["alarms"],
            ]
            for line in study("bounds")
        ]
        head = ["noise", "runs", "mean bound", "least to most", "bound above epsilon 4", "alarms (99.9%)"]
        return markdown(head, rows)

    def alarms() -> str:
        rows = [
            [line["mechanism"], line["runs"], f"{line['mean']:.2f}", line["above"], line["alarms"]]
            for line in study("alarms")
        ]
        total = [sum(line[name] for line in study("alarms")) for name in ("runs", "above", "alarms")]
        rows.append(["all", total[0], "", total[1], total[2]])
        return markdown(["mechanism", "audits", "mean bound", "bound above epsilon 2", "alarms"], rows)

    def commands() -> str:
        rows = [
            [
                f"`privaware audit {line['command']}`",
                line["exit"],
                f"{line['seconds']:.0f}",
                f"{line['claimed']:.3g}",
                f"{line['lower']:.2f}",
            ]
            for line in lines("commands")
        ]
        return markdown(["command", "exit", "seconds of one core", "epsilon claimed", "lower bound at 95%"], rows)

    return {"audits_run": run, "bounds": bounds, "alarms": alarms, "commands": commands}
