"""Generators for checks: one records the calls of a mechanism, another replays them on neighbouring rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.noise import ExampleNumbers, Rng
from privaware.testing._call import (
    MEASURES,
    BrokenPromise,
    Call,
    as_array,
    copied,
    expect_valid,
    make_call,
    moved_ratio,
)
from privaware.testing._perturbation import Certified, chain_ratio, perturbed_ratio, recording, widest_stretch
from privaware.testing._rows import Edit


class Recorder(Rng):
    """A noise generator that draws as usual and records every call in `calls`.

    Parameters
    ----------
    seed : int
        The seed.
    edit : Edit, optional
        How a neighbouring data set differs from the data of this run, by one row: the row in question.
    inside : bool or None
        Whether the row in question is in every Poisson sample with a rate below 1 (True) or in none (False). With None
        it is sampled as any other row.
    part : int, optional
        The index of the part that the row in question is in, if the mechanism splits the rows.
    """

    has_row = "removed"
    """The value of `edit.kind` for which this run's data have the row by which the two data sets differ."""

    def __init__(
        self, seed: int, *, edit: Edit | None = None, inside: bool | None = True, part: int | None = None
    ) -> None:
        super().__init__(seed)
        self.calls: list[Call] = []
        self.edit, self.inside, self.part = edit, inside, part
        self._positions: dict[int, int] = {}  # position of the row in question, by the number of rows drawn for
        if edit and edit.kind != "added" and edit.rows:
            self._positions[edit.rows] = edit.at

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        return self._release("gaussian", exact, noise=noise, sensitivity=sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        return self._release("laplace", exact, noise=noise, sensitivity=sensitivity)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        return int(self._release("choose", exact, epsilon=epsilon, sensitivity=sensitivity))

    def respond(
        self, exact: np.ndarray, *, epsilon: float, classes: int, candidates: np.ndarray | None = None
    ) -> np.ndarray:
        among = {} if candidates is None else {"candidates": candidates}
        return np.asarray(self._release("respond", exact, epsilon=epsilon, classes=classes, **among))

    def perturb(self, problem: Any, **public: Any) -> np.ndarray:
        certified = Certified(problem)
        returned = Rng.perturb(self, certified, **public)
        if certified.worst > 1.01:
            raise BrokenPromise(
                f"not the exact minimiser: call {len(self.calls) + 1} (perturb) stops at {certified.worst:.3g} "
                "times the tolerance it declares"
            )
        self.calls.append(self._implied(problem, returned, public))
        return returned.copy()

    def iterate(self, initial: Any, maps: Any, **public: Any) -> np.ndarray:
        steps: list[np.ndarray] = []
        returned = Rng.iterate(self, initial, [recording(move, steps) for move in maps], **public)
        self.calls.append(make_call("iterate", np.array(steps), returned, public))
        expect_valid(self.calls[-1], len(self.calls) - 1)
        return returned.copy()

    def _implied(self, problem: Any, returned: np.ndarray, public: dict[str, Any]) -> Call:
        """Return a call of `perturb` whose exact value has one row for each noise vector that `returned` implies.

        The last column is the log volume.
        """
        vectors, volume = problem.implied(returned)
        call = make_call("perturb", np.column_stack([vectors, volume]), returned, public)
        expect_valid(call, len(self.calls))
        return call

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        mask = self._force(super().poisson(rows, rate), rate)
        self.calls.append(make_call("poisson", mask, mask, {"rate": rate}))
        return mask.copy()

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        parts = super().shards(rows, shares)
        edit = self.edit
        with_row = edit and edit.kind != "added" and 0 < rows == edit.rows
        if edit and with_row and self.part is not None:
            parts[edit.at] = min(self.part, len(shares) - 1)
        self.calls.append(make_call("shards", parts, parts, {"shares": tuple(shares)}))
        if edit and with_row:
            same = parts == parts[edit.at]
            self._positions[int(same.sum())] = int(same[: edit.at].sum())
        return parts.copy()

    def by_example(self, rows: int) -> ExampleNumbers:
        examples = super().by_example(rows)
        self.calls.append(make_call("examples", examples.numbers, examples.key, {}))
        return examples

    def shuffle(self, rows: np.ndarray) -> None:
        """Reorder `rows` in place, so that a run and its replay on a neighbour have nearly the same order.

        Without `self.edit`, shuffle as `Rng` does. With it, nothing is shuffled. Only in the run whose data have the
        additional row, the entry after this row moves to the end. All other entries then have the same positions in
        both runs.
        """
        if self.edit is None:
            super().shuffle(rows)
        elif self.edit.kind == self.has_row and self.edit.at in rows[:-1]:
            slot = int(np.argmax(rows == self.edit.at))
            rows[slot + 1 :] = np.append(rows[slot + 2 :], rows[slot + 1])

    def spawn(self) -> Rng:
        return self  # releases of spawned generators are recorded here too

    def torch(self, stream: str, device: str = "cpu") -> Any:
        if stream != "initial":
            raise BrokenPromise(
                f"expected each release as one call of rng, such as rng.gaussian; got a generator of the {stream} "
                f"stream by rng.torch({stream!r}), whose noise and sensitivity the check cannot see"
            )
        return super().torch(stream, device)

    def uniforms(self, shape: tuple[int, ...], device: Any) -> Any:
        raise BrokenPromise(
            "expected samples by rng.poisson, got numbers drawn on a device by rng.uniforms, which cannot be replayed "
            "on neighbouring rows; run the check on the CPU"
        )

    def _release(self, kind: str, exact: Any, **public: Any) -> Any:
        returned = getattr(Rng, kind)(self, exact, **public)
        call = make_call(kind, exact, returned, public)
        expect_valid(call, len(self.calls))
        self.calls.append(call)
        return returned

    def _force(self, mask: np.ndarray, rate: float) -> np.ndarray:
        """Set the entry of `self.edit`'s row in the sample `mask` to `self.inside`, in place; return `mask`.

        `mask` is unchanged if `rate` is 1, if `self.inside` is None, or if the position of the row is not known.
        """
        if rate < 1 and self.inside is not None and len(mask) in self._positions:
            mask[self._positions[len(mask)]] = self.inside
        return mask


class Replayer(Recorder):
    """A noise generator that returns the noised values of a recorded run on a neighbour, and compares the exact values.

    Parameters
    ----------
    seed : int
        The seed.
    recorded : list of Call
        The calls recorded on the first data set.
    edit : Edit or None
        The difference from the first data set to this run's data, by one row: the row in question.
    inside : bool
        Whether the row in question is in every Poisson sample, or in none.
    doubled : bool
        Whether exact values after a Poisson sample may move twice as far, because a replaced row counts as one row
        removed and one added.
    part : int, optional
        The index of the part that the row in question is in, if the mechanism splits the rows.
    apart : float
        By how many sensitivities an exact value may move before `BrokenPromise` is raised.
    """

    has_row = "added"

    def __init__(
        self,
        seed: int,
        recorded: list[Call],
        edit: Edit | None,
        *,
        inside: bool,
        doubled: bool = False,
        part: int | None = None,
        apart: float = 1.0,
    ) -> None:
        super().__init__(seed, edit=edit, inside=inside, part=part)
        self.recorded, self.doubled, self.apart = recorded, doubled, apart
        self.ratios: dict[int, float] = {}

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        before = self._next("poisson", {"rate": rate})
        mask = self._force(self._fitted(before.exact, rows, self.inside or rate >= 1), rate)
        self.calls.append(make_call("poisson", mask, mask, {"rate": rate}))
        return mask.copy()

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        before = self._next("shards", {"shares": tuple(shares)})
        part = Rng.shards(self, 1, shares)[0] if self.part is None else min(self.part, len(shares) - 1)
        parts = self._fitted(before.exact, rows, part)
        self.calls.append(make_call("shards", parts, parts, {"shares": tuple(shares)}))
        return parts.copy()

    def by_example(self, rows: int) -> ExampleNumbers:
        before = self._next("examples", {})
        numbers = self._fitted(before.exact, rows, len(before.exact))
        self.calls.append(make_call("examples", numbers, before.returned, {}))
        return ExampleNumbers(key=before.returned, numbers=numbers)

    def perturb(self, problem: Any, **public: Any) -> np.ndarray:
        before = self._next("perturb", public)
        now = self._implied(problem, before.returned, public)
        self._compare(before, now, perturbed_ratio(before.exact, now.exact, public))
        return before.returned.copy()

    def iterate(self, initial: Any, maps: Any, **public: Any) -> np.ndarray:
        before = self._next("iterate", public)
        points = before.exact[:, 0]
        if len(points) != len(maps):
            raise BrokenPromise(
                f"control flow depends on the rows: call {len(self.calls) + 1} (iterate) has {len(points)} "
                f"maps on the data and {len(maps)} on the neighbour"
            )
        images = np.array([move(point) for move, point in zip(maps, points, strict=True)])
        if (stretch := widest_stretch(maps, points, images)) > 1 + 1e-9:
            raise BrokenPromise(
                f"call {len(self.calls) + 1} (iterate) moves two points apart, to {stretch:.4g} times their distance: "
                "later noise does not cover the row"
            )
        now = make_call("iterate", np.stack([points, images], axis=1), before.returned, public)
        self._compare(before, now, chain_ratio(before.exact, now.exact, float(public["sensitivity"])))
        return before.returned.copy()

    def _compare(self, before: Call, now: Call, ratio: float) -> None:
        at = len(self.calls)
        self.ratios[at] = ratio
        if ratio > self.apart:
            raise BrokenPromise(
                f"sensitivity exceeded: in call {at + 1} ({now.kind}) one row moves the result by {ratio:.4g} times "
                "the declared amount"
            )
        self.calls.append(now)

    def finish(self) -> None:
        """Raise `BrokenPromise` if a recorded call was not repeated."""
        if len(self.calls) < len(self.recorded):
            missing = self.recorded[len(self.calls)].kind
            raise BrokenPromise(
                f"control flow depends on the rows: {len(self.recorded)} calls of the generator on the data, "
                f"{len(self.calls)} on the neighbour, where {missing} was not called"
            )

    def _release(self, kind: str, exact: Any, **public: Any) -> Any:
        at = len(self.calls)
        before = self._next(kind, public)
        now = make_call(kind, exact, before.returned, public)
        expect_valid(now, at)
        if before.exact.shape != now.exact.shape:
            raise BrokenPromise(
                f"control flow depends on the rows: call {at + 1} ({kind}) releases a value of shape "
                f"{before.exact.shape} on the data and {now.exact.shape} on the neighbour"
            )
        twice = 2.0 if self.doubled and kind != "respond" and _sampled_before(self.calls) else 1.0
        self.ratios[at] = moved_ratio(before, now) / twice
        if self.ratios[at] > self.apart:
            raise BrokenPromise(
                f"sensitivity exceeded: in call {at + 1} ({kind}) one row moves the exact value by "
                f"{self.ratios[at]:.4g} times the declared sensitivity ({MEASURES.get(kind, 'rows changed')})"
            )
        self.calls.append(now)
        return copied(before.returned)

    def _next(self, kind: str, public: dict[str, Any]) -> Call:
        at = len(self.calls)
        if at >= len(self.recorded) or self.recorded[at].kind != kind:
            was = self.recorded[at].kind if at < len(self.recorded) else "nothing more"
            raise BrokenPromise(
                f"control flow depends on the rows: call {at + 1} of the generator is {was} on the data "
                f"and {kind} on the neighbour"
            )
        before = self.recorded[at]
        if before.public.keys() != public.keys():
            raise BrokenPromise(
                f"control flow depends on the rows: call {at + 1} ({kind}) has the settings "
                f"{sorted(before.public)} on the data and {sorted(public)} on the neighbour"
            )
        for name, value in public.items():
            if not np.array_equal(as_array(before.public[name]), as_array(value)):
                raise BrokenPromise(
                    f"control flow depends on the rows: the {name} of call {at + 1} ({kind}) is "
                    f"{before.public[name]!r:.60} on the data and {value!r:.60} on the neighbour"
                )
        return before

    def _fitted(self, before: np.ndarray, rows: int, extra: Any) -> np.ndarray:
        """Return the recorded draws `before`, one for each row, changed to fit this run's `rows` rows.

        An added row gets the draw `extra`, and the draw of a removed row is left out. Otherwise return a copy of
        `before`. Raise `BrokenPromise` if `rows` does not fit the edit. Raise `WrongInput` if the mechanism draws for
        some of the rows only, and the added or removed row is neither the first nor the last of all rows.
        """
        edit = self.edit
        assert edit is not None
        grown = rows - len(before)
        if grown == 0:
            return before.copy()
        all_rows = edit.rows == len(before)
        at = edit.at if all_rows or edit.at == 0 else len(before) - (grown < 0)
        if not all_rows and 0 < edit.at < edit.rows - (edit.kind == "removed"):
            raise WrongInput(
                "expected the added or removed row to be the first or the last row, because the mechanism samples from "
                "parts of the rows"
            )
        if grown == 1 and edit.kind == "added":
            return np.insert(before, at, extra)
        if grown == -1 and edit.kind == "removed":
            return np.delete(before, at)
        raise BrokenPromise(
            f"control flow depends on the rows: call {len(self.calls) + 1} samples among {len(before)} rows "
            f"on the data and among {rows} on the neighbour"
        )


def _sampled_before(calls: list[Call]) -> bool:
    """Return whether the latest Poisson sample had a rate below 1; False if there was none."""
    rates = [call.public["rate"] for call in calls if call.kind == "poisson"]
    return bool(rates) and rates[-1] < 1
