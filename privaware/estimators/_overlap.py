"""Fits of this process on overlapping rows: cross-validation and repeated fits reveal more together than alone.

Every fit leaves keyed hashes of its rows in memory, never the rows. A later fit on some of these rows is composed with
it. Equal rows count as the same. Tables also overlap if most of their rows agree except in some columns (see `Sketch`).
Rows that an earlier step of a pipeline has rescaled or projected are not recognised. A worker process of joblib
(`n_jobs`) has its own memory, so only a `ledger` composes costs there, and an unseeded fit without one raises.
"""

from __future__ import annotations

import multiprocessing
import secrets
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data import Raw, Sketch, hashes_and_sketch
from privaware.errors import OverlapWarning, WrongInput
from privaware.events import Event
from privaware.ledger import Ledger
from privaware.schema import Schema

__all__ = ["PAST_FITS", "PastFit", "fit_ledger", "overlap_with_past_fits"]

NO_LIMIT = 1e9
"""Limit of a temporary ledger, larger than any epsilon in use."""
KEY = secrets.token_bytes(32)
WORKERS = ("LokyProcess", "ForkPoolWorker", "SpawnPoolWorker", "ForkServerPoolWorker")
"""Prefixes of the names of processes that joblib starts, even if they do not know their parent."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PastFit:
    """A past fit: sorted hashes and the sketch of its rows, and its event.

    `promise` is its unit, cap and neighbouring relation. `ledger` is the hash of the first entry of its ledger, if any.
    """

    hashes: np.ndarray
    sketch: Sketch
    event: Event
    promise: tuple[str, int, str]
    ledger: str | None

    def overlaps(self, other: PastFit) -> bool:
        """Return whether the two fits have a row in common, or tables that resemble each other by their sketches."""
        if self.hashes is other.hashes:
            return True
        few, many = sorted((self.hashes, other.hashes), key=len)
        position = np.minimum(np.searchsorted(many, few), len(many) - 1)
        return bool((many[position] == few).any()) or self.sketch.resembles(other.sketch)


PAST_FITS: list[PastFit] = []
_LOCK = threading.Lock()


@contextmanager
def fit_ledger(
    ledger: Ledger | str | Path | None, schema: Schema, delta: float, *, seeded: bool
) -> Iterator[Ledger | str | Path]:
    """Yield `ledger`, or, if it is None, a temporary ledger with the limit `NO_LIMIT`, which is removed at the end.

    An unseeded fit without a ledger raises `WrongInput` in a worker process.
    """
    if ledger is not None:
        yield ledger
        return
    if not seeded and is_worker():
        raise WrongInput(
            "expected ledger=FILE for fits in several processes (n_jobs), which do not see each other's fits, got "
            "none; give all of them one ledger, or say n_jobs=1"
        )
    with tempfile.TemporaryDirectory() as folder:
        created = Ledger.create(
            Path(folder) / "fit.ledger",
            limit=NO_LIMIT,
            delta=delta,
            unit=schema.unit,
            relation=schema.relation,
            cap=schema.cap,
        )
        yield replace(created, lasting=False)


def is_worker() -> bool:
    """Whether this process was started by joblib or `multiprocessing` for one of several jobs."""
    named = multiprocessing.current_process().name.startswith(WORKERS)
    return named or multiprocessing.parent_process() is not None


def overlap_with_past_fits(
    frame: pd.DataFrame, schema: Schema, event: Event, *, delta: float, ledger: Ledger | str | Path | None, seeded: bool
) -> str:
    """Record a fit, and return a sentence if its rows were in earlier fits that are not charged to the same ledger.

    The sentence is also issued as a warning with the total epsilon, unless the fit was `seeded` and so is not for
    release; then the sentence has no epsilon. Without such an overlap, return an empty text.
    """
    hashes, sketch = hashes_and_sketch(Raw(frame=frame), KEY)
    fit = PastFit(
        hashes=np.unique(hashes),
        sketch=sketch.finished(),
        event=event,
        promise=(schema.unit, schema.cap, schema.relation),
        ledger=_genesis_of(ledger),
    )
    with _LOCK:
        same = next((past for past in PAST_FITS if np.array_equal(past.hashes, fit.hashes)), fit)
        fit = replace(fit, hashes=same.hashes, sketch=same.sketch)  # store a fold that is fitted many times once
        overlapping = [past for past in PAST_FITS if past.overlaps(fit)]
        PAST_FITS.append(fit)
    added_up = fit.ledger is not None and all(past.ledger == fit.ledger for past in overlapping)
    if added_up or not overlapping:
        return ""
    if seeded:
        return "rows of this fit were in earlier fits of this process"
    sentence = _sentence(fit, overlapping, delta)
    warnings.warn(sentence, OverlapWarning, stacklevel=5)
    return sentence


def _sentence(fit: PastFit, overlapping: list[PastFit], delta: float) -> str:
    start = "rows of this fit were in earlier fits of this process"
    end = "so that this one is not certified: give all of them the same ledger=FILE to add up and limit what they spend"
    if any(past.promise != fit.promise for past in overlapping):
        return f"{start}, for another unit or relation, {end}"
    epsilon = accounting.epsilon(sum((past.event for past in overlapping), start=fit.event), delta)
    return f"{start}: together they spend epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}, {end}"


def _genesis_of(ledger: Ledger | str | Path | None) -> str | None:
    """Return the hash of the first entry of a ledger, which identifies it even if its file was replaced."""
    if ledger is None:
        return None
    return (ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)).genesis
