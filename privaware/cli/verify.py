"""`privaware verify`: the guarantee of a model, recomputed."""

from __future__ import annotations

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show

app = typer.Typer()


@app.command(epilog="Example: privaware verify income-model --ledger people.csv.ledger")
def verify(model: o.MODEL, ledger: o.LEDGER = None, seed: o.SEED = None, json: o.JSON = False) -> int:
    """Recompute a model's guarantee from its events, with both accountants."""
    from privaware.workflow.verify import verify as run

    verdict = run(model, ledger=ledger)
    lines = [_verdict(verdict.valid, verdict.certified), *verdict.problems]
    epsilons = [f"epsilon by {name} {value:.5g}" for name, value in verdict.epsilon.items() if value is not None]
    lines.append(", ".join([*epsilons, f"delta {verdict.delta:g}"]))
    show(verdict.json(), lines, json)
    return 0 if verdict.valid else 4


def _verdict(valid: bool, certified: bool) -> str:
    if not valid:
        return "NOT valid"
    return "valid" if certified else "valid, but not certified: see its guarantee for why"
