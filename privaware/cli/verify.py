"""`privaware verify`: recompute the guarantee of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privaware._rounded import rounded_up
from privaware.cli import _options as o
from privaware.cli._terminal import show

if TYPE_CHECKING:
    from privaware.workflow.verify import Verdict

app = typer.Typer()
_SUBJECT = "A folder made by `privaware fit`, `search`, `select`, `crossover` or `audit`."
SUBJECT = Annotated[Path, typer.Argument(help=_SUBJECT, show_default=False)]
LEDGER = Annotated[
    Path | None, o.option("The ledger of the data set. With it, the charge and the hashes of all files are checked.")
]
KEY = Annotated[Path | None, o.option("A PEM file with the Ed25519 public key of the signer of the model.")]


@app.command(epilog="Example: privaware verify income-model --ledger people.csv.ledger")
def verify(model: SUBJECT, ledger: LEDGER = None, key: KEY = None, seed: o.NO_SEED = None, json: o.JSON = False) -> int:
    """Recompute the guarantee of a model, and compare its files with the ledger and the signature, if given."""
    from privaware.workflow.verify import verify as run

    verdict = run(model, ledger=ledger, key=key)
    lines = [_verdict(verdict), *verdict.problems]
    if verdict.bound:
        by = " and ".join(["the ledger"] * (ledger is not None) + ["a signature"] * (verdict.signed is True))
        lines.append(f"The files are those that were released, according to {by}.")
    lines += [line if line.startswith("not bound") else f"not checked: {line}" for line in verdict.unchecked]
    known = {name: value for name, value in verdict.epsilon.items() if value is not None}
    epsilons = [f"epsilon by {name} {rounded_up(value)}" for name, value in known.items()]
    lines.append(", ".join([*epsilons, f"delta {rounded_up(verdict.delta)}"]))
    if len(known) > 1:
        lines.append(
            "Each of these epsilons is an upper bound for the same delta, so a larger one is looser and contradicts "
            f"nothing.{' pld and cf are computed independently, and are compared.' * ({'pld', 'cf'} <= set(known))}"
        )
    show(verdict.json(), lines, json)
    return 0 if verdict.valid else 4


def _verdict(verdict: Verdict) -> str:
    if not verdict.valid:
        return "NOT valid"
    return f"valid, but {verdict.reason}" if verdict.reason else "valid"
