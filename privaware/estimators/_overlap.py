"""Fits of this process on overlapping rows: cross-validation and repeated fits reveal more together than alone.

Every fit leaves keyed hashes of its rows in memory, never the rows. A later fit on some of these rows is composed with
it. Two fits have rows in common in one of four cases:

1. Some of their rows are equal, with or without their targets.
2. Most rows of the tables agree except in some columns (see `Sketch`).
3. A transformer of this package computed one table from the other (see `note_transformed`).
4. The labels are equal, in the same order, and vary enough to identify a table.

Rows that another transformer has changed are recognised by their labels only. A worker process of joblib (`n_jobs`) has
its own memory, so only a `ledger` composes costs there, and an unseeded fit without one raises.
"""

from __future__ import annotations

import multiprocessing
import secrets
import tempfile
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data import Raw, Sketch, hashes_and_sketch
from privaware.errors import OverlapWarning, Refused, WrongInput, warn_caller
from privaware.events import Event
from privaware.ledger import KnownLedger, Ledger
from privaware.schema import Schema
from privaware.workflow.run.other_ledgers import SOME, OtherLedger, SameRows
from privaware.workflow.run.row_ledger import collect_row_ledgers, note_derived

NO_LIMIT = 1e9
"""Limit of a temporary ledger, larger than any epsilon in use."""
EARLIER_FITS = "rows of this fit were in earlier fits of this process"
UNCERTIFIED = (
    "rows of this fit come from a transformer whose fit is not certified, so this fit is not certified either. Fit the "
    "transformer without random_state, and with a reviewed schema"
)
KEY = secrets.token_bytes(32)
LABEL_BYTES = 16
"""Labels identify a table if their compressed size exceeds that of constant labels by at least this many bytes."""
WORKERS = ("LokyProcess", "ForkPoolWorker", "SpawnPoolWorker", "ForkServerPoolWorker")
"""Prefixes of the names of worker processes, some of which have no `multiprocessing.parent_process()`."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PastFit:
    """A past fit: sorted hashes and the sketch of its rows, and its event.

    `promise` is its unit, cap and neighbouring relation. `ledger` is its own ledger, if it was given one.
    `features` are the hashes of its rows without the target and the column of persons, `sources` the hashes of the rows
    from which transformers computed its rows, `labels` is the digest of the labels, if they identify a table, and
    `others` are the other known ledgers of its rows.
    """

    hashes: np.ndarray
    sketch: Sketch
    event: Event
    promise: tuple[str, int, str]
    ledger: KnownLedger | None
    features: np.ndarray
    sources: np.ndarray
    labels: bytes | None
    others: tuple[OtherLedger, ...]

    @property
    def genesis(self) -> str | None:
        """The hash of the first entry of its ledger, which tells ledgers apart; None without a ledger."""
        return None if self.ledger is None else self.ledger.genesis

    def known_ledgers(self) -> Iterator[tuple[str, KnownLedger]]:
        """Yield the other ledgers of its rows, then its own ledger, as pairs (text, ledger).

        The text says which rows the ledger was charged for: "all", "most" or "some" (`OtherLedger.rows`).
        """
        yield from ((other.rows, other.known) for other in self.others)
        if self.ledger is not None:
            yield SOME, self.ledger

    def overlaps(self, other: PastFit) -> bool:
        """Return whether the two fits have rows in common, by one of the cases in the docstring of this module."""
        return (
            _share(self.hashes, other.hashes)
            or _share(self.features, other.features)
            or _share(self.sources, other.sources)
            or _share(self.sources, other.features)
            or _share(self.features, other.sources)
            or self.sketch.resembles(other.sketch)
            or (self.labels is not None and self.labels == other.labels)
        )

    def is_of_sources(self, other: PastFit) -> bool:
        """Return whether transformers computed rows of `other` from every row of this fit."""
        return len(other.sources) > 0 and bool(np.isin(self.features, other.sources).all())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Transformed:
    """The output of a transformer: sorted hashes (`outputs`) and the sketch of its rows.

    `sources` are the sorted hashes of the rows that they were computed from. `certified` is whether the fit of the
    transformer is.
    """

    outputs: np.ndarray
    sketch: Sketch
    sources: np.ndarray
    certified: bool

    def holds(self, features: np.ndarray, sketch: Sketch) -> bool:
        """Return whether rows with the sorted hashes `features` and this `sketch` are, in part, rows of this output."""
        return _share(self.outputs, features) or self.sketch.resembles(sketch)


PAST_FITS: list[PastFit] = []
TRANSFORMED: list[Transformed] = []
"""Outputs of transformers in this process, in the order in which they were computed."""
ADVISED: set[frozenset[str | None]] = set()
"""The ledgers about which a warning of this process said what to do; each set has the ledgers of one warning."""
_LOCK = threading.Lock()


@contextmanager
def fit_ledger(
    ledger: Ledger | str | Path | None, schema: Schema, delta: float, *, seeded: bool
) -> Iterator[tuple[Ledger | str | Path, list[SameRows]]]:
    """Yield the ledger of a fit, and a list of known ledgers of its rows.

    The list is empty at first, and is filled inside the block unless the fit is `seeded`. The ledger is `ledger`, or,
    if it is None, a temporary ledger with the limit `NO_LIMIT`, which is removed at the end. The temporary ledger has
    this `delta`, and the unit, relation and cap of `schema`. Without `ledger`, a fit that is not `seeded` raises
    `WrongInput` in a worker process of joblib or `multiprocessing`.
    """
    collected: AbstractContextManager[list[SameRows]] = nullcontext([]) if seeded else collect_row_ledgers()
    if ledger is not None:
        with collected as row_ledgers:
            yield ledger, row_ledgers
        return
    named = multiprocessing.current_process().name.startswith(WORKERS)
    if not seeded and (named or multiprocessing.parent_process() is not None):
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
        with collected as row_ledgers:
            yield replace(created, lasting=False), row_ledgers


def without_persons(X: Any, schema: Schema | None) -> Any:
    """Return a data frame `X` without the column that identifies persons, unless it is a feature; else `X` itself."""
    if schema is None or not isinstance(X, pd.DataFrame):
        return X
    if schema.unit in ("row", "label", *(column.name for column in schema.declared)):
        return X
    return X[[name for name in X.columns if str(name) != schema.unit]]


def note_transformed(before: Any, after: Any, *, certified: bool) -> None:
    """Remember that a transformer computed the table `after`, row by row, from the table `before`.

    Neither has the column of persons. A later fit on rows of `after` is a fit on rows of `before`, and is not certified
    unless the transformer is `certified`. A process that has fitted nothing remembers no certified transformer.
    """
    if certified and not PAST_FITS:
        return
    before, after = _by_place(before), _by_place(after)
    note_derived(before, after)
    inputs, sketch = _hashed(before)
    outputs, sketch_after = _hashed(after)
    with _LOCK:
        sources = np.unique(np.concatenate([inputs, _sources(inputs, sketch)]))
        same = (each for each in TRANSFORMED if each.certified == certified)
        known = (np.array_equal(t.outputs, outputs) and np.array_equal(t.sources, sources) for t in same)
        if not any(known):
            added = Transformed(outputs=outputs, sketch=sketch_after, sources=sources, certified=certified)
            TRANSFORMED.append(added)


def uncertified_source(frame: pd.DataFrame, schema: Schema) -> str:
    """Return a sentence if a transformer whose fit is not certified computed rows of `frame`; else an empty text.

    `frame` has the rows of a fit.
    """
    uncertified = [each for each in TRANSFORMED if not each.certified]
    if not uncertified:
        return ""
    features, sketch = _hashed(_by_place(_bare(frame, schema)))
    for each in uncertified:
        untransformed = _share(each.sources, features) and not _share(each.outputs, features)
        if not untransformed and each.holds(features, sketch):
            return UNCERTIFIED
    return ""


def overlap_with_past_fits(
    frame: pd.DataFrame,
    schema: Schema,
    event: Event,
    *,
    labels: Any = None,
    delta: float,
    ledger: Ledger | str | Path | None,
    row_ledgers: Sequence[SameRows] = (),
    seeded: bool,
) -> str:
    """Record a fit, and return a sentence if its rows have costs that are not charged to the same ledger.

    These are costs of earlier fits, and all charges of other known ledgers of the rows (`row_ledgers`) or of those
    earlier fits. The ledger of this fit must still exist, with its charge. The sentence may be released, so it names no
    file. Unless the fit was `seeded` and so is not for release, a warning says the same and names the files of the
    ledgers; later warnings of this process about the same ledgers say the total alone. Both state the total epsilon at
    `delta`, unless the fit was `seeded`, or the fits differ in unit, cap or relation. Without such an overlap, return
    an empty text. `frame` has the rows of the fit, `labels` are their labels, if any, and `event` is its cost.
    """
    hashes, sketch = _hashed(frame)
    features, features_sketch = _hashed(_by_place(_bare(frame, schema)))
    fit = PastFit(
        hashes=hashes,
        sketch=sketch,
        event=event,
        promise=(schema.unit, schema.cap, schema.relation),
        ledger=_known(ledger),
        features=features,
        sources=_sources(features, features_sketch),
        labels=None if labels is None else _labels_digest(labels),
        others=tuple(other for same in row_ledgers for other in same.others),
    )
    with _LOCK:
        same = next((past for past in PAST_FITS if np.array_equal(past.hashes, fit.hashes)), fit)
        if np.array_equal(same.features, fit.features):  # store a fold that is fitted many times once
            fit = replace(fit, hashes=same.hashes, sketch=same.sketch, features=same.features)
        before = [fit, *(past for past in PAST_FITS if past.is_of_sources(fit))]
        overlapping = [past for past in PAST_FITS if any(past.overlaps(each) for each in before)]
        PAST_FITS.append(fit)
    others = [each for past in overlapping for each in past.known_ledgers()]
    known = row_ledgers[0].beside(others) if row_ledgers else None
    added_up = fit.ledger is not None and all(past.genesis == fit.genesis for past in overlapping)
    if not (known and known.others) and (added_up or not overlapping):
        return ""
    if seeded:
        return EARLIER_FITS
    warning, sentence, advice = _stated(fit, overlapping, known, delta)
    ledgers = frozenset({fit.genesis, *(other.charges.genesis for other in (known.others if known else ()))})
    warn_caller(sentence if ledgers in ADVISED else f"{warning}{advice}", OverlapWarning)
    ADVISED.add(ledgers)
    return f"{sentence}{advice}"


def _hashed(frame: pd.DataFrame) -> tuple[np.ndarray, Sketch]:
    """Return the sorted distinct hashes and the finished sketch of the rows of `frame`."""
    hashes, sketch = hashes_and_sketch(Raw(frame=frame), KEY)
    return np.unique(hashes), sketch.finished()


def _bare(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return the rows `frame` without the target and the column of persons, as transformers return them."""
    bare: pd.DataFrame = without_persons(frame.drop(columns=schema.target, errors="ignore"), schema)
    return bare


def _by_place(table: Any) -> pd.DataFrame:
    """Return `table` as a data frame with columns x0, x1 and so on, because a transformer may rename columns."""
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
    return frame.set_axis([f"x{at}" for at in range(frame.shape[1])], axis=1)


def _sources(features: np.ndarray, sketch: Sketch) -> np.ndarray:
    """Return the sorted hashes of the rows from which transformers computed rows of the table with these hashes.

    `features` are the hashes of its rows without the target, and `sketch` is their sketch.
    """
    found = [each.sources for each in TRANSFORMED if each.holds(features, sketch)]
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *found]))


def _labels_digest(labels: Any) -> bytes | None:
    """Return a keyed digest of the order of the labels, or None if other tables may share it.

    Labels that are only renamed have the same digest.
    """
    codes = pd.factorize(np.asarray(labels))[0].astype("<i4").tobytes()
    if len(zlib.compress(codes)) < len(zlib.compress(bytes(len(codes)))) + LABEL_BYTES:
        return None
    return blake2b(codes, key=KEY).digest()


def _share(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether two sorted arrays share a value."""
    if left is right and len(left):
        return True
    few, many = sorted((left, right), key=len)
    if not len(few):
        return False
    position = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return bool((many[position] == few).any())


def _stated(fit: PastFit, overlapping: list[PastFit], known: SameRows | None, delta: float) -> tuple[str, str, str]:
    """Return what costs are outside the ledger of `fit`: for a warning, for a release, and the advice after either.

    The arguments are those of `_together`. There is at least one overlapping fit or other ledger. The words for a
    warning name the files of ledgers.
    """
    counted = [] if known is None or not known.counted else [(known.counted_words(), known.counted_words(paths=False))]
    parts = [*counted, (EARLIER_FITS, EARLIER_FITS)] if overlapping else counted
    total, advice = _together(fit, overlapping, known, delta)
    stated = [[f"{', and '.join(texts)}{total}"] for texts in zip(*parts, strict=True)] or [[], []]
    told = {past.genesis for past in overlapping}
    if others := [other for other in (known.uncounted if known else ()) if other.charges.genesis not in told]:
        which = "another ledger" if len(others) == 1 else f"{len(others)} other ledgers"
        why = "of another unit, cap or relation, or that cannot be read, so that no epsilon holds for all"
        stated = [[*texts, f"rows of this fit are charged to {which} {why}"] for texts in stated]
    warning, sentence = (", and ".join(texts) for texts in stated)
    return warning, sentence, advice


def _together(fit: PastFit, overlapping: list[PastFit], known: SameRows | None, delta: float) -> tuple[str, str]:
    """Return the end of the sentence about costs outside the ledger of `fit`, in two parts.

    The first part states the total epsilon, and the second part says what to do.

    These are costs of `overlapping` fits, and of other ledgers. `known` has the ledger of `fit`, which has its charge,
    and all other known ledgers; None if no rows are known. Fits that these ledgers count are not added a second time.
    """
    counted = [] if known is None else known.counted
    end = (
        ". So this fit is not certified. Give all these fits the same ledger=FILE, which adds up and limits their costs"
    )
    if fit.ledger is not None:
        uncounted = sum(past.genesis != fit.genesis for past in overlapping)
        which = "other ledgers of these rows"
        if uncounted:
            which = f"{uncounted} of these fits, which had no ledger or another one"
        end = (
            f". This fit is not certified, because its ledger does not count {which}. Give every fit on these rows, "
            "from the first one on, the same ledger=FILE"
        )
    event = fit.event if known is None else known.event()
    ledgers = set() if known is None else {known.ledger.genesis, *(other.charges.genesis for other in counted)}
    added = [past for past in overlapping if past.genesis not in ledgers]
    if any(past.promise != fit.promise for past in added):
        return ", for another unit, cap or relation", end
    try:
        shown = f"epsilon {rounded_up(accounting.epsilon(sum((past.event for past in added), event), delta))}"
    except Refused:
        shown = "more than can be stated"
    return f": together they spend {shown} at delta {rounded_up(delta)}", end


def _known(ledger: Ledger | str | Path | None) -> KnownLedger | None:
    """Return the file and the first hash of `ledger`, by which it is read again later; None if `ledger` is None."""
    if ledger is None:
        return None
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    return KnownLedger(path=opened.path, genesis=opened.genesis)
