"""Learners and settings under the names that earlier versions gave them: in stored models, saved plans and scripts.

>>> current_names("boosted", {"trees": 0, "waves": 64, "share": 0.4, "bend": 0.0})
('fourier', {'count': 64, 'share': 0.4, 'skew_correction': 0.0})
>>> current_names("boosted", {"trees": 9, "pairs": 0.0})
('boosted', {'trees': 9})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privaware.errors import WrongInput

__all__ = ["current_names"]

RENAMED = {"reach": "residual_clip", "rest": "bias_clip", "bend": "skew_correction"}
"""Settings of `additive` and `boosted`, which `auto` may take, by their former names."""

SHARE = 0.5
"""The default of `share` when `boosted` had a setting `waves`."""

OF_TREES = ("trees", "depth", "lr")


def current_names(learner: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the learner and its settings under the names of today; names of today are returned as they are.

    `boosted` with `waves` and without trees is now `fourier`. Settings of a mode that is gone raise `WrongInput`: trees
    and random Fourier features in one model, and the private test of pairs of columns.

    Parameters
    ----------
    learner
        The name of a learner.
    settings
        Its settings, perhaps under former names.

    Returns
    -------
    tuple
        The name of the learner, and its settings.
    """
    if learner not in ("additive", "auto", "boosted"):
        return learner, dict(settings)
    current = {RENAMED.get(name, name): value for name, value in settings.items()}
    if learner == "auto":
        return learner, current
    if current.pop("pairs", 0):
        raise WrongInput(f"{learner}: expected no setting pairs, whose test of columns is gone; leave it out")
    waves = current.pop("waves", 0)
    if not waves:
        return learner, current
    if learner == "additive" or current.get("trees") != 0:
        raise WrongInput(
            f"{learner}: expected no setting waves beside trees; take the learner fourier for random Fourier features, "
            "with count in the place of waves"
        )
    kept = {name: value for name, value in current.items() if name not in OF_TREES}
    return "fourier", {"count": waves, "share": SHARE, **kept}
