"""The findings of `advise`: rules of Bao et al., DPMLBench, DPNAS, and Tramer and Boneh, with measured evidence.

A rule uses public facts only. Its evidence is in `advice.json`, which `python -m research.papers._advice` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from privaware.data._persons import of_persons
from privaware.errors import for_caller
from privaware.schema import Schema

ENOUGH = 50
"""Value of `AdviceFacts.signal` below which a constant prediction is advised, and from which on a search is advised."""
MANY = 8
"""Number of columns of a table from which on the advice mentions column selection."""
LOW_RANK_BELOW = 4.0
"""Epsilon below which gradients of low rank were more accurate than DP-SGD."""
CITED = ("ours", "paper", "differs", "page", "command")
"""Entries of a piece of evidence in `advice.json` that a finding repeats."""


@cache
def stored_evidence() -> dict[str, Any]:
    """Return the content of the shipped file `advice.json`."""
    return json.loads(files("privaware.workflow").joinpath("advice.json").read_text(encoding="utf-8"))


@cache
def crossover_range() -> tuple[float, float]:
    """Return the smallest and the largest epsilon at which a larger network overtook a smaller one in `advice.json`."""
    measured = stored_evidence()["evidence"]["crossovers"]["crossovers"].values()
    return min(measured), max(measured)


@dataclass(frozen=True, kw_only=True)
class AdviceFacts:
    """The public facts and the requested epsilon; `public` says whether public rows are available."""

    schema: Schema
    epsilon: float
    public: bool = False

    @property
    def signal(self) -> float:
        """The number of rows times epsilon, divided by the number of classes (by 1 for a regression)."""
        return self.schema.rows * self.epsilon / max(len(self.schema.classes), 1)


@dataclass(frozen=True)
class Rule:
    """One rule: `do` is the advice, and `applies` says whether it is given for some facts.

    `do` may also be a function that returns the advice for these facts.

    `because` returns the reason for these facts. `cites` names entries of the evidence in `advice.json`; by default it
    is the entry with the name of the rule.
    """

    name: str
    do: str | Callable[[AdviceFacts], str]
    because: Callable[[AdviceFacts], str]
    applies: Callable[[AdviceFacts], bool]
    cites: tuple[str, ...] = ()


RULES = (
    Rule(
        "few_rows",
        "Release a constant prediction, or collect more rows, or use a larger epsilon",
        lambda f: f"rows x epsilon per class is {f.signal:.3g}, which is too few to beat a constant prediction",
        lambda f: f.signal < ENOUGH,
    ),
    Rule(
        "free_features",
        "Train a linear model on features that have no privacy cost: `prior` with `scatter`, or `extractor`",
        lambda f: (
            "fixed features need no noise, and a linear head has few parameters. `extractor` is a network pretrained "
            "on public photographs; the guarantee does not cover an image that was among those photographs"
        ),
        lambda f: f.schema.form == "image",
        ("free_features", "pixels"),
    ),
    Rule(
        "public_images",
        "Use a network pretrained on public images, if you have such images",
        lambda f: "no --public was given, and public features help most on difficult images",
        lambda f: f.schema.form == "image" and not f.public,
    ),
    Rule(
        "table",
        "Start with the defaults of `fit`, and declare the column ranges that are public",
        lambda f: "estimating ranges and categories that are not declared uses part of epsilon",
        lambda f: f.schema.form == "table" and bool(f.schema.classes),
        ("tables",),
    ),
    Rule(
        "linear_on_columns",
        "Use all columns. A selection of columns costs part of the budget, and `fit` needs none by default",
        lambda f: (
            f"there are {len(f.schema.used)} columns. In the recorded runs a selection made only the learner "
            "objective_perturbation more accurate, and the learner linear on all columns was more accurate still"
        ),
        lambda f: f.schema.form == "table" and len(f.schema.used) >= MANY,
        ("columns", "charged_columns"),
    ),
    Rule(
        "simple_network",
        "Prefer the smaller of two fully connected networks; a smaller convolutional network is no better",
        lambda f: (
            f"epsilon {f.epsilon:g} is below every crossover that was measured; `privaware crossover` measures it on "
            "your data"
        ),
        lambda f: f.schema.form == "image" and f.epsilon < crossover_range()[0],
        ("smaller_networks", "crossovers", "logistic"),
    ),
    Rule(
        "larger_network",
        "Compare a small and a larger network with `privaware crossover`",
        lambda f: (
            "the larger network overtook the smaller one at epsilons from {:.2g} to {:,.0f}, depending on the data "
            "set".format(*crossover_range())
        ),
        lambda f: f.schema.form == "image" and f.epsilon >= crossover_range()[0],
        ("crossovers",),
    ),
    Rule(
        "wide_not_deep",
        "Prefer a wide network to a deep one",
        lambda f: "with the same number of parameters, a deep network loses more accuracy to noise",
        lambda f: f.schema.form == "image",
        ("depth",),
    ),
    Rule(
        "frozen_layers",
        "Train all layers of a fully connected network; freeze layers of a CNN only if epsilon is very small",
        lambda f: f"at epsilon {f.epsilon:g}, freezing random layers costs more accuracy than the smaller noise gains",
        lambda f: f.schema.form == "image" and f.epsilon > 0.2,
    ),
    Rule(
        "freeze_cnn",
        "Try a CNN whose first layers are random and frozen (`--learner=frozen`)",
        lambda f: (
            f"epsilon {f.epsilon:g} is below the measured crossover of a CNN; a fully connected network has no such "
            "crossover"
        ),
        lambda f: f.schema.form == "image" and f.epsilon <= 0.2,
        ("frozen_layers",),
    ),
    Rule(
        "components",
        "For a fully connected network on pixels, use private principal components (`--features=pca`)",
        lambda f: "300 components use little of the budget and make the first layer smaller",
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "activation",
        "In a convolutional network, use SELU or tanh (`--learner=tanh`) in place of ReLU, and max pooling",
        lambda f: "these activations keep gradients small, so clipping removes less of them",
        lambda f: f.schema.form == "image",
        ("selu", "activation"),
    ),
    Rule(
        "group_norm",
        "With ReLU, use group normalisation; choose the batch size by the time it takes",
        lambda f: "batches of different sizes are equally accurate if each has its own learning rate",
        lambda f: f.schema.form == "image",
        ("group_norm", "batch_size"),
    ),
    Rule(
        "low_rank",
        "Train a large network with gradients of low rank (`--learner=rgp`)",
        lambda f: f"at epsilon {f.epsilon:g} the noise grows with the number of parameters, and low rank reduces it",
        lambda f: f.schema.form == "image" and f.epsilon < LOW_RANK_BELOW,
    ),
    Rule(
        "ensembles",
        "If attacks matter more than accuracy, release an ensemble (`--learner=pate`), which needs your public rows",
        lambda f: "its released model never sees a private row",
        lambda f: bool(f.schema.classes) and f.public,
    ),
    Rule(
        "step_size",
        "Tune the learning rate for training with noise",
        lambda f: (
            "a learning rate that suits training without noise costs more accuracy than the choice of the network"
        ),
        lambda f: f.schema.form == "image",
    ),
    Rule(
        "text",
        "Start with a linear model on `sentences` or `hashed` features; a recurrent network needs a larger epsilon",
        lambda f: (
            "these features have no privacy cost, and a linear model has no hidden layer to train with noise. "
            "`sentences` is a network pretrained on public text; the guarantee does not cover a row that was in that "
            "text"
        ),
        lambda f: f.schema.form == "text",
    ),
    Rule(
        "regression",
        "Start with the defaults of `fit`; if you choose a network, take two layers",
        lambda f: "deep networks trained with noise were worse than a constant prediction",
        lambda f: f.schema.task == "regression",
    ),
    Rule(
        "search",
        lambda f: (
            "Search settings on the public rows, which costs nothing"
            if f.public
            else f"Do not search settings on these {f.schema.rows:,} rows at epsilon {f.epsilon:g}: train with defaults"
            if f.epsilon < 2
            else f"If you search settings on these {f.schema.rows:,} rows at epsilon {f.epsilon:g}, take `--search=rs`"
        ),
        lambda f: (
            f"a random search costs about {stored_evidence()['evidence']['searches']['ratio']:g} times the epsilon of "
            "one model. A search that adapts to the scores is charged for every trial"
            + (f". At epsilon {f.epsilon:g} little is left for the model" if f.epsilon < 2 else "")
        ),
        lambda f: f.signal >= ENOUGH,
        ("searches",),
    ),
    Rule(
        "labels",
        "Protect whole rows; protect only labels (`--unit=label`) if no other column is sensitive",
        lambda f: "label privacy hides the label of a row, and not that the row is in the data; it leaks more",
        lambda f: bool(f.schema.classes) and not of_persons(f.schema),
    ),
)


def advice(facts: AdviceFacts) -> Iterator[dict[str, Any]]:
    """Yield the rules that apply to `facts`, in the order of `RULES`.

    Each is a dictionary with `name`, `rule` (the advice), `reason` and `evidence` (a list of entries of `advice.json`).
    """
    stored = stored_evidence()["evidence"]
    for rule in RULES:
        if rule.applies(facts):
            names = rule.cites or (rule.name,)
            cited = [{"name": name, **{key: stored[name][key] for key in CITED}} for name in names]
            advised = rule.do if isinstance(rule.do, str) else rule.do(facts)
            yield {
                "name": rule.name,
                "rule": for_caller(advised),
                "reason": for_caller(rule.because(facts)),
                "evidence": cited,
            }
