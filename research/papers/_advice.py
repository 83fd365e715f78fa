"""Writes privaware/workflow/advice.json, which `privaware advise` cites, from the stored cells of docs/results.

python -m research.papers._advice           # after new cells were stored
python -m research.papers._advice --check   # nothing is written; ends with 1 if the file would change
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from research.papers._advice_evidence import evidence

__all__ = ["table"]

FILE = Path(__file__).parents[2] / "privaware" / "workflow" / "advice.json"
COMMAND = "python -m research.papers._advice"


def table() -> str:
    """The file as it should be: one piece of evidence a paragraph."""
    pieces = json.dumps(evidence(), indent=2, ensure_ascii=False)
    return f'{{"written_by": "{COMMAND}",\n"evidence": {pieces}}}\n'


def main(arguments: list[str]) -> int:
    text = table()
    if "--check" in arguments:
        return int(text != FILE.read_text(encoding="utf-8"))
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
