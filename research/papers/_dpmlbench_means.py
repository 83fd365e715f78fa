"""Means over seeds of the cells of DPMLBench, as its findings ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean

from privaware.bench._store import Cell, training_key
from privaware.metrics import privacy_leakage

__all__ = ["ATTACKS", "Key", "Means", "Verdict"]

ATTACKS = ("auc black_box", "auc white_box")
Key = tuple[str, str, str, float | None]
"""Learner, network, data and epsilon."""
Verdict = tuple[bool, str]
"""Whether a finding holds in our cells, and the numbers that say so."""


@dataclass(frozen=True)
class Means:
    """The mean of each result by learner, network, data and epsilon."""

    values: Mapping[Key, Mapping[str, float]]

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Means:
        """Of cells at full size; what failed is left out, and a training counts once, however often it is stored."""
        groups: dict[Key, dict[str, dict[str, float]]] = {}
        for cell in cells:
            settings = cell.settings
            if "failed" in cell.result or "rows" not in settings or "train" in settings["rows"]:
                continue
            key = (settings["learner"], settings["network"], settings["data"], settings["epsilon"])
            for name, value in cell.result.items():
                if isinstance(value, (int, float)):
                    trainings = groups.setdefault(key, {}).setdefault(name, {})
                    trainings[training_key(settings)] = float(value)
        return cls({key: {name: mean(each.values()) for name, each in group.items()} for key, group in groups.items()})

    def get(self, learner: str, network: str, data: str, epsilon: float | None, name: str = "accuracy") -> float | None:
        return self.values.get((learner, network, data, epsilon), {}).get(name)

    def having(self, name: str, learners: Iterable[str] | None = None) -> Iterator[tuple[Key, float]]:
        """All cells with such a result, of these learners."""
        for key, results in self.values.items():
            if name in results and (learners is None or key[0] in learners):
                yield key, results[name]

    def leakage(self, key: Key, name: str = ATTACKS[0]) -> float | None:
        """The share that remains of the leakage of SGD with the same network and data; None where SGD leaks nothing."""
        area, baseline = self.get(*key, name), self.get("sgd", key[1], key[2], None, name)
        return None if area is None or baseline is None else privacy_leakage(area, baseline)
