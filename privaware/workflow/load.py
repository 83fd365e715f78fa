"""Load a released model from its folder, and refuse files that were changed. This has no privacy cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import features
from privaware.card import Guarantee, ModelCard
from privaware.errors import WrongInput
from privaware.model import TENSORS, Model, read_tensors

__all__ = ["ReleasedModel", "changed_tensors", "load", "loaded"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasedModel(Model):
    """A model as it was released, with its card."""

    card: ModelCard

    @property
    def guarantee(self) -> Guarantee:
        return self.card.guarantee

    def _facts(self) -> dict[str, Any]:
        return {**self.card._facts(), **super()._facts()}

    def _words(self) -> str:
        return self.guarantee.sentence


def load(folder: str | Path) -> ReleasedModel:
    """Load a released model from its folder.

    Parameters
    ----------
    folder
        A folder that `fit` or `search` wrote. A damaged folder raises `WrongInput`, and so do tensors whose hash is not
        the hash on the card.

    Returns
    -------
    ReleasedModel
        The model, with `predict`, `predict_proba`, `card` and `guarantee`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privaware import fit
    >>> with TemporaryDirectory() as folder:
    ...     released = fit("wisconsin", epsilon=1.0, learner="majority", out=f"{folder}/model")
    ...     model = load(f"{folder}/model")
    >>> model.guarantee.epsilon <= 1.0, model.card.learner, len(model.predict("wisconsin")) > 100
    (True, 'majority', True)
    """
    model = loaded(folder)
    problem = changed_tensors(Path(folder), model.card)
    if problem and model.card.tensors:  # a card of an older version has no hash
        raise WrongInput(f"{problem}; restore the folder")
    return model


def changed_tensors(folder: Path, card: ModelCard) -> str:
    """Return a sentence if the hash of the tensor file is not the hash on `card`, else an empty text.

    A file with another hash may still load.
    """
    if hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest() == card.tensors:
        return ""
    return f"{TENSORS} is not the file that was released: its hash differs from model.json"


def loaded(folder: str | Path) -> ReleasedModel:
    """Load a model from its folder, as `load` does, without comparing the hash of the tensor file with the card.

    Raise `WrongInput` if a file is missing or damaged.
    """
    card = ModelCard.read(folder)
    tensors = read_tensors(Path(folder))
    try:
        model = ReleasedModel(
            schema=card.schema,
            features=tuple(features.build(description) for description in card.features),
            architecture=card.architecture,
            tensors=tensors,
            card=card,
        )
        model.check()
    except WrongInput:
        raise
    except Exception as problem:  # a wrong description can surface in any layer of a network
        reason = " ".join(f"{type(problem).__name__} {problem}".split())
        raise WrongInput(
            f"model.json is damaged: its model cannot be built ({reason:.200}); restore the folder"
        ) from None
    return model
