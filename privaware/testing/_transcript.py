"""Attack all noised values of a run by their exact privacy losses.

The cost of a mechanism covers every noised value, not only the release that is computed from them. Take an attacker who
knows both data sets, the noise distribution and all noised values. The best score for this attacker is the
log-likelihood ratio of the noised values with and without the row. The bound uses only the ranks of the scores, so it
holds even if the real noise has another distribution than assumed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.attacks._bounds import epsilon_lower
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.testing._call import Call, as_array
from privaware.testing._likelihood import log_ratio
from privaware.testing._price import blocks
from privaware.testing._rows import Edit
from privaware.testing._tape import Recorder, Replayer

NOISED_NUMBERS = 1_000_000
"""About how many numbers `redrawn_losses` noises for each data set, if no number of games is given."""

MAX_GAMES = 10_000
"""Largest number of games of `redrawn_losses`, if no number of games is given."""


def transcript_game(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    delta: float,
    games: int = 1000,
    confidence: float = 0.999,
) -> float:
    """Return a lower bound on epsilon from all noised values of recorded runs on two neighbouring data sets.

    It is valid only if the mechanism's cost covers every noised value, so not for private selection.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism under test.
    data, neighbour : Data
        The rows, and rows with one row more or one changed.
    noise : float
        The noise multiplier of each run.
    delta : float
        The delta at which to bound epsilon.
    games : int
        Number of runs on each data set. Fewer than four raise `WrongInput`.
    confidence : float
        The confidence of the bound.

    Returns
    -------
    float
        The lower bound on epsilon.

    Examples
    --------
    >>> from privaware.testing import example, rows_for
    >>> class Positive:
    ...     def run(self, data, noise, rng):
    ...         return rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0) > 0
    >>> rows = rows_for(example(), 2)
    >>> bool(2 < transcript_game(Positive(), rows.take(slice(1)), rows, noise=0.2, delta=1e-5, games=200) < 30)
    True
    """
    scores = [
        [
            sum(float(losses.sum()) for losses in privacy_losses(mechanism, data, neighbour, noise, seed=seed, ran=ran))
            for seed in range(first, first + games)
        ]
        for first, ran in ((0, "neighbour"), (games, "data"))
    ]
    return epsilon_lower(*scores, delta=delta, confidence=confidence)


def privacy_losses(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    seed: int,
    ran: str,
    part: int | None = None,
) -> list[np.ndarray]:
    """Run a mechanism once, and return the privacy loss of each noised value.

    The privacy loss is the log-likelihood of the value on `neighbour` minus the log-likelihood on `data`. Releases on
    one Poisson sample have a joint loss, and the attacker does not know whether the row was in the sample. If the
    mechanism splits the rows into parts, the attacker knows the split. A removed row, or a changed one if rows are
    sampled, raises `WrongInput`.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism under test.
    data, neighbour : Data
        The rows, and rows with one row more or one changed.
    noise, seed
        The noise multiplier and the seed of the run.
    ran : str
        "data" or "neighbour": where to run.
    part : int, optional
        The index, from 0, of the part that the row is in, if the mechanism splits the rows.

    Returns
    -------
    list of ndarray
        For each release without sampling, one number for each separately noised value. For each Poisson sample, one
        number. If several samples follow each other, one number for each of them, for each release after them.
    """
    edit = _edit(data, neighbour)
    added = edit.kind == "added"
    in_neighbour = Edit(kind="removed" if added else "changed", at=edit.at, rows=len(neighbour))
    on_neighbour = ran == "neighbour"
    recorder = Recorder(seed, edit=in_neighbour if on_neighbour else edit, inside=None, part=part)
    mechanism.run(neighbour if on_neighbour else data, noise, recorder)
    calls = recorder.calls
    sampled = any(call.kind == "poisson" and call.public["rate"] < 1 for call in calls)
    if sampled and not added:
        raise WrongInput("expected a neighbour with one row more, because the mechanism samples rows, got one changed")

    def evaluated(rows: Data, change: Edit) -> list[Call]:
        """Return the calls of a replay on `rows`, which differ from the recorded rows by `change`."""
        rng = Replayer(seed, calls, change, inside=True, part=part, apart=math.inf)
        mechanism.run(rows, noise, rng)
        rng.finish()
        return rng.calls

    if not on_neighbour:
        return _losses(calls, evaluated(neighbour, edit), calls)
    without = evaluated(data, in_neighbour)
    inside = Edit(kind="changed", at=edit.at, rows=len(neighbour))
    return _losses(without, evaluated(neighbour, inside) if sampled else calls, calls)


def _losses(without: list[Call], within: list[Call], recorded: list[Call]) -> list[np.ndarray]:
    """Return the privacy losses of a run: an array for each release, or one number for each Poisson sample.

    After several consecutive samples there is one array for each release, with one number for each sample.
    `without` and `within` are the calls evaluated on the data without and with the row, and `recorded` the calls of the
    run itself.
    """
    losses = []
    for rates, releases in blocks(recorded):
        ratios = [log_ratio(without[at], within[at], as_array(recorded[at].returned)) for at in releases]
        if not rates or min(rates) == 1:
            losses += ratios
        elif len(rates) == 1:
            losses.append(_sampled(sum(float(ratio.sum()) for ratio in ratios), np.array(rates)))
        else:  # a population: a sample for each model
            losses += [_sampled(ratio, np.array(rates)) for ratio in ratios]
    return losses


def _sampled(losses: Any, rates: np.ndarray) -> np.ndarray:
    """Return the privacy losses on a Poisson sample with `rates`: `log(1 - rates + rates * exp(losses))`.

    `losses` are the losses given that the row is in the sample.
    """
    return np.asarray(np.logaddexp(np.log1p(-rates), np.log(rates) + losses))


def _edit(data: Data, neighbour: Data) -> Edit:
    """Return how `neighbour` differs from `data`; raise `WrongInput` unless one row is added or changed, or none is."""
    edit = Edit.between(data, neighbour)
    if edit.kind == "removed":
        raise WrongInput(
            "expected a neighbour with one row more or one changed, got one row less; exchange the two data sets"
        )
    return edit


def redrawn_losses(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    games: int | None = None,
    count: int = 1,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of many games from a few recorded runs, by noising the recorded exact values again.

    The row is sampled again in each game. The score of a game is its total privacy loss. Raise `WrongInput` if exact
    values depend on noise or a sample of other rows, or if each noised value has a Poisson sample of its own.

    Parameters
    ----------
    mechanism, data, neighbour
        The mechanism under test, the rows, and rows with one row more or one changed.
    noise, seed
        The noise multiplier and the seed.
    games : int, optional
        Number of games on each data set; by default as many as noise about `NOISED_NUMBERS` numbers (4 to `MAX_GAMES`).
    count : int
        Number of times that a game repeats all releases; their losses are added.

    Returns
    -------
    tuple of ndarray
        The scores on `neighbour` and on `data`.
    """
    edit = _edit(data, neighbour)
    changed = Edit(kind="changed", at=edit.at, rows=len(neighbour))
    without = _fixed_calls(mechanism, data, noise, None, seed, inside=True)
    within, outside = (
        _fixed_calls(mechanism, neighbour, noise, changed, seed, inside=inside) for inside in (True, False)
    )
    if len(without) != len(within) or not all(map(_same_settings, without, within)):
        raise WrongInput("expected the same calls of rng on both data sets, got others; `replay` names the first")
    for rates, releases in blocks(without):
        if 1 < len(rates) == sum(np.size(without[at].public.get("noise", 0)) for at in releases):
            raise WrongInput(
                "expected one Poisson sample for all releases on it, got one sample for each; use transcript_game"
            )
    if games is None:
        size = count * sum(call.exact.size for call in without)
        games = min(MAX_GAMES, max(4, NOISED_NUMBERS // max(1, size)))
    rng, scores = Rng(seed=seed), []
    for inside, out in ((within, outside), (without, without)):
        total = np.zeros(games)
        for rates, releases in blocks(without) * count:
            rate = min(1.0, sum(rates)) if rates else 1.0
            sampled = rng.poisson(games, rate)
            losses = np.zeros(games)
            for at in releases:
                returned = _redrawn((out[at], inside[at]), sampled, rng)
                losses += log_ratio(without[at], within[at], returned).reshape(games, -1).sum(axis=1)
            total += losses if rate == 1 else _sampled(losses, np.array(rate))
        scores.append(total)
    return scores[0], scores[1]


def _fixed_calls(
    mechanism: Mechanism[Any], rows: Data, noise: float, edit: Edit | None, seed: int, *, inside: bool
) -> list[Call]:
    """Run `mechanism` on `rows` with `seed` and with `seed + 1`, and return the calls of the first run.

    `inside` says whether the row of `edit` is in every sample or in none; if `edit` is None, it has no effect. Raise
    `WrongInput` if a public setting or an exact value of a call differs between the two runs (samples of rows may), or
    if there is a call of `perturb` or `iterate`.
    """
    tapes = []
    for each in (seed, seed + 1):
        recorder = Recorder(each, edit=edit, inside=inside)
        mechanism.run(rows, noise, recorder)
        tapes.append(recorder.calls)
    first, second = tapes
    same = len(first) == len(second) and all(
        one.samples_rows or (_same_settings(one, two) and np.array_equal(one.exact, two.exact))
        for one, two in zip(first, second, strict=True)
    )
    if not same or any(call.kind in ("perturb", "iterate") for call in first):
        raise WrongInput(
            "expected exact values that depend on the rows alone, got some that depend on noise or samples; use "
            "transcript_game, which runs the mechanism for each game"
        )
    return first


def _same_settings(one: Call, two: Call) -> bool:
    """Return whether two calls have the same kind and the same public settings."""
    return (one.kind, one.public.keys()) == (two.kind, two.public.keys()) and all(
        np.array_equal(as_array(value), as_array(two.public[name])) for name, value in one.public.items()
    )


def _redrawn(calls: tuple[Call, Call], chosen: np.ndarray, rng: Rng) -> np.ndarray:
    """Return one newly noised value for each game, with shape (games, ...).

    `chosen` is a mask over the games. The exact value is of `calls[1]` where it is True, and otherwise of `calls[0]`.
    """
    call = calls[1]
    public: dict[str, Any] = {
        name: as_array(value) if hasattr(value, "shape") else value for name, value in call.public.items()
    }
    if call.kind == "choose":
        return np.array([rng.choose(calls[int(at)].exact, **public) for at in chosen])
    exact: Any = np.stack([each.exact for each in calls])[chosen.astype(int)]
    if hasattr(call.returned, "detach"):  # noise for tensors comes from another stream
        exact = call.returned.new_tensor(exact)
    return as_array(getattr(rng, call.kind)(exact, **public))
