"""Everything public that the result of a training depends on, so that a checkpoint is of one run only."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torch import Tensor

from privaware.descent._code_facts import code_facts
from privaware.descent._population import Population
from privaware.descent._recipe import DescentRecipe
from privaware.descent._stack import Stack
from privaware.descent._subsets import Subsets

__all__ = ["settings_digest"]


def settings_digest(
    recipe: DescentRecipe, population: Population, stack: Stack, rows: int, mask: Tensor | None, subsets: Subsets | None
) -> str:
    """All of it in one digest."""
    fields = (recipe.steps, recipe.sampler, recipe.clip, recipe.update, recipe.average)
    more = (recipe.lr_schedule, recipe.noise_schedule, recipe.copies, recipe.precision)
    facts: list[Any] = ["exact sums", *(repr(item) for item in (*fields, *more))]
    functions = (recipe.loss, recipe.augment)
    facts += [code_facts(item) for item in functions]
    facts += [population.noise, population.lr, population.norm, rows, repr(stack.slots), stack.models]
    if stack.key is not None:
        facts += ["keyed draws"]
    if mask is not None:
        facts += [hashlib.sha256(mask.cpu().numpy().tobytes()).hexdigest()]
    if subsets is not None:
        facts += [subsets.digest()]
    if stack.projection is not None:
        facts += [stack.projection.fingerprint]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
