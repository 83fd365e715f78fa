"""The grid of public facts on which the choices of `auto` are compared with a golden file.

python -m tests.workflow.auto.grid      # writes choices.json again, after a change of policy.toml
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from privaware.features import _public_photos, _public_text
from privaware.schema import Column, Schema
from privaware.workflow.auto import choose
from privaware.workflow.run.trainings import with_releases

GOLDEN = Path(__file__).with_name("choices.json")
EPSILONS = (0.1, 1.0, 8.0)
COLUMNS = (Column(name="a", low=0, high=9), Column(name="b", kind="category", categories=("x", "y")))
CATEGORIES = tuple(Column(name=name, kind="category", categories=tuple("acgt")) for name in "vwxyz")
Cell = tuple[Schema, dict[str, Any]]


def labels(count: int) -> dict[str, Any]:
    return {"classes": tuple(map(str, range(count)))} if count else {"low": 0.0, "high": 1.0}


def tables() -> Iterator[Cell]:
    sizes = (100, 999, 1000, 5000, 20_000, 20_001, 35_000, 50_001, 200_001)
    for rows, classes, epsilon in itertools.product(sizes, (0, 2, 4, 5), EPSILONS):
        schema = Schema(columns=COLUMNS, rows=rows, **labels(classes))
        for facts in (schema, schema.bare()):
            yield facts, {"epsilon": epsilon}
    for rows, classes, epsilon in itertools.product((100, 1000, 50_001), (0, 2, 5), EPSILONS):
        yield Schema(columns=CATEGORIES, rows=rows, **labels(classes)), {"epsilon": epsilon}
    yield Schema(rows=1000, **labels(2)), {"epsilon": 1.0}
    yield Schema(rows=1000, **labels(0)), {"epsilon": 1.0, "metric": "mae"}
    yield Schema(columns=COLUMNS, rows=900, **labels(0)), {"epsilon": 1.0, "metric": "mae"}


def texts() -> Iterator[Cell]:
    sizes = (150, 1500, 2000, 10_000, 20_000, 20_001, 100_000, 1_000_000)
    for rows, classes, epsilon in itertools.product(sizes, (0, 2, 6), EPSILONS):
        for time_limit in (None, 60.0, 3000.0):
            yield Schema(form="text", rows=rows, **labels(classes)), {"epsilon": epsilon, "time_limit": time_limit}


def images() -> Iterator[Cell]:
    shapes = ((1, 28, 28), (3, 32, 32), (2, 32, 32), (1, 3, 5), (3, 41, 60))
    sizes = (400, 600, 1000, 2500, 4000, 10_000, 23_000, 31_000, 42_000, 50_000, 200_000)
    for shape, rows, epsilon in itertools.product(shapes, sizes, EPSILONS):
        schema = Schema(form="image", shape=shape, rows=rows, **labels(10))
        for device, time_limit in itertools.product(("cpu", "cuda"), (None, 10.0, 100.0, 3000.0)):
            yield schema, {"epsilon": epsilon, "device": device, "time_limit": time_limit}
    for shape in shapes:
        yield Schema(form="image", shape=shape, rows=4000, **labels(0)), {"epsilon": 1.0}


def chosen() -> Iterator[dict[str, Any]]:
    """The choice of each cell, without and with the public networks."""
    for installed in (False, True):
        with (
            mock.patch.object(_public_photos, "installed", lambda here=installed: here),
            mock.patch.object(_public_text, "installed", lambda here=installed: here),
        ):
            for schema, facts in itertools.chain(tables(), texts(), images()):
                choice = with_releases(choose(schema, **facts), schema, facts.get("metric"))
                before = [[stage.what, round(stage.share, 6)] for stage in choice.before]
                yield {"learner": choice.learner, "settings": dict(choice.settings), "before": before}


def packed(choices: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The distinct choices, and runs of equal ones as pairs (number of the choice, length of the run)."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(json.dumps(choice, sort_keys=True), len(numbers)) for choice in choices]
    runs = [[code, len(list(group))] for code, group in itertools.groupby(codes)]
    return {"choices": [json.loads(text) for text in numbers], "runs": runs}


if __name__ == "__main__":
    golden = packed(chosen())
    lines = ",\n  ".join(json.dumps(choice, sort_keys=True) for choice in golden["choices"])
    GOLDEN.write_text(f'{{"choices": [\n  {lines}],\n "runs": {json.dumps(golden["runs"], separators=(",", ":"))}}}\n')
