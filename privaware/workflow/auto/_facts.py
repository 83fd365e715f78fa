"""The public facts that a rule of the policy may ask for, and the quantities that follow from them.

>>> from privaware.datasets import schema
>>> facts_of(schema("wisconsin"), 1.0)["rows_epsilon"]
455.0
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from privaware.errors import WrongInput
from privaware.features import _public_photos, _public_text
from privaware.schema import Schema

__all__ = ["FACTS", "NETWORKS", "QUANTITIES", "Network", "expect_condition", "facts_of", "holds", "resolved"]

Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A public network that may be installed: its module, and what a plan says of its training data."""

    module: ModuleType
    warning: str


NETWORKS = {
    "sentences": Network(
        module=_public_text,
        warning="This network was trained on public text. If that text contains rows of this data set, the guarantee "
        "does not cover what the network learned from them. To train without it: --features hashed --features weigh.",
    ),
    "extractor": Network(
        module=_public_photos,
        warning="This network was trained on the photographs of ImageNet. If they contain images of this data set, the "
        "guarantee does not cover what the network learned from them. To train without it: "
        "--features prior,network=small,glyphs=0.5.",
    ),
}
"""The public networks by the feature that reads them, which is the name of the fact `installed`."""

FACTS: dict[str, str] = {
    "form": "table, text or image",
    "task": "classification or regression",
    "rows": "the declared number of rows",
    "epsilon": "the privacy budget",
    "rows_epsilon": "rows times epsilon",
    "classes": "the number of classes; 0 for a regression",
    "columns": "the number of columns beside the target",
    "channels": "the number of colour channels of an image",
    "side": "the smaller side of an image, in pixels",
    "larger_side": "the larger side of an image, in pixels",
    "device": "cpu or gpu",
    "bounded": "whether every column has declared bounds or categories",
    "installed": "a public network that is installed: sentences or extractor",
}
"""Every fact that `when` may name, with its meaning."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISON = re.compile(r"(<=|>=|<|>) ?([0-9.e+]+)")
WORDS = ("form", "task", "device", "installed")
"""The facts that are words; all others are numbers, or true and false."""


def facts_of(schema: Schema, epsilon: float, device: str = "cpu") -> dict[str, Any]:
    """The values of `FACTS`, from a schema, a budget and a device."""
    channels, *sides = schema.shape if schema.form == "image" else (0, 0)
    return {
        "form": schema.form,
        "task": schema.task,
        "rows": schema.rows,
        "epsilon": epsilon,
        "rows_epsilon": schema.rows * epsilon,
        "classes": len(schema.classes),
        "columns": len(schema.used) if schema.form == "table" else 0,
        "channels": channels,
        "side": min(sides),
        "larger_side": max(sides),
        "device": "cpu" if device == "cpu" else "gpu",
        "bounded": schema.bounded,
        "installed": {name for name, network in NETWORKS.items() if network.module.installed()},
    }


def holds(condition: Any, value: Any) -> bool:
    """Whether a fact satisfies one condition: a value, a comparison such as ">= 5", or a list of comparisons."""
    if isinstance(condition, list):
        return all(holds(each, value) for each in condition)
    if isinstance(condition, str) and (found := COMPARISON.fullmatch(condition)):
        return bool(OPERATORS[found[1]](value, float(found[2])))
    return bool(condition in value if isinstance(value, set) else condition == value)


def expect_condition(rule: str, fact: str, condition: Any) -> None:
    """Refuse a condition that no value of the fact can meet."""
    if fact in WORDS:
        good = isinstance(condition, str)
    elif fact == "bounded":
        good = isinstance(condition, bool)
    else:
        parts = condition if isinstance(condition, list) else [condition]
        good = bool(parts) and all(
            isinstance(each, (int, float)) or (isinstance(each, str) and COMPARISON.fullmatch(each)) for each in parts
        )
    if not good:
        wanted = "a word" if fact in WORDS else "true or false" if fact == "bounded" else 'a comparison such as ">= 5"'
        raise WrongInput(f"rule {rule!r}: {fact} is expected as {wanted}, got {condition!r:.60}")


def resolved(value: Any, facts: Facts) -> Any:
    """Settings with the values of their named quantities; an entry without a value is left out."""
    if isinstance(value, str) and value.startswith("$"):
        return QUANTITIES[value[1:]](facts) if value[1:] in QUANTITIES else facts[value[1:]]
    if isinstance(value, list):
        return [resolved(each, facts) for each in value]
    if isinstance(value, Mapping):
        found = {name: resolved(each, facts) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not None}
    return value


MANY_BYTES = 1.4e9
"""Memory limit for the feature matrix with more than 4,096 hash buckets, in bytes."""
LARGEST_BYTES = 4e9
"""Memory limit for the feature matrix with at most 4,096 hash buckets, in bytes."""


def slots(facts: Facts, most: int = 32_768) -> int:
    """The number of hash buckets of a text that memory allows, from 256 to `most`."""
    while most > 256 and 4 * most * facts["rows"] > (MANY_BYTES if most > 4096 else LARGEST_BYTES):
        most //= 2
    return most


def text_norm(facts: Facts) -> float | None:
    return 0.1 if facts["rows_epsilon"] >= 10_000 else 0.25 if facts["rows_epsilon"] >= 2_000 else None


def scattering(facts: Facts) -> list[dict[str, Any]]:
    """Wavelet scattering with normalised groups of maps, of images resized to 32 pixels if a side has more than 40."""
    resize = [{"name": "resize", "side": 32}] if facts["larger_side"] > 40 else []
    return [*resize, {"name": "scatter"}, {"name": "group_norm", "groups": 27}]


def _sides(facts: Facts) -> tuple[int, int]:
    return (32, 32) if facts["larger_side"] > 40 else (facts["side"], facts["larger_side"])


QUANTITIES: dict[str, Callable[[Facts], Any]] = {
    "slots": slots,
    "few_slots": lambda facts: slots(facts, 4096),
    "text_norm": text_norm,
    "scattering": scattering,
    "scattering_seconds": lambda facts: 0.0006 * facts["channels"] * (math.prod(_sides(facts)) / 784 + 0.2),
    "scattering_width": lambda facts: facts["channels"] * 81 * math.prod(side // 4 for side in _sides(facts)),
    "grey_centre": lambda facts: 0.05 if facts["channels"] == 1 and facts["rows_epsilon"] >= 4_000 else None,
    "weigh": lambda facts: 0.05 if facts["classes"] else None,
}
