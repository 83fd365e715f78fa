"""Writes privaware/workflow/advice.json, which `privaware advise` cites, from the stored cells of docs/results.

python -m research.papers._advice           # after new cells were stored
python -m research.papers._advice --check   # nothing is written; ends with 1 if the file would change
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from research.papers._advice_evidence import evidence, page

__all__ = ["curves", "table"]

FILE = Path(__file__).parents[2] / "privaware" / "workflow" / "advice.json"
COMMAND = "python -m research.papers._advice"


def curves() -> list[dict[str, Any]]:
    """Accuracies by rows and epsilon, for `--accuracy`."""
    listed: dict[tuple[str, int], dict[str, Any]] = {}
    for cell in page("sample_size").cells("ours/sample_size"):
        settings = cell.settings
        curve = listed.setdefault((settings["data"], settings["rows"]), _curve(settings, "linear"))
        curve["scores"][f"{settings['epsilon']:g}"] = cell.result["scores"]
    for cell in page("prior").cells("ours/prior/heads"):
        settings, result = cell.settings, cell.result
        if (settings["scatter"], settings["steps"]) == (1.0, 100):
            rows = {"cifar10": 50_000}.get(settings["data"], 60_000)
            curve = listed.setdefault(
                (settings["data"], rows), _curve({**settings, "rows": rows}, "linear on the prior with scattering")
            )
            curve["scores"][f"{settings['epsilon']:g}"] = {
                "mean": result["score"],
                "deviation": result["spread"],
                "seeds": settings["seeds"],
            }
    return list(listed.values())


def _curve(settings: Mapping[str, Any], learner: str) -> dict[str, Any]:
    forms = {"adult": "table", "wisconsin": "table", "sms_spam": "text"}
    form = forms.get(settings["data"], "image")
    return {"data": settings["data"], "form": form, "learner": learner, "rows": settings["rows"], "scores": {}}


def table() -> str:
    """The file as it should be: one piece of evidence a paragraph, one curve a line."""
    pieces = json.dumps(evidence(), indent=2, ensure_ascii=False)
    lines = ",\n".join(f"  {json.dumps(curve)}" for curve in curves())
    return f'{{"written_by": "{COMMAND}",\n"evidence": {pieces},\n"curves": [\n{lines}\n]}}\n'


def main(arguments: list[str]) -> int:
    text = table()
    if "--check" in arguments:
        return int(text != FILE.read_text(encoding="utf-8"))
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
