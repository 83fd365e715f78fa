"""The file of a result that is not a model, such as `selection.json`: its content, and how it is read to verify it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware import accounting
from privaware._version import __version__
from privaware.card import PricedEvent
from privaware.errors import WrongInput

if TYPE_CHECKING:
    from privaware.schema import Schema
    from privaware.workflow.run.plan import Plan

__all__ = ["ResultFile", "result_content", "result_name"]

NAMES = ("selection.json", "crossover.json", "audit.json", "pilot.json")
FORMAT = 1
"""Version of the file format that this package reads."""


def result_name(folder: Path) -> str | None:
    """Return the name of the result file in a folder; None if the folder holds a model or no result."""
    if (folder / "model.json").exists():
        return None
    return next((name for name in NAMES if (folder / name).is_file()), None)


def result_content(
    result: Mapping[str, Any],
    plan: Plan,
    schema: Schema,
    *,
    seed: int | None,
    ledger: str,
    description: Mapping[str, Any],
) -> bytes:
    """Return the content of a result file.

    Parameters
    ----------
    result
        The result; its entries `seconds`, `internal` and `out` are not written.
    plan
        The plan of the run, with its cost.
    schema
        The schema of the rows, with the unit of privacy.
    seed
        The seed of the run, if it is seeded.
    ledger
        The hash of the ledger entry that charged the run.
    description
        The owner's statement; empty if there is none.

    Returns
    -------
    bytes
        The JSON text.
    """
    record = {
        "format": FORMAT,
        "version": __version__,
        **{key: value for key, value in result.items() if key not in ("seconds", "internal", "out")},
        "unit": schema.unit,
        "relation": schema.relation,
        "seed": seed,
        "events": [
            PricedEvent(what=what, event=event, epsilon=accounting.epsilon(event, plan.delta)).json()
            for what, event in plan.parts
        ],
        "ledger": ledger,
        **({"description": description} if description else {}),
    }
    return json.dumps(record, indent=1, allow_nan=False).encode()


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """The statements of a result file about its guarantee.

    `unit` and `relation` are those of the schema. `certified` is false if the run has a seed, the plan has a flaw, or
    the schema was not reviewed. `plan` are the sentences of the plan, `events` the releases with their epsilon, and
    `ledger` is the hash of the ledger entry that charged the run.
    """

    epsilon: float
    delta: float
    unit: str
    relation: str
    seed: int | None
    certified: bool
    plan: tuple[str, ...]
    events: tuple[PricedEvent, ...]
    ledger: str

    @classmethod
    def read(cls, path: Path) -> ResultFile:
        """Read a file of one of `NAMES`; raise `WrongInput` for any other content."""
        damaged = WrongInput(f"{path.name} is damaged: expected the entries that its verb writes; restore the folder")
        try:
            content = json.loads(path.read_bytes().decode("utf-8"))
            if content["format"] != FORMAT:
                raise WrongInput(f"{path.name}: expected format {FORMAT}, got another; use a matching privaware")
            result = cls(
                epsilon=float(content["epsilon"]),
                delta=float(content["delta"]),
                unit=str(content["unit"]),
                relation=str(content["relation"]),
                seed=content["seed"],
                certified=content["certified"] is True,
                plan=tuple(map(str, content["plan"])),
                events=tuple(PricedEvent.from_json(part) for part in content["events"]),
                ledger=str(content["ledger"]),
            )
        except OSError as problem:
            raise WrongInput(f"cannot read {path}: {problem.strerror or problem}") from None
        except WrongInput as problem:
            sentence = " ".join(str(problem).split())
            raise WrongInput(f"{sentence:.400}") from None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            raise damaged from None
        if not (math.isfinite(result.epsilon) and result.epsilon >= 0 and 0 < result.delta < 1):
            raise damaged
        return result

    @property
    def facts(self) -> dict[str, Any]:
        """The statements that the ledger also makes: `delta`, `unit`, `relation` and `seed`."""
        return {"delta": self.delta, "unit": self.unit, "relation": self.relation, "seed": self.seed}
