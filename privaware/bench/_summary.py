"""The summary of a benchmark: means over seeds with 95% intervals, for each learner, network, data set and epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import numpy as np

from privaware.bench._cells import NO_NETWORK
from privaware.bench._grid import BASELINE
from privaware.bench._shown import spread
from privaware.bench._store import Cell
from privaware.metrics import clopper_pearson, privacy_leakage, tailored_auc, utility_loss
from privaware.workflow._curves import interval

ATTACK_MEASURES = ("auc", "tailored_auc", "leakage")
"""Names of the measures of an attack."""
AREA = "auc "
"""Prefix of the name of a result that is a tailored AUC; the label of the attack follows."""
TAIL = 0.025
"""Error probability on each side of a 95% interval."""
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """The results of all seeds of one learner, network, data set and epsilon (None: trained without noise).

    `seeds` is their number. `score` is the mean of their scores, and `spread` the standard deviation (0 for one seed).
    `values` has, by the name of the measure, a list with one value for each seed. The measures are `score` (accuracy,
    or R2), `utility_loss` (`1 - score / mean score of the baseline`, if that mean is above 0), `seconds` of training,
    and `auc`, `tailored_auc` and `leakage` of the strongest attack. A `tailored_auc` is the AUC, or 0.5 if that is
    lower. The strongest attack
      is the one with the largest mean `tailored_auc`, and `attack` is its label. `leakage` is a fraction of the
      baseline's leakage (`metrics.privacy_leakage`). The baseline has the same data and the same network, or else no
      choice of network. `auc:LABEL`, `tailored_auc:LABEL` and `leakage:LABEL` are the measures of the attack LABEL.
      `intervals` has 95% intervals of the means by the same names: over seeds if there are several, else over the test
      rows and the attacked rows of the one seed. They treat the mean of the baseline as known.
    """

    learner: str
    network: str
    data: str
    epsilon: float | None
    seeds: int
    score: float
    spread: float
    attack: str | None = None
    values: Mapping[str, Sequence[float]] = field(default_factory=dict, compare=False)
    intervals: Mapping[str, Interval] = field(default_factory=dict, compare=False)

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure over the seeds; None if no seed has it.

        For "spread" and "seeds", return the field of the row instead.
        """
        if measure == "spread":
            return self.spread
        if measure == "seeds":
            return self.seeds
        values = self.values.get(measure)
        return mean(values) if values else None

    def json(self) -> dict[str, Any]:
        """Return the row as plain values: its names, and the mean of each measure by name.

        `intervals` has the 95% intervals by measure, and `attacks` the same means and intervals by label of an attack.
        Values are fractions of 1, or seconds. A measure that no seed has is None.
        """
        names = ("score", "spread", "utility_loss", *ATTACK_MEASURES, "seconds")
        labels = [name.partition(":")[2] for name in self.values if name.startswith("tailored_auc:")]
        return {
            **{name: getattr(self, name) for name in ("learner", "network", "data", "epsilon", "seeds", "attack")},
            **{name: self.mean(name) for name in names},
            "intervals": {name: list(self.intervals[name]) for name in names if name in self.intervals},
            "attacks": {label: self._of_attack(label) for label in labels},
        }

    def _of_attack(self, label: str) -> dict[str, Any]:
        places = {name: f"{name}:{label}" for name in ATTACK_MEASURES}
        known = {name: list(self.intervals[place]) for name, place in places.items() if place in self.intervals}
        return {**{name: self.mean(place) for name, place in places.items()}, "intervals": known}


def summary(cells: Sequence[Cell]) -> list[SummaryRow]:
    """Return one row for each learner, network, data set and epsilon, in the order of their first cells.

    Cells whose training failed are left out.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        if "failed" not in cell.result:
            places = ("learner", "network", "data", "epsilon")
            groups.setdefault(tuple(cell.settings[name] for name in places), []).append(cell)
    baselines = {key[1:3]: group for key, group in groups.items() if key[0] == BASELINE}
    rows = []
    for (learner, network, data, epsilon), group in groups.items():
        base = baselines.get((network, data)) or baselines.get((NO_NETWORK, data)) or []
        place = {"learner": learner, "network": network, "data": data, "epsilon": epsilon}
        rows.append(_row(place, group, base))
    return rows


def _row(place: Mapping[str, Any], group: Sequence[Cell], baseline: Sequence[Cell]) -> SummaryRow:
    values: dict[str, Sequence[float]] = {"score": [float(cell.result["score"]) for cell in group]}
    ends: dict[str, Interval] = _score_interval(group[0]) if len(group) == 1 else {}
    middle, deviation = spread(values["score"])
    if baseline and (base := mean(float(cell.result["score"]) for cell in baseline)) > 0:
        values["utility_loss"] = [utility_loss(score, base) for score in values["score"]]
        if "score" in ends:
            low, high = ends["score"]
            ends["utility_loss"] = utility_loss(high, base), utility_loss(low, base)
    labels = _labels(group)
    for label in labels:
        values |= {f"{name}:{label}": each for name, each in _attack_values(label, group, baseline) if each}
        if len(group) == 1:
            ends |= {f"{name}:{label}": each for name, each in _attack_intervals(label, group[0], baseline)}
    shares = {"auc", "tailored_auc", *(["score"] if "accuracy" in group[0].result else [])}
    several = {name: each for name, each in values.items() if len(each) > 1}
    ends |= {name: interval(each, share=name.partition(":")[0] in shares) for name, each in several.items()}
    attack = max(labels, key=lambda label: mean(values[f"tailored_auc:{label}"]), default=None)
    strongest = {f"{measure}:{attack}": measure for measure in ATTACK_MEASURES}
    values |= {strongest[name]: each for name, each in values.items() if name in strongest}
    ends |= {strongest[name]: each for name, each in ends.items() if name in strongest}
    values["seconds"] = [float(cell.run.get("seconds", 0.0)) for cell in group]
    facts: dict[str, Any] = {"seeds": len(group), "score": middle, "spread": deviation, "attack": attack}
    return SummaryRow(**place, **facts, values=values, intervals=ends)


def _score_interval(cell: Cell) -> dict[str, Interval]:
    """Return the 95% interval (Clopper-Pearson) of one model's accuracy over its test rows, under the name "score".

    The dict is empty for a regression, and if the cell does not store the number of test rows.
    """
    rows = cell.result.get("test_rows")
    if rows is None or "accuracy" not in cell.result:
        return {}
    low, high = clopper_pearson(np.array([round(float(cell.result["score"]) * rows)]), int(rows), TAIL)
    return {"score": (float(low[0]), float(high[0]))}


def _labels(group: Sequence[Cell]) -> list[str]:
    """Return the labels of the attacks on any of the cells in `group`, in the order of first use."""
    names = (name for cell in group for name in cell.result if name.startswith(AREA))
    return list(dict.fromkeys(name.removeprefix(AREA) for name in names))


def _attack_values(
    label: str, group: Sequence[Cell], baseline: Sequence[Cell]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield each measure of the attack `label` with its values, one for each cell of `group` that has it.

    The measures are `tailored_auc`, `auc` (which cells of earlier versions do not store) and `leakage` as a fraction of
    the leakage of the cells `baseline`. Values are an empty list if there are none.
    """
    areas = _areas(label, group)
    yield "tailored_auc", areas
    facts = [cell.result.get("attacks", {}).get(label, {}) for cell in group]
    yield "auc", [float(one["auc"]) for one in facts if "auc" in one]
    yield "leakage", _shares(areas, _areas(label, baseline))


def _attack_intervals(label: str, cell: Cell, baseline: Sequence[Cell]) -> Iterator[tuple[str, Interval]]:
    """Yield each measure of the attack `label` on the model of `cell` with its 95% interval, over the attacked rows.

    Nothing is yielded if the cell does not store the interval of the AUC, and no interval of `leakage` if it is not
    defined for the cells `baseline`.
    """
    ends = cell.result.get("attacks", {}).get(label, {}).get("auc_interval")
    if ends is None:
        return
    low, high = float(ends[0]), float(ends[1])
    yield "auc", (low, high)
    yield "tailored_auc", (tailored_auc(low), tailored_auc(high))
    if shares := _shares([low, high], _areas(label, baseline)):
        yield "leakage", (shares[0], shares[1])


def _areas(label: str, group: Sequence[Cell]) -> list[float]:
    return [float(cell.result[AREA + label]) for cell in group if AREA + label in cell.result]


def _shares(areas: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Return the leakage of each AUC in `areas` as a fraction of the leakage of the mean AUC in `baseline`.

    Each value is `privacy_leakage(area, mean(baseline))`. The list is empty if `baseline` is empty, or if its mean is
    below `MIN_BASELINE_AUC`.
    """
    shares = [privacy_leakage(area, mean(baseline)) for area in areas] if baseline else []
    return [share for share in shares if share is not None]
