"""The rules of `advise`: the flowchart of Bao et al. and section 5.7 of DPMLBench, with our own evidence first.

A rule looks at public facts only. What it cites is in `advice.json`, which `python -m research.papers._advice` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from privaware.schema import Schema

__all__ = ["AdviceFacts", "advice", "stored_evidence"]

ENOUGH = 50
"""Below this many rows x epsilon a class a constant is the better bet."""
MANY = 8
"""From so many columns on their number is worth a word."""
LARGE = 10.0
"""From this epsilon on the larger network has won on some of the recorded data."""


@cache
def stored_evidence() -> dict[str, Any]:
    """The shipped table."""
    loaded: dict[str, Any] = json.loads(files("privaware.workflow").joinpath("advice.json").read_text(encoding="utf-8"))
    return loaded


@dataclass(frozen=True, kw_only=True)
class AdviceFacts:
    """What is public and asked for."""

    schema: Schema
    epsilon: float
    public: bool = False

    @property
    def signal(self) -> float:
        """Rows x epsilon a class."""
        return self.schema.rows * self.epsilon / max(len(self.schema.classes), 1)

    @property
    def categories(self) -> int:
        return sum(column.kind in ("category", "undecided") for column in self.schema.used)

    @property
    def network(self) -> bool:
        """Whether a network is likely to be tried."""
        return self.schema.form != "table"


@dataclass(frozen=True)
class Rule:
    """`do` is the advice in one sentence, `because` why it holds for these facts, `cites` names of evidence."""

    name: str
    do: str
    because: Callable[[AdviceFacts], str]
    cites: tuple[str, ...]
    applies: Callable[[AdviceFacts], bool]


RULES = (
    Rule(
        "few_rows",
        "Release a constant, or ask for more rows or a larger epsilon",
        lambda f: f"{f.signal:.3g} rows x epsilon a class are too few for more than a constant",
        ("few_rows",),
        lambda f: f.signal < ENOUGH,
    ),
    Rule(
        "free_features",
        "Learn a linear model on features without privacy cost: the prior with scattering, or `extractor`",
        lambda f: (
            "what is not computed from rows needs no noise, and a linear head has few parameters; `extractor` is a "
            "network that learned from public photographs, which no guarantee covers if these very images were in them"
        ),
        ("free_features", "pixels"),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "public_images",
        "Take features of public images if there are any that may be used",
        lambda f: "no --public was given; on hard images public features gain most",
        ("public_images",),
        lambda f: f.schema.form == "image" and not f.public,
    ),
    Rule(
        "table",
        "Begin with what `fit` takes by itself, and declare bounds that are public",
        lambda f: "bounds and categories that nobody declared are bought from the same epsilon",
        ("tables",),
        lambda f: f.schema.form == "table" and bool(f.schema.classes),
    ),
    Rule(
        "linear_on_columns",
        "Learn on all columns; choose few of them only where the noise grows with their number",
        lambda f: (
            f"{len(f.schema.used)} columns: for objective perturbation a choice pays at epsilon {f.epsilon:g}, for "
            "linear it has not paid here, and every choice is charged"
        ),
        ("columns", "charged_columns"),
        lambda f: f.schema.form == "table" and len(f.schema.used) >= MANY,
    ),
    Rule(
        "one_hot",
        "With objective perturbation leave category columns out at this epsilon",
        lambda f: f"{f.categories} columns may be categories, and each of their codes is one more noisy coefficient",
        ("one_hot",),
        lambda f: f.schema.form == "table" and f.categories > 0 and f.epsilon < 5,
    ),
    Rule(
        "simple_network",
        "Of two networks take the smaller",
        lambda f: f"epsilon {f.epsilon:g} is below every measured crossover; `privaware crossover` measures yours",
        ("crossovers", "logistic"),
        lambda f: f.network and f.schema.form == "image" and f.epsilon < LARGE,
    ),
    Rule(
        "larger_network",
        "Compare a small and a larger network by `privaware crossover`",
        lambda f: f"epsilon {f.epsilon:g} is among the measured crossovers, which differ between data sets",
        ("crossovers",),
        lambda f: f.network and f.schema.form == "image" and f.epsilon >= LARGE,
    ),
    Rule(
        "wide_not_deep",
        "Make a network wide rather than deep",
        lambda f: "at the same number of parameters noise costs a deep network more",
        ("depth",),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "frozen_layers",
        "Train all layers of a fully connected network, and freeze those of a CNN only at a very small epsilon",
        lambda f: f"at epsilon {f.epsilon:g} random frozen layers lose more than their missing noise gains",
        ("frozen_layers",),
        lambda f: f.schema.form == "image" and f.epsilon > 0.2,
    ),
    Rule(
        "freeze_cnn",
        "Try a CNN whose first layers stay random (`--learner frozen`)",
        lambda f: (
            f"epsilon {f.epsilon:g} is below the measured crossover of a CNN; of a fully connected network none is"
        ),
        ("frozen_layers",),
        lambda f: f.schema.form == "image" and f.epsilon <= 0.2,
    ),
    Rule(
        "components",
        "For a fully connected network on pixels pay for private principal components",
        lambda f: "300 components cost little and leave a smaller first layer",
        ("components",),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "activation",
        "Try tanh in place of ReLU (`--learner tanh`)",
        lambda f: "bounded activations keep gradients small, so that less of them is clipped",
        ("activation",),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "step_size",
        "Let the step size follow the noise",
        lambda f: "a step size that suits training without noise loses more than any choice of a network",
        ("step_size",),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "text",
        "Begin with a linear model on `sentences`, or on hashed words; a recurrent network asks for a larger epsilon",
        lambda f: (
            "neither has a privacy cost, and a linear model has no layer to train under noise; `sentences` is a "
            "network that learned from public text, which no guarantee covers if these very rows were in it"
        ),
        ("text",),
        lambda f: f.schema.form == "text",
    ),
    Rule(
        "regression",
        "Begin with a linear model; if a network is needed take two layers",
        lambda f: "deep networks gave worse numbers than a constant under noise",
        ("regression",),
        lambda f: f.schema.task == "regression",
    ),
    Rule(
        "search",
        "Search on public rows, or by `rs`, or not at all",
        lambda f: (
            "a random search costs about "
            f"{stored_evidence()['evidence']['searches']['ratio']:g} times one model, a search that learns from scores "
            "pays for every trial"
            + (f"; at epsilon {f.epsilon:g} that leaves little for the model" if f.epsilon < 2 else "")
        ),
        ("searches",),
        lambda f: f.signal >= ENOUGH,
    ),
    Rule(
        "labels",
        "Protect rows, and labels alone only where nothing else is sensitive",
        lambda f: "label privacy hides the label and not that a person is among the rows",
        ("labels",),
        lambda f: bool(f.schema.classes),
    ),
)


def advice(facts: AdviceFacts) -> Iterator[dict[str, Any]]:
    """The rules that apply, each with its reason and its evidence."""
    stored = stored_evidence()["evidence"]
    for rule in RULES:
        if rule.applies(facts):
            cited = [_cited(name, stored[name]) for name in rule.cites]
            yield {"name": rule.name, "rule": rule.do, "reason": rule.because(facts), "evidence": cited}


def _cited(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, **{key: entry[key] for key in ("ours", "paper", "differs", "page", "command")}}
