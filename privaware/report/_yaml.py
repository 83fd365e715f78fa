"""Write plain values as readable YAML: mappings in blocks, texts quoted as in JSON.

>>> print(yaml({"delta": 1e-05, "names": ["a", {"b": "c: d"}]}), end="")
delta: 1.0e-05
names:
  - "a"
  -
    b: "c: d"
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def yaml(value: dict[str, Any]) -> str:
    """Return the YAML document of a mapping, with a line break at its end.

    The mapping may contain mappings, lists, texts, numbers, booleans and None. Its keys are not quoted, so they must be
    plain words or numbers.
    """
    return "".join(f"{line}\n" for line in _block(value, ""))


def _block(value: Any, indent: str) -> Iterator[str]:
    entries = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for name, entry in entries:
        head = f"{indent}-" if name is None else f"{indent}{name}:"
        if isinstance(entry, (dict, list)) and entry:
            yield head
            yield from _block(entry, f"{indent}  " if name is not None or isinstance(entry, dict) else f"{indent}- ")
        elif isinstance(entry, str) and "\n" in entry.strip():
            yield f"{head} |"
            yield from (f"{indent}  {line}".rstrip() for line in entry.strip().splitlines())
        else:
            yield f"{head} {_scalar(entry)}"


def _scalar(entry: Any) -> str:
    if isinstance(entry, float) and "e" in repr(entry) and "." not in repr(entry):
        return repr(entry).replace("e", ".0e")  # older parsers read 1e-05 as text
    return json.dumps(entry, ensure_ascii=False)
