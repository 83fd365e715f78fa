"""The choice of `auto`: a learner with its settings and the releases before it; and tables with free text or images.

For a table with free text or images, the rules for texts or images choose the learner. The feature `mixed` then puts
features of the other columns, scaled by its setting `columns`, beside the features of the texts or images. If the
learner that they choose reads no whole texts, the texts are hashed, and the rules for tables choose.

>>> beside_columns({"features": [{"name": "hashed", "slots": 8}]})["features"]
[{'name': 'mixed', 'text': {'name': 'hashed', 'slots': 8}}]
>>> beside_columns({"features": [{"name": "prior"}]}, images=True)["features"]
[{'name': 'mixed', 'image': [{'name': 'prior'}], 'columns': 0.25}]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from privaware.data import Data
from privaware.mechanism import Mechanism, Then
from privaware.registry import names
from privaware.schema import Schema

MIXED = "mixed"
"""The feature that reads texts or images and the other columns of a table."""
TEXT_FEATURES = ("hashed", "sentences")
"""Features that read texts."""
BESIDE_IMAGES = 0.25
"""Weight of the other columns beside images (`columns` of `mixed`); see docs/results/mixed.md."""
BESIDE = "All other columns are read by random Fourier features beside the features of the {whole}."
"""The sentence of the plan about the columns that are not text, or not images; `whole` is "texts" or "images"."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A release before the learner, such as private quantiles; `what` describes it in a few words for the plan.

    `mechanism` makes the release. `join(rows, release)` returns the rows that the learner sees, and `outline(schema)`
    returns their schema. `share` is the noise multiplier of the release divided by the noise multiplier of the learner.
    """

    what: str
    mechanism: Mechanism[Any]
    join: Callable[[Data, Any], Data]
    outline: Callable[[Schema], Schema] = lambda schema: schema
    share: float = 1.0

    def then(self, second: Mechanism[Any]) -> Then:
        """Return the mechanism that makes this release first, then runs `second` on the rows that `join` returns."""
        return Then(
            first=self.mechanism, second=second, join=self.join, outline=self.outline, share=self.share, what=self.what
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A learner with its settings, the releases before it, and the reasons in words; a function of public facts only.

    `details` are sentences that the summary of a plan may leave out, the most useful first. `releases` names the
    releases that a rule asks for ("bins", "target_range"). `before` holds the stages that are built from these names,
    in order, after bounds that are not declared. `rule` is the name of the rule that chose, and `evidence` its page of
    results. `considered` has a row for each learner that was considered (`_considered.py`).
    """

    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    before: tuple[Stage, ...] = ()
    rule: str = ""
    evidence: str = ""
    considered: tuple[Mapping[str, Any], ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences about the choice."""
        return (*self.reasons, *self.details)


def constant_learner(schema: Schema, metric: str | None = None) -> str:
    """Return the learner of a constant: majority for classes; for numbers median with metric "mae", else mean."""
    return "majority" if schema.classes else "median" if metric == "mae" else "mean"


def constant_choice(schema: Schema, why: str, metric: str | None = None) -> Choice:
    """Return the choice of a private constant prediction; `why` is the reason that its sentence in the plan gives.

    `schema` and `metric` decide which constant it is (see `constant_learner`).
    """
    constant = constant_learner(schema, metric)
    return Choice(learner=constant, reasons=(f"Learner: {constant} (a constant prediction), because {why}.",))


def reads_texts(settings: Mapping[str, Any]) -> bool:
    """Return whether the features in `settings` include `mixed`, which reads the whole texts or images of a table."""
    return MIXED in _names(settings)


def beside_columns(settings: Mapping[str, Any], *, images: bool = False) -> dict[str, Any]:
    """Return a copy of `settings` whose first feature, if it is in `TEXT_FEATURES`, is wrapped in the feature `mixed`.

    `mixed` reads the other columns of a table, too. With `images` all features before the first charged one are
    wrapped, unless one is `mixed` already. Other settings are copied unchanged.
    """
    if images:
        read = len(list(takewhile(names("features").__contains__, _names(settings))))
        if not read or reads_texts(settings):
            return dict(settings)
        described = settings["features"]
        mixed = {"name": MIXED, "image": described[:read], "columns": BESIDE_IMAGES}
        return {**settings, "features": [mixed, *described[read:]]}
    if not set(_names(settings)[:1]) & set(TEXT_FEATURES):
        return dict(settings)
    text, *others = settings["features"]
    return {**settings, "features": [{"name": MIXED, "text": text}, *others]}


def _names(settings: Mapping[str, Any]) -> list[Any]:
    """Return the names of the features in `settings`; None for a feature without a name.

    If `settings` has no list of features, return an empty list. Learners check whether the features are well described.
    """
    described = settings.get("features")
    listed = described if isinstance(described, list) else []
    return [feature.get("name") for feature in listed if isinstance(feature, Mapping)]
