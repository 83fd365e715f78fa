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

from privaware._validate import expect, expect_one_of
from privaware.data._persons import of_persons
from privaware.features import _public_photos, _public_text
from privaware.features.crosses import combinations_of
from privaware.schema import Schema

Facts = Mapping[str, Any]
"""The values of `FACTS` by name, as `facts_of` returns them."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A public network that may be installed: its `module`, and `warning`, what a plan says about its training data."""

    module: ModuleType
    warning: str


NETWORKS = {
    "sentences": Network(
        module=_public_text,
        warning="The network all-MiniLM-L6-v2 was trained on public text. If that text contains rows of this data set, "
        "the guarantee does not cover what the network learned from them. To train without it: "
        "`privaware fit DATA --features hashed,slots=32768,words=1,letters=3,stems=4 --features weigh`.",
    ),
    "extractor": Network(
        module=_public_photos,
        warning="EfficientNet-Lite0 was trained on the photographs of ImageNet. If they contain images of this data "
        "set, the guarantee does not cover what the network learned from them. To train without it: "
        "`privaware fit DATA --features prior,network=small,glyphs=0.5`.",
    ),
}
"""The public networks, each by the name of the feature that reads it; this name is a value of the fact `installed`."""

FACTS: dict[str, str] = {
    "form": "table, text or image",
    "task": "classification or regression",
    "rows": "the declared number of rows",
    "epsilon": "the privacy budget",
    "rows_epsilon": "rows times epsilon, divided by the cap if persons are protected",
    "relative_signal": "rows_epsilon divided by 450 for a regression, by 250 for classes if bounded, else by 100",
    "classes": "the number of classes; 0 for a regression",
    "columns": "the number of coded columns of a table, without the target; otherwise 0",
    "levels": "the number of levels of all categories; 0 if fewer than half of the columns are categories",
    "cap": "the largest number of rows of one person that are used; 1 if rows or labels are protected",
    "rows_per_cross": "rows_epsilon for each pair of levels of two columns; 0 unless all columns are declared "
    "categories with at most 4,096 pairs",
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
COMPARISON = re.compile(r"(<=|>=|<|>) ?([0-9]+(?:[.][0-9]+)?(?:e[0-9]+)?)")
WORDS: dict[str, tuple[Any, ...]] = {
    "form": ("table", "text", "image"),
    "task": ("classification", "regression"),
    "device": ("cpu", "gpu"),
    "installed": tuple(NETWORKS),
    "bounded": (True, False),
}
"""The values of facts that are not numbers."""


def facts_of(schema: Schema, epsilon: float, device: str = "cpu") -> dict[str, Any]:
    """Return the values of `FACTS` for a schema, a budget and a device.

    A table with a column of images has the form image, and another table whose texts are kept whole has the form text,
    so that the rules for images and for texts apply to them. If persons are protected, the noise hides `schema.cap`
    rows at once, so each row has about `epsilon / schema.cap` of the budget. The number of rows that are used is
    private; `schema.rows` is its upper limit. `installed` is a set of names. Every `device` but "cpu" is a gpu.
    """
    channels, *sides = schema.shape if schema.has_images else (0, 0)
    cap = schema.cap if of_persons(schema) else 1
    signal = schema.rows * epsilon / cap
    return {
        "form": "image" if schema.has_images else "text" if schema.has_whole_texts else schema.form,
        "task": schema.task,
        "rows": schema.rows,
        "epsilon": epsilon,
        "rows_epsilon": signal,
        "relative_signal": signal / (FEW_ROWS[schema.bounded] if schema.classes else FEW_ROWS_OF_NUMBERS),
        "classes": len(schema.classes),
        "columns": len(schema.used) if schema.form == "table" else 0,
        "levels": _levels(schema),
        "cap": cap,
        "rows_per_cross": signal / _crosses(schema),
        "channels": channels,
        "side": min(sides),
        "larger_side": max(sides),
        "device": "cpu" if device == "cpu" else "gpu",
        "bounded": schema.bounded,
        "installed": {name for name, network in NETWORKS.items() if network.module.installed()},
    }


def _levels(schema: Schema) -> int:
    """Return the number of levels of all categorical columns, or 0 if fewer than half of the columns are categorical.

    A level is one declared category of a column. A column without declared categories counts `UNDECLARED_LEVELS`.
    """
    categories = [column for column in schema.used if column.kind == "category"]
    if 2 * len(categories) < len(schema.used):
        return 0
    return sum(len(column.categories) or UNDECLARED_LEVELS for column in categories)


def _crosses(schema: Schema) -> float:
    """Return the number of pairs of levels of two different columns, all of them categorical.

    A level is a declared category of a column, or its one level for missing and unseen values. The number is infinite
    if there are fewer than two columns, if a column is no category with declared levels, or if there are more than
    `MOST_CROSSES` pairs.
    """
    known = len(schema.used) > 1 and all(column.kind == "category" and column.categories for column in schema.used)
    found = combinations_of(schema) if known else math.inf
    return found if found <= MOST_CROSSES else math.inf


def holds(condition: Any, value: Any) -> bool:
    """Whether the `value` of a fact satisfies `condition`: a value, a comparison such as ">= 5", or a list of them.

    All conditions of a list must hold. If `value` is a set, `condition` must be an element of it.
    """
    if isinstance(condition, list):
        return all(holds(each, value) for each in condition)
    if isinstance(condition, str) and (found := COMPARISON.fullmatch(condition)):
        return bool(OPERATORS[found[1]](value, float(found[2])))
    return bool(condition in value if isinstance(value, set) else condition == value)


def expect_condition(rule: str, fact: str, condition: Any) -> None:
    """Raise `WrongInput` unless `condition` of the rule named `rule` fits `fact`.

    For a fact in `WORDS` it must be one of the values there. For any other fact it must be a number or a comparison
    such as ">= 5", or a list of numbers and comparisons.
    """
    if fact in WORDS:
        expect_one_of(f"rule {rule!r:.60}", WORDS[fact], **{fact: condition})
        return
    for each in condition if isinstance(condition, list) else [condition]:
        good = type(each) in (int, float) or (isinstance(each, str) and COMPARISON.fullmatch(each))
        expect(good, f"rule {rule!r:.60}", f'{fact} as a number or a comparison such as ">= 5"', each)


def resolved(value: Any, facts: Facts) -> Any:
    """Return `value`, a setting or settings, with each text "$name" replaced by the quantity `name` for these `facts`.

    Entries of a mapping whose quantity is None are left out; elsewhere None stays. Raise `KeyError` for an unknown
    quantity.
    """
    if isinstance(value, str) and value.startswith("$"):
        return QUANTITIES[value[1:]](facts)
    if isinstance(value, list):
        return [resolved(each, facts) for each in value]
    if isinstance(value, Mapping):
        found = {name: resolved(each, facts) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not None}
    return value


FEW_ROWS = {True: 250, False: 100}
"""The rows x epsilon of a table with classes below which it takes `linear`, by whether all columns are bounded."""
FEW_ROWS_OF_NUMBERS = 450
"""The rows x epsilon below which a regression on a table takes `linear`."""
UNDECLARED_LEVELS = 4
"""The number of levels that is assumed of a category whose levels are not declared."""
FEATURES = 1_024
"""The number of random Fourier features of a table."""
ROWS_PER_SCORE = 10
"""The least rows x epsilon for each score of an additive model at which a table gets random Fourier features, too."""
MOST_CROSSES = 4_096
"""The largest number of pairs of levels (a level of one column, a level of another) for the feature `crosses`."""
MANY_ROWS = 200_000
"""The largest number of rows for which a regression gets more and deeper trees."""
ENOUGH_FOR_DEPTH = 40_000
"""The least rows x epsilon at which a regression gets more and deeper trees."""
MOST_SLOTS = 32_768
"""The largest number of hash buckets of a text."""
FEW_SLOTS = 4_096
"""The largest number of hash buckets of a text from which numbers are predicted."""
FEWEST_SLOTS = 256
"""The smallest number of hash buckets of a text, however little memory there is."""
FEW_TEXTS = 1_500
"""The rows x epsilon below which gradients of hashed texts have the default clipping norm of the learner."""
TEXT_BYTES = 1.4e9
"""Memory limit for the hashed words of all texts, in bytes; weighting them takes two copies more."""
LARGEST_SIDE = 40
"""The largest side of an image that is scattered as it is, in pixels: the features grow with the area."""
RESIZED_SIDE = 32
"""The side to which larger images are resized before scattering, in pixels."""


def fourier_features(facts: Facts) -> int:
    """Return the number of random Fourier features of a table: 0 for classes with few rows for the levels, else 1024.

    An additive model has one score for each level and each class but one. The rows are few if
    `rows_epsilon < ROWS_PER_SCORE * levels * (classes - 1)`, with the facts of these names. Then all of the budget goes
    to the additive model.
    """
    scores = facts["levels"] * max(facts["classes"] - 1, 0)
    return 0 if facts["rows_epsilon"] < ROWS_PER_SCORE * scores else FEATURES


def trees(facts: Facts) -> int | None:
    """Return 800, a number of trees, for a regression with a large rows x epsilon and not too many rows, else None.

    That is a rows x epsilon of at least `ENOUGH_FOR_DEPTH`, and at most `MANY_ROWS` rows. None means the default of
    `boosted`.
    """
    return 800 if _deep(facts) else None


def depth(facts: Facts) -> int | None:
    """Return 5, a depth of trees, for a regression with a large rows x epsilon and not too many rows, else None.

    That is a rows x epsilon of at least `ENOUGH_FOR_DEPTH`, and at most `MANY_ROWS` rows. None means the default of
    `boosted`.
    """
    return 5 if _deep(facts) else None


def _deep(facts: Facts) -> bool:
    enough = facts["rows"] <= MANY_ROWS and facts["rows_epsilon"] >= ENOUGH_FOR_DEPTH
    return bool(not facts["classes"] and enough)


def slots(facts: Facts) -> int:
    """Return the number of hash buckets of a text.

    It is the largest power of 2 from `FEWEST_SLOTS` to `MOST_SLOTS` at which all texts take at most `TEXT_BYTES`, at 4
    bytes for each bucket of each row. It is `FEWEST_SLOTS` if there is none.
    """
    number = MOST_SLOTS
    while number > FEWEST_SLOTS and 4 * number * facts["rows"] > TEXT_BYTES:
        number //= 2
    return number


def text_norm(facts: Facts) -> float | None:
    """Return 0.25, a clipping norm, for texts with a rows x epsilon of at least `FEW_TEXTS`, else None: the default."""
    return None if facts["rows_epsilon"] < FEW_TEXTS else 0.25


def few_slots(facts: Facts) -> int:
    """Return the number of hash buckets of a text in a regression: `slots`, but at most `FEW_SLOTS`."""
    return min(slots(facts), FEW_SLOTS)


def scattering(facts: Facts) -> list[dict[str, Any]]:
    """Return descriptions of features, in order: wavelet scattering, then normalisation of groups of maps.

    Images with a side above `LARGEST_SIDE` are resized first.
    """
    resize = [{"name": "resize", "side": RESIZED_SIDE}] if facts["larger_side"] > LARGEST_SIDE else []
    return [*resize, {"name": "scatter"}, {"name": "group_norm", "groups": 27}]


def size(facts: Facts) -> int | None:
    """Return the side in pixels to which images are enlarged, or None if they are not.

    `choose` puts this size into `facts`: the largest image size of the rule with which its cost is within the limits.
    """
    return facts.get("size")


QUANTITIES: dict[str, Callable[[Facts], Any]] = {
    "fourier_features": fourier_features,
    "trees": trees,
    "depth": depth,
    "slots": slots,
    "few_slots": few_slots,
    "text_norm": text_norm,
    "scattering": scattering,
    "size": size,
}
"""Every quantity that a setting may name after a `$`."""
