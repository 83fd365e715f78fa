"""Facts of a function tell functions apart that compute different things, and are the same in every process."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privaware.descent import cross_entropy, focal
from privaware.descent._code_facts import code_facts


def scaled(factor: Any) -> Any:
    return lambda outputs, targets: factor * outputs


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        return self.factor * outputs


def helper(value: float) -> float:
    return value


def documented(text: str) -> Any:
    """Return a function, and a function within it, that have `text` as their docstring."""
    doc = f'"""{text}"""' if text else ""
    code = f"def outer(x):\n    {doc}\n    def inner(y):\n        {doc}\n        return y or None\n    return inner(x)"
    names: dict[str, Any] = {}
    exec(code, names)
    return names["outer"]


PAIRS: dict[str, tuple[Any, Any]] = {
    "constants": (lambda x: 2 * x, lambda x: 3 * x),
    "operations": (lambda x: 2 * x, lambda x: 2 + x),
    "closures": (scaled(1.0), scaled(2.0)),
    "tensors": (scaled(torch.zeros(2)), scaled(torch.ones(2))),
    "arrays": (scaled(np.zeros(2)), scaled(np.ones(2))),
    "defaults": (lambda x, y=1: x, lambda x, y=2: x),
    "partials": (functools.partial(helper, value=1.0), functools.partial(helper, value=2.0)),
    "modules": (Scaled(1.0), Scaled(2.0)),
    "names": (cross_entropy, focal),
    "nested functions": (lambda x: [(y, 2) for y in x], lambda x: [(y, 3) for y in x]),
    "attributes": (lambda x: x.real, lambda x: x.imag),
    "jumps": (lambda x: x and 1, lambda x: x or 1),
    "sets": (lambda x: x in {1, 2}, lambda x: x in {1, 3}),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_functions_that_differ_have_different_facts(kind: str) -> None:
    one, two = PAIRS[kind]
    assert json.dumps(code_facts(one)) != json.dumps(code_facts(two))


def test_a_function_has_the_same_facts_in_another_process() -> None:
    code = (
        "import json; from tests.descent.test_code_facts import PAIRS; from privaware.descent._code_facts import *; "
        "print(json.dumps([code_facts(one) for one, _ in PAIRS.values()]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == json.loads(json.dumps([code_facts(one) for one, _ in PAIRS.values()]))


def test_facts_of_an_object_that_holds_itself_end() -> None:
    held: list[Any] = []
    held.append(held)
    assert code_facts(held) == ["circle"]


@pytest.mark.parametrize("text", ["Other words.", ""], ids=["changed", "removed"])
def test_docstrings_are_not_facts(text: str) -> None:
    assert code_facts(documented("Some words.")) == code_facts(documented(text))
