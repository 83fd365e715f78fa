"""All planted bugs in one table, by area, each with the words of the check that catches it.

python -m tests.testing.planted_bugs   # the table of docs/planted_bugs.md
"""

from __future__ import annotations

import re
from typing import Any

from tests.testing import planted_descent as descent
from tests.testing import planted_preparation as preparation
from tests.testing import planted_releases as releases
from tests.testing import planted_runs as runs

DIFFERS = "the release differs on neighbouring rows"
TOO_LOW = "the stated cost is too low"
EXCEEDED = "sensitivity exceeded"
CONTROL = "control flow depends on the rows"
SILENT = "the same release for different seeds"

BUGS: dict[str, dict[type[Any], str]] = {
    "accounting": {
        descent.StepsOffByOne: TOO_LOW,
        descent.CostIsANumber: "cost is not an event",
        descent.CostByIdentity: "cost is not a function of public facts",
        descent.CostGrowsWithNoise: "more noise costs more",
        descent.CostOfRealisedRows: "the cost changed after a run",
        runs.RateSquared: TOO_LOW,
        runs.StepsAsDisjoint: TOO_LOW,
        runs.VarianceAsMultiplier: TOO_LOW,
        runs.FailureOnly: TOO_LOW,
        runs.RhoOfOneStep: TOO_LOW,
        runs.GroupForgotten: f"{EXCEEDED}: .* by 3 times",
        runs.GroupOfHalf: TOO_LOW,
        releases.PartsOverlap: TOO_LOW,
        releases.CheaperWithColumns: "fewer columns cost more",
    },
    "sampling": {
        descent.ShuffledAsPoisson: TOO_LOW,
        descent.SampledWithReplacement: TOO_LOW,
        descent.SampleIgnored: f"{TOO_LOW}.*moved by a row outside the sample",
        descent.RateFromData: f"{TOO_LOW}|the rate of call",
        descent.OneSampleTwice: TOO_LOW,
        runs.RateDoubled: TOO_LOW,
        runs.OneSampleForAllSteps: TOO_LOW,
        runs.LargestGradientsSampled: TOO_LOW,
    },
    "clipping": {
        descent.NoClip: EXCEEDED,
        descent.ClipOffByTwo: f"{EXCEEDED}: .* by 2 times",
        descent.NotFinite: "an exact value that is not finite",
        releases.WrongBoundIndex: EXCEEDED,
        releases.UpperBoundOnly: EXCEEDED,
        releases.CrowdMixed: EXCEEDED,
        runs.ClipByCoordinate: EXCEEDED,
        runs.ClipTheSum: EXCEEDED,
        runs.ClipByTheMean: EXCEEDED,
        runs.ClipOnlyLarge: EXCEEDED,
    },
    "summation": {
        descent.RealisedDivisor: DIFFERS,
        descent.NoiseAfterTheMean: f"{CONTROL}: the sensitivity of call",
        descent.BatchFactor: EXCEEDED,
        runs.RowsCountedTwice: f"{EXCEEDED}: .* by 2 times",
        runs.CentredByTheMean: EXCEEDED,
    },
    "noise": {
        descent.NoiseForgotten: DIFFERS,
        descent.NoiseHalved: TOO_LOW,
        descent.NoisePerMicroBatch: f"{TOO_LOW}|{CONTROL}",
        descent.NoiseReused: DIFFERS,
        descent.NoiseIgnoresTheKnob: TOO_LOW,
        descent.QuietFastPath: "the canary game proves",
        descent.FixedSeed: SILENT,
        descent.OwnRandomness: "the same seed gives different releases",
        descent.FixedNoise: DIFFERS,
        descent.TorchStream: "by rng.torch",
        runs.NoiseOnTheFirst: DIFFERS,
        runs.NoiseScaledByRate: TOO_LOW,
        runs.NoiseRefined: f"{TOO_LOW}|{CONTROL}",
    },
    "preprocessing": {
        descent.BoundsFromData: f"{EXCEEDED}|{TOO_LOW}.*outside the sample",
        descent.CrashWithoutRows: "run crashed on .*0 rows",
        preparation.StandardisedByTheRows: DIFFERS,
        preparation.CategoriesOfTheRows: DIFFERS,
        preparation.FilledByTheMedian: DIFFERS,
        preparation.OutliersRemoved: EXCEEDED,
        preparation.DuplicatesRemoved: DIFFERS,
        preparation.MissingIndicator: DIFFERS,
    },
    "selection": {
        preparation.ColumnWithoutNoise: SILENT,
        preparation.ColumnByHalfTheSensitivity: EXCEEDED,
        preparation.ColumnByShare: EXCEEDED,
        preparation.TwoColumnsForOne: TOO_LOW,
        preparation.ColumnWithItsScore: DIFFERS,
        preparation.CorrelationSelected: EXCEEDED,
    },
    "scores": {
        descent.ScoreInTheReport: DIFFERS,
        descent.ScoreInAClosure: DIFFERS,
        descent.BatchSizesLogged: DIFFERS,
        preparation.ScoreOverRealisedRows: DIFFERS,
        preparation.ScoreWithoutNoise: SILENT,
        preparation.ScoreOfEachClass: TOO_LOW,
        preparation.ScoreRoundedExactly: DIFFERS,
    },
    "label mechanisms": {
        releases.AnswersShifted: EXCEEDED,
        releases.AnswersForRows: f"{CONTROL}: .* shape",
        releases.StagesOverlap: TOO_LOW,
        releases.StagesOverlapByOne: TOO_LOW,
        releases.StagesAnswerTwice: TOO_LOW,
        releases.StagesSeeLabels: f"{CONTROL}: the candidates of call",
        preparation.AnswersTwice: TOO_LOW,
        preparation.AnswersTooTrue: TOO_LOW,
        preparation.PriorOfTheLabels: DIFFERS,
        preparation.TrueWhereRare: DIFFERS,
        preparation.OneHotMovesOne: EXCEEDED,
        preparation.OneHotAsGaussian: TOO_LOW,
    },
    "checkpoints": {
        descent.KeepsTheRows: "run changed the fields",
        runs.CheckpointOfTheSum: DIFFERS,
        runs.CheckpointOfTheSample: DIFFERS,
    },
    "search": {
        runs.CandidatesForOne: TOO_LOW,
        runs.BestByExactScore: DIFFERS,
        runs.BestByQuietScore: TOO_LOW,
        runs.NextByExactScore: CONTROL,
        runs.TrialsInTheJournal: DIFFERS,
        runs.ScoreOnTrainingRows: TOO_LOW,
    },
    "resume and early stops": {
        descent.EmptyBatchSkipped: CONTROL,
        descent.BranchOnLabels: f"{CONTROL}: the noise of call",
        descent.EarlyStopping: CONTROL,
        runs.ResumedFromTheStart: TOO_LOW,
        runs.ResumedWithTheSameNoise: DIFFERS,
        runs.StepsUntilGood: CONTROL,
    },
}
"""Bugs that `check_mechanism` catches, with a regular expression for its sentence."""

PLAYED = {
    "linear": ("half the noise", "a row counted twice"),
    "dpsgd": ("half the noise", "sampling priced and not done"),
    "pate": ("half the noise",),
    "alibi": ("half the noise",),
    "label_mst": ("half the noise",),
    "pafs": ("half the noise",),
    "cfs_greedy": ("half the noise", "a row counted twice"),
    "cfs_ga": ("half the noise", "a row counted twice"),
    "top": ("half the noise",),
    "ranges, categories": ("half the noise", "a row counted twice"),
    "ranges, numbers": ("half the noise", "a row counted twice"),
    "search": ("half the noise",),
}
"""Bugs of our own mechanisms that the canary games prove, blind to calls and sensitivities."""

AUDITED = {
    "linear": ("half the noise", "three times the steps", "a generator with less noise"),
    "descent": ("clipping at twice the norm", "half the noise"),
    "dpsgd": ("a fifth of the noise",),
}
"""Bugs that the one-run audit refutes at 99.9%."""


def words(bug: type[Any]) -> str:
    """What a planted bug does: its docstring, or its name."""
    text = bug.__dict__.get("__doc__") or re.sub(r"(?<!^)(?=[A-Z])", " ", bug.__name__).lower()
    return " ".join(text.split()).rstrip(".")


def caught_by(sentence: str) -> str:
    """Which check a sentence is of."""
    if "canary game" in sentence:
        return "canary game"
    if sentence.startswith(TOO_LOW):
        return "price of the recorded calls"
    replayed = sentence.startswith((DIFFERS, EXCEEDED, CONTROL))
    return "replay" if replayed else "property check"


def rows() -> list[str]:
    """The lines of the table."""
    lines = [
        f"| {area} | {words(bug)} (`{bug.__name__}`) | {caught_by(sentence)} |"
        for area, bugs in BUGS.items()
        for bug, sentence in bugs.items()
    ]
    for how, played in (("canary game of the mechanism", PLAYED), ("one-run audit", AUDITED)):
        lines += [f"| our {name} | {bug} | {how} |" for name, bugs in played.items() for bug in bugs]
    return lines


if __name__ == "__main__":
    print("\n".join(["| area | planted bug | caught by |", "|---|---|---|", *rows()]))
