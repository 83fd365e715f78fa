"""Train the shadow models of an attacker, all together as one stack if the learner is a `SubsetLearner`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privaware._validate import expect_count, expect_nonnegative
from privaware.attacks._game import Challenge, Game, Shadow, challenge, joined
from privaware.data import Data
from privaware.datasets import Halves
from privaware.errors import WrongInput
from privaware.learners import SubsetLearner
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.noise import Rng


@dataclass(frozen=True, kw_only=True)
class ShadowPlan:
    """The number of shadow models (`count`), and how they are trained.

    `learner` trains them with the noise multiplier `noise`. If `learner` or `noise` is None, the learner or the noise
    multiplier of the attacked model is used. The target's learner includes its private selection (`Then`) or search
    (`FoundModel` of strategies), if it has one. `noise = 0` trains without privacy. `online` shadow models, whose
    number must be even, see candidate rows, each row in half of them. Other shadow models see only the attacker's rows,
    which are disjoint from the candidate rows.
    """

    count: int = 1
    online: bool = False
    learner: Mechanism[Model] | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        expect_count("shadows", count=self.count)
        if self.noise is not None:
            expect_nonnegative("shadows", noise=self.noise)
        if self.online and self.count % 2:
            raise WrongInput(f"expected an even count of online shadow models, got {self.count}")


def membership_game(
    learner: Mechanism[Model],
    data: Data,
    *,
    noise: float,
    rng: Rng,
    shadows: ShadowPlan | None = None,
    device: str = "cpu",
) -> Challenge:
    """Train a target on a random quarter of the rows; another quarter are non-members, half belong to the attacker.

    The three parts are disjoint by construction. Fewer than 8 rows raise `WrongInput`.

    Parameters
    ----------
    learner
        The mechanism that trains the target.
    data
        The rows.
    noise
        The noise multiplier of the target. Calibrate it for a schema that declares a quarter of the rows, where a fixed
        batch size means a sampling rate four times as large.
    rng
        The random generator.
    shadows
        The shadow models to train on the attacker's rows. Default: none.
    device
        "cpu" or "cuda".

    Returns
    -------
    Challenge
        The game, and which of its rows are members.

    Examples
    --------
    >>> from privaware.learners.linear import Linear
    >>> from privaware.testing import example, rows_for
    >>> game = membership_game(Linear(steps=5), rows_for(example(rows=80), 80), noise=1.0, rng=Rng(seed=0))
    >>> int(game.inside.sum()), len(game.game.rows), len(game.game.auxiliary)
    (20, 40, 40)
    """
    quarter = len(data) // 4
    if quarter < 2:
        raise WrongInput(f"expected at least 8 rows for a membership game, got {len(data)}")
    order = rng.initial.permutation(len(data))
    members, non_members = (data.take(order[at * quarter : (at + 1) * quarter]) for at in range(2))
    members = replace(members, schema=replace(data.schema, rows=quarter))
    target = learner.run(members, noise, rng)
    posed = challenge(target, members, non_members, rng, device)
    auxiliary = data.take(order[2 * quarter :])
    game = replace(posed.game, auxiliary=auxiliary)
    if shadows is not None:
        game = train_shadows(game, auxiliary, learner, noise=noise, rng=rng, plan=shadows)
    return replace(posed, game=game)


def halves_game(
    learner: Mechanism[Model], halves: Halves, *, noise: float, rng: Rng, shadows: ShadowPlan, device: str = "cpu"
) -> Challenge:
    """Pose the game of DPMLBench: target and shadow models train on separate halves of the rows.

    Parameters
    ----------
    learner
        The mechanism that trains the target.
    halves
        Training and test rows of the target, and of the shadow models. The candidate rows are the target's test rows
        and as many random training rows of the target (or all, if there are fewer).
    noise
        The noise multiplier of the target.
    rng
        The random generator.
    shadows
        The shadow models to train.
    device
        "cpu" or "cuda".

    Returns
    -------
    Challenge
        The game, and which of its rows are members.
    """
    target = learner.run(halves.train, noise, rng)
    members = halves.train.take(rng.initial.permutation(len(halves.train))[: len(halves.test)])
    posed = challenge(target, members, halves.test, rng, device)
    auxiliary = joined(halves.shadow_train, halves.shadow_test)
    inside = np.tile(np.arange(len(auxiliary)) < len(halves.shadow_train), (shadows.count, 1))
    game = train_shadows(posed.game, auxiliary, learner, noise=noise, rng=rng, plan=shadows, inside=inside)
    return replace(posed, game=game)


def train_shadows(
    game: Game,
    auxiliary: Data,
    learner: Mechanism[Model],
    *,
    noise: float,
    rng: Rng,
    plan: ShadowPlan,
    inside: np.ndarray | None = None,
) -> Game:
    """Return a game with auxiliary rows and newly trained shadow models; raise `WrongInput` if one would get no rows.

    Parameters
    ----------
    game
        The game without shadow models.
    auxiliary
        The attacker's own rows.
    learner, noise
        The mechanism and the noise multiplier of the target.
    rng
        The random generator.
    plan
        The number of shadow models and how they are trained.
    inside
        Which auxiliary rows each shadow model sees, with shape (shadows, auxiliary rows). Default: random auxiliary
        rows, so that the shadow model sees as many rows as the released model declares, including candidate rows.
        Offline shadow models see at most half of the auxiliary rows.

    Returns
    -------
    Game
        The game with `auxiliary` and `shadows`.
    """
    learner = plan.learner or learner
    noise = noise if plan.noise is None else plan.noise
    candidates = (
        _halves(rng, plan.count, len(game.rows)) if plan.online else np.zeros((plan.count, len(game.rows)), bool)
    )
    if inside is None:
        inside = _parts(rng, plan, candidates.sum(1), len(auxiliary), game.model.schema.rows)
    masks = np.concatenate([candidates, inside], axis=1)
    sizes = masks.sum(1)
    if sizes.min() < 1:
        raise WrongInput("expected rows for every shadow model, got none for one of them; pass more auxiliary rows")
    pool = joined(game.rows, auxiliary)
    pool = replace(pool, schema=replace(pool.schema, rows=round(float(sizes.mean()))))
    models = _trained(learner, pool, masks, noise, rng)
    shadows = tuple(
        Shadow(model=model, inside=seen, auxiliary_inside=own)
        for model, seen, own in zip(models, candidates, inside, strict=True)
    )
    training = "private" if noise > 0 else "without privacy"
    return replace(game, auxiliary=auxiliary, shadows=shadows, shadow_training=training)


def _trained(learner: Mechanism[Model], pool: Data, masks: np.ndarray, noise: float, rng: Rng) -> list[Model]:
    """Return one model for each of `masks` over the rows of `pool`, in their order, trained on the rows of its mask."""
    subsets = [np.flatnonzero(mask) for mask in masks]
    if isinstance(learner, SubsetLearner):
        return learner.run_on_subsets(pool, subsets, noise, rng)
    return [learner.run(pool.take(subset), noise, rng) for subset in subsets]


def _halves(rng: Rng, count: int, rows: int) -> np.ndarray:
    """Return `count` masks over `rows` rows: random halves and their complements, so each row is in half of them.

    `count` must be even. The shape is (count, rows).
    """
    halves = np.zeros((count, rows), dtype=bool)
    for at in range(0, count, 2):
        halves[at, rng.initial.permutation(rows)[: rows // 2]] = True
        halves[at + 1] = ~halves[at]
    return halves


def _parts(rng: Rng, plan: ShadowPlan, seen: np.ndarray, rows: int, declared: int) -> np.ndarray:
    """Return a mask of random auxiliary rows for each shadow model, so that it sees `declared` rows in all.

    The shape is (`plan.count`, `rows`), where `rows` is the number of auxiliary rows. `seen` is the number of candidate
    rows that each shadow model sees. Offline shadow models get at most half of the auxiliary rows.
    """
    parts = np.zeros((plan.count, rows), dtype=bool)
    for part, candidates in zip(parts, seen, strict=True):
        size = min(max(0, declared - int(candidates)), rows if plan.online else rows // 2)
        part[rng.initial.permutation(rows)[:size]] = True
    return parts
