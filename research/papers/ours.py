"""Results of our own that no one paper asks for: default learners, the prior, printed epsilons, convex prices, rows.

Pages: docs/results/core.md, prior.md, amortised.md, accounting.md, convex.md and sample_size.md.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from privaware.bench import Result, Settings
from research.papers import Item
from research.papers import _ours_accounting as accounting
from research.papers import _ours_convex as convex
from research.papers import _ours_prior as prior
from research.papers import _ours_sample_size as sample_size
from research.papers import _ours_tables_prior as tables_prior
from research.papers._published import load_items
from research.papers._runner import Bench

__all__ = ["ITEMS"]


def core(bench: Bench, settings: Settings) -> Result:
    """A whole `fit` in process, everything charged: mean and spread of test scores over the seeds, and its seconds."""
    from privaware.workflow.fit import fit

    models, took = [], []
    for seed in range(settings["seeds"]):
        began = time.perf_counter()
        models.append(fit(settings["data"], epsilon=settings["epsilon"], learner=settings["learner"], seed=seed))
        took.append(time.perf_counter() - began)
    scores = [model.internal["test_score"] or 0.0 for model in models]
    return {
        "score": float(np.mean(scores)),
        "spread": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
        "mae": float(np.mean([model.internal.get("mae") or 0.0 for model in models])),
        "constant": models[-1].internal["constant_score"] or 0.0,
        "epsilon": models[-1].epsilon,
        "learner": models[-1].learner,
        "first_seconds": took[0],
        "later_seconds": float(np.median(took[1:] or took)),
    }


def epsilons() -> Item:
    """Every claim of a paper about its epsilon is a cell."""
    runs = [
        {"paper": paper, "entry": claim.entry, "printed": claim.printed}
        for paper, listed in accounting.CLAIMS.items()
        for claim in listed
    ]
    return Item(
        id="ours/accounting/epsilons",
        title="The epsilons that the papers printed, recomputed",
        published={" ".join(cell.values()): cell["printed"] for cell in runs},
        published_as="printed",
        runs=runs,
        quick=[{"paper": "Bao", "entry": "Table I, FCN MNIST", "printed": "2.11"}],
        columns=["paper", "entry", "printed"],
        measured="theirs",
        run=accounting.recomputed,
        page="accounting",
        priced=False,
    )


RUNS = {"accounting": accounting, "convex": convex, "prior": prior, "sample_size": sample_size}
RUNS |= {"tables_prior": tables_prior}
ITEMS = [epsilons(), *load_items("ours", core=sys.modules[__name__], **RUNS)]
