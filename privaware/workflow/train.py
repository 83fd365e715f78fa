"""Private training of a user's own network: calibrate, charge, run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware import accounting
from privaware.descent import Callbacks, Checkpoint, Descent, FullBatch, Poisson, cross_entropy, flat, sgd
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.noise import Rng

if TYPE_CHECKING:
    from torch import nn

__all__ = ["train"]


def train(
    module: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    loss: Callable[..., Any] = cross_entropy,
    epsilon: float,
    delta: float = 1e-5,
    steps: int,
    rate: float,
    norm: float,
    lr: float,
    ledger: Ledger | str | Path | None = None,
    rows: int | None = None,
    seed: int | None = None,
    device: str = "cpu",
    progress: Callable[[int, int, float], None] | None = None,
    checkpoint: Checkpoint | str | None = None,
    **more: Any,
) -> nn.Module:
    """A copy of `module`, trained on `inputs` and `targets` within (epsilon, delta); the module itself is not changed.

    Each of `steps` takes every row with probability `rate`, scales its gradient to at most `norm`, adds Gaussian noise,
    divides by rate x rows and moves by `lr`. `loss(outputs, targets)` gives one value a row. `rows` is the public
    number of rows; without it the number of `targets` counts as public. `more` goes to `Descent`: `update`, `clip`,
    `average`, `copies`, `microbatch` and the like.

    Privacy: (epsilon, delta) for adding or removing one row. A ledger, or its file, is charged before a row is used.

    >>> import torch
    >>> from torch import nn
    >>> x = torch.randn(500, 2)
    >>> net = train(nn.Linear(2, 2), x, (x[:, 0] > 0).long(), epsilon=2.0, steps=20, rate=1.0, norm=1.0, lr=2.0)
    >>> bool((net(x).argmax(1) == (x[:, 0] > 0)).float().mean() > 0.8)
    True
    """
    count = len(targets) if rows is None else rows
    if not 0 < delta * count < 1:
        raise WrongInput(
            f"expected delta below 1 / rows ({1 / max(count, 1):.3g}), got {delta!r}; choose a smaller delta"
        )
    settings = {"clip": flat(norm), "update": sgd(lr), "loss": loss, **more}
    sampler = FullBatch() if rate == 1 else Poisson(rate=rate)
    descent = Descent(steps=steps, sampler=sampler, **settings)
    noise = accounting.calibrate(descent.cost, epsilon, delta)
    run = None if checkpoint is None else _run_name(checkpoint)
    charged = None if ledger is None else _row_ledger(ledger, epsilon, delta)
    if charged is not None:
        what = f"train {type(module).__name__}: {steps} steps at rate {rate:g}, norm {norm:g}"
        charged.spend(descent.cost(noise), what=what, seed=seed, run=run)
    saved = Checkpoint(checkpoint) if isinstance(checkpoint, str) else checkpoint
    trained = descent.run(
        module,
        inputs,
        targets,
        noise=noise,
        rows=count,
        rng=Rng(seed),
        device=device,
        callbacks=Callbacks(checkpoint=saved, progress=progress),
    )
    if charged is not None and run is not None:
        charged.finish(run)
    return trained


def _run_name(checkpoint: Checkpoint | str) -> str:
    """The name of a run in the ledger, so that one resumed from its checkpoint is not charged again."""
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    return f"train {Path(path).resolve()}"


def _row_ledger(ledger: Ledger | str | Path, epsilon: float, delta: float) -> Ledger:
    """The ledger, or that of a file: a new one has this run's epsilon as its limit."""
    if not isinstance(ledger, Ledger):
        ledger = Ledger.open_or_create(ledger, delta=delta, new_limit=epsilon)
    if (ledger.unit, ledger.relation) != ("row", "add_remove"):
        raise WrongInput(
            f"expected a ledger for adding or removing one row, got one for {ledger.unit}, {ledger.relation}; "
            "use another ledger"
        )
    return ledger
