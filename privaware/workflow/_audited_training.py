"""The training that an audit of a model repeats: the learner, its settings and its epsilon, read from the card.

A card may also describe a search and a bought score (a noisy, charged score of the model). The audit repeats one
training of the chosen candidate, without the score, at the epsilon of that training. The claim that the audit tests
stays the epsilon of the whole card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privaware import accounting
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.events import Composed, Disjoint, Event, Group, Selected
from privaware.models.spaces import Space, spaces
from privaware.workflow._score import SCORE_SETTINGS
from privaware.workflow.run.plan import grouped

NOT_OF_THE_LEARNER = ("policy", "workflow", "search", "space", "trials", "held_out", "options", *SCORE_SETTINGS)
"""Settings on a card that are not settings of its learner."""
SEARCHED = (
    "The audit repeats one training of the chosen candidate at the epsilon of one training. It does not attack the "
    "selection of the candidate."
)


@dataclass(frozen=True, kw_only=True)
class AuditedTraining:
    """The learner of a released model, its settings, and the epsilon of one training.

    `notes` say in sentences what the audit does not attack: the selection of a candidate, if there was a search.
    """

    learner: str
    settings: Mapping[str, Any]
    epsilon: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, card: ModelCard) -> AuditedTraining:
        """Read the training from the last event of `card`; a searched model is read with its chosen candidate.

        Raise `WrongInput` if there is no event, if the last event costs nothing, or if the search space is not known.
        """
        part = card.events[-1] if card.events else None
        if part is None or not part.epsilon:
            raise WrongInput(
                "expected a model that was charged for, got one that cost nothing: there is nothing to audit"
            )
        own = {name: value for name, value in card.settings.items() if value is not None}
        own = {name: value for name, value in own.items() if name not in NOT_OF_THE_LEARNER}
        learner, notes = card.learner, tuple[str, ...]()
        event = _without_score(part.event, card.score)
        if "point" in card.search and "space" in _search_settings(card):
            space = _space(_search_settings(card)["space"])
            own |= space.settings(card.search["point"])
            learner, notes, event = str(own.pop("learner", space.learner)), (SEARCHED,), _one_trial(event)
        epsilon = part.epsilon if event == part.event else accounting.epsilon(event, card.guarantee.delta)
        return cls(learner=learner, settings=own, epsilon=epsilon, notes=notes)


def _search_settings(card: ModelCard) -> Mapping[str, Any]:
    """Return the settings of the search on `card`: the entry `search` of its settings, or else all of its settings.

    `fit` writes the entry `search`. `search` writes these settings beside the settings of the learner. If the entry is
    no mapping, return an empty dictionary.
    """
    described = card.settings.get("search", card.settings)
    return described if isinstance(described, Mapping) else {}


def _space(described: Any) -> Space:
    """Return the space that has the name `described`, or the known space whose choices are the mapping `described`.

    Raise `WrongInput` if there is none.
    """
    if isinstance(described, str) and described in spaces():
        return Space.load(described)
    if isinstance(described, Mapping):
        for name in spaces():
            space = Space.load(name)
            if {key: list(values) for key, values in space.choices.items()} == {**described}:
                return space
    raise WrongInput(
        "expected a model that was searched in a space of `privaware list spaces`, got another space, which its card "
        "does not hold; audit the learner with `privaware audit DATA --learner NAME`"
    )


def _without_score(event: Event, score: Mapping[str, Any]) -> Event:
    """Return `event` without the cost of its bought score; unchanged if `score`, the score on the card, is empty.

    If a score is released beside the training, the event is `Disjoint`, and its second part is the cost of the score. A
    score composed with the training is the last event, or the last two events if a mean absolute error was compared
    with a private constant.
    """
    if not score:
        return event
    if isinstance(event, Group):
        return grouped(_without_score(event.event, score), event.size)
    if isinstance(event, Disjoint):
        return event.events[0]
    last = 2 if score.get("metric") == "mae" and "constant" in score else 1
    return Composed(events=event.events[:-last]) if isinstance(event, Composed) else event


def _one_trial(event: Event) -> Event:
    """Return the event of one training of a private selection, without the scoring of the candidates.

    Training is the first part of a `Disjoint` event. Any other event, such as the cost of another search, is returned
    whole.
    """
    if isinstance(event, Group):
        return grouped(_one_trial(event.event), event.size)
    if isinstance(event, Selected):
        return _one_trial(event.event)
    return event.events[0] if isinstance(event, Disjoint) else event
