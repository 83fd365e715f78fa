"""How a verb speaks: results on standard output, progress on standard error."""

from __future__ import annotations

import json as json_
import sys
from typing import Any


def say(sentence: str) -> None:
    """Progress, one line a sentence."""
    print(sentence, file=sys.stderr, flush=True)


def show(result: dict[str, Any], lines: list[str], json: bool) -> None:
    """The result: as JSON, or the same in lines a person reads."""
    text = json_.dumps(result, allow_nan=False) if json else "\n".join(lines)
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
