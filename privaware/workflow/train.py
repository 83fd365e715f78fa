"""Train a user's own PyTorch module with DP-SGD: calibrate the noise, charge the ledger, train."""

from __future__ import annotations

import inspect
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from privaware import accounting
from privaware._files import locked_beside
from privaware._rounded import number
from privaware._validate import expect_count, expect_path, expect_positive, renamed_keywords, shown
from privaware.card import Guarantee
from privaware.data import Raw, Sketch, array_cells, cells_sketch, hashes_and_sketch, rows_digest
from privaware.descent import (
    Callbacks,
    Checkpoint,
    Descent,
    FullBatch,
    Poisson,
    Update,
    anchored,
    cross_entropy,
    flat,
    sgd,
    torch_optimizer,
)
from privaware.descent._code_facts import code_facts
from privaware.errors import PrivawareError, WrongInput, without_torch_warnings
from privaware.ledger import NOT_RESUMED, Entry, Ledger, digest_key, memory_ledger
from privaware.noise import Rng
from privaware.ranks import joined, on_all_ranks, reports
from privaware.schema import Schema
from privaware.workflow._torch_rows import (
    expect_arguments,
    expect_sendable,
    expect_usable,
    failures_of_module,
    rows_and_targets,
    rows_of_all,
)
from privaware.workflow.run.options import expect_device
from privaware.workflow.run.output import sha256
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.progress import step_progress, to_stderr
from privaware.workflow.run.row_ledger import known_path, register_rows

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from privaware.mechanism import Mechanism

__all__ = ["train"]

MOST_COLUMNS = 64
"""Largest number of columns of arrays that are also recognised as a table; a wider array, such as pixels, is not."""


@renamed_keywords(rate="sampling_rate", norm="clipping_norm")
def train(
    module: nn.Module,
    inputs: Any,
    targets: Any = None,
    *,
    loss: Callable[..., Any] = cross_entropy,
    epsilon: float,
    delta: float = accounting.DEFAULT_DELTA,
    steps: int,
    sampling_rate: float,
    clipping_norm: float,
    lr: float | None = None,
    optimizer: Any = None,
    ledger: Ledger | str | Path | None = None,
    rows: int | None = None,
    seed: int | None = None,
    device: str = "cpu",
    progress: Callable[[int, int, float], None] | bool | None = True,
    checkpoint: Checkpoint | str | Path | None = None,
    own_rows: bool = False,
    **more: Any,
) -> nn.Module:
    """Train a copy of a PyTorch module with DP-SGD within (epsilon, delta).

    Each step samples every row with probability `sampling_rate` and clips the gradient of each row to
    `clipping_norm`. It adds Gaussian noise to the sum of clipped gradients, divides by `sampling_rate * rows`, and
    updates the parameters with learning rate `lr`.

    Parameters
    ----------
    module
        The module. It is not changed.
    inputs, targets
        The training rows, as tensors or arrays (a tuple of them for a module with several inputs). Or, without
        `targets`, a data set of PyTorch with pairs (input, target), or a DataLoader: only its data set is used, because
        the guarantee holds for independent samples, not for its batches. An item is read once, so a random
        transformation in the data set is applied once.
    loss
        A function `loss(outputs, targets)` that returns one value for each row. A loss of PyTorch does so with
        `reduction="none"`.
    epsilon, delta
        The guarantee, for adding or removing one row; `delta` must be below 1 / rows.
    steps
        The number of steps.
    sampling_rate
        The probability that a row is in the batch of a step.
    clipping_norm
        The largest norm of a per-example gradient after clipping.
    lr
        The learning rate. Needed unless `optimizer` has its own.
    optimizer
        An optimiser of PyTorch: a class such as `torch.optim.AdamW`, a function that takes a list of parameters and
        returns an optimiser, or a new optimiser of the parameters of `module`. It sees the noisy gradient only, so it
        does not change the guarantee. An optimiser that needs a closure, such as LBFGS, is refused. Default: gradient
        descent.
    ledger
        The ledger to charge, or its file. Default: the ledger that was charged for these rows before, or else a new one
        in the user's data folder. The limit of a new ledger is this `epsilon`.
    rows
        The public number of rows. Default: the number of `targets`, which then counts as public.
    seed
        The random seed. A seeded result is not for release.
    device
        "cpu" or "cuda".
    progress
        A function `progress(step, steps, seconds_left)`. True: a training of more than two seconds writes its progress
        to standard error. False or None: nothing is written.
    checkpoint
        A file from which an interrupted run resumes on the same rows, without a second charge. Until the training ends,
        it is as secret as the rows. Then it holds the trained parameters only, and the same call returns the trained
        module again, without a charge. One call at a time can train with a file; another one raises `WrongInput`.
    own_rows
        In a script that `torchrun` started, whether `inputs` and `targets` of each process are a part of the training
        rows. Default: every process gives all training rows.
    **more
        Further arguments of `privaware.descent.Descent`, such as `update`, `clip`, `average`, `copies` and
        `microbatch`.

    Returns
    -------
    torch.nn.Module
        The trained copy, in the mode of `module`: after training mode, call `.eval()` before predictions, which dropout
        makes random otherwise. Its attribute `guarantee` has `epsilon`, `delta` and `certified`.

    Notes
    -----
    The ledger is charged before a mechanism sees a row. Before the charge every row passes once through a copy of the
    module, and rows that the module or the loss cannot use, such as a class out of range, raise `WrongInput`.

    In a script that `torchrun` started, all processes train together, and rank 0 charges the ledger once. Any number of
    processes up to eight gives the same result.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> x = torch.randn(500, 2)
    >>> y = (x[:, 0] > 0).long()
    >>> net = train(nn.Linear(2, 2), x, y, epsilon=2.0, steps=20, sampling_rate=1.0, clipping_norm=1.0, lr=2.0)
    >>> bool((net(x).argmax(1) == y).float().mean() > 0.8)
    True
    >>> net.guarantee.epsilon <= 2.0, net.guarantee.certified
    (True, True)
    """
    expect_arguments(module, more)
    expect_positive("train", epsilon=epsilon, delta=delta)
    expect_count("train", steps=steps)
    expect_count("train", optional=True, rows=rows)
    steps, rows = int(steps), None if rows is None else int(rows)  # descent and schema refuse integers of NumPy
    if checkpoint is not None and not isinstance(checkpoint, (str, Path, Checkpoint)):
        raise WrongInput(f"expected checkpoint as the path of a file, got {shown(checkpoint)}")
    inputs, targets = rows_and_targets(inputs, targets, to_stderr if progress is True and reports() else None)
    ranks = joined()
    if ranks is not None:
        inputs, targets = rows_of_all(ranks, inputs, targets, own_rows=own_rows)

    rng = Rng(seed)  # refuses a wrong seed before anything is charged

    def charged_training() -> nn.Module:
        count = len(targets) if rows is None else rows
        if not 0 < delta * count < 1:
            raise WrongInput(
                f"expected delta above 0 and below 1 / rows, got delta {number(delta)} and {count} rows; choose "
                "another delta"
            )
        update = _update(module, optimizer, lr, more)
        settings = {**more, "clip": _clip(clipping_norm, more), "loss": loss, "update": update}
        sampler = FullBatch() if sampling_rate == 1 else Poisson(rate=sampling_rate)
        descent = Descent(steps=steps, sampler=sampler, **settings)
        expect_device(device)
        listener = _listener(progress)
        with failures_of_module():
            descent.check(module, inputs, targets, device=device)  # raises before anything is charged
        if ranks is not None:
            ranks.expect_device(device)
            expect_sendable(module, descent)
        expect_usable(module, descent.loss, inputs, targets, device)
        noise = accounting.calibrate(descent.cost, epsilon, delta)
        saved = Checkpoint(checkpoint) if isinstance(checkpoint, (str, Path)) else checkpoint
        event = descent.cost(noise)
        known = cache(lambda: _known_rows(inputs, targets))
        _expect_public(descent.projection, inputs)
        what = f"train {type(module).__name__}: {steps} steps at rate {sampling_rate:g}, norm {clipping_norm:g}"
        with _locked_run(saved) as run:
            charged = _row_ledger(ledger, lambda: known()[0], epsilon, delta, saved)
            entry = None if saved is None else _finished_charge(charged, run, saved)
            finished = entry is not None and (entry.event, entry.seed) == (event, seed)
            if not finished:
                charged.ready(event, what=what, seed=seed, run=run)
            if saved is not None:
                before = charged.find(run)
                _expect_own_file(saved, before, known()[0])
                if before is not None and progress is True and reports():
                    to_stderr("This call was charged before, so nothing is charged again.")
            if entry is None or not finished:
                digest = register_rows(charged, lambda: known()[0], lambda: known()[1], event, None, run)
                entry = charged.spend(event, what=what, seed=seed, run=run, rows=digest)
            if saved is not None:
                saved = replace(saved, run=_bound_to(entry, known()[0]))
            callbacks = Callbacks(checkpoint=saved, progress=listener)
            trained = descent.run(
                module, inputs, targets, noise=noise, rows=count, rng=rng, device=device, callbacks=callbacks
            )
            if not finished:
                _finish(charged, run, saved, steps)
        assumed = () if rows is not None else ("the number of rows, which is the number of targets",)
        plan = Plan(
            learner="train",
            mechanism=cast("Mechanism[Any]", descent),
            schema=Schema(rows=count, assumed=assumed),
            noise=noise,
            delta=delta,
            parts=((what, event),),
        )
        trained.guarantee = Guarantee.of(plan, seed)  # type: ignore[assignment]
        return trained

    public = (epsilon, delta, steps, sampling_rate, clipping_norm, lr, rows, seed, device)
    given = (loss, more, _settings_of(optimizer))
    with _eager_mode():
        return on_all_ranks(
            charged_training, lambda: {"settings": repr((public, code_facts(given))), "module": str(module)}
        )


@contextmanager
def _eager_mode() -> Iterator[None]:
    """Run modules and functions that `torch.compile` returned eagerly in a `with` block, also in inference mode.

    Compiled code would compile the hooks that compute per-example gradients, and inference mode records no gradients.
    Warnings of PyTorch about its own code are hidden, too (`without_torch_warnings`).
    """
    import torch

    with without_torch_warnings(), ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        if "torch._dynamo" in sys.modules:  # slow to import; `torch.compile` imports it
            modes.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _settings_of(optimizer: Any) -> Any:
    """Return what all ranks must give alike of `optimizer`: a built one has settings, and parameters of one rank."""
    if not hasattr(optimizer, "param_groups"):
        return optimizer
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    return type(optimizer), groups


def _clip(clipping_norm: float, more: Mapping[str, Any]) -> Any:
    """Return `more["clip"]`, else a flat clip; raise `WrongInput` if its norm is not `clipping_norm`."""
    clip = more.get("clip", flat(clipping_norm))
    norm = getattr(clip, "norm", None)
    if isinstance(norm, (int, float)) and norm != clipping_norm:
        raise WrongInput(
            f"expected clipping_norm as in clip, got {number(clipping_norm)} beside a clip with the norm "
            f"{number(norm)}; give the same norm in both"
        )
    return clip


def _update(module: nn.Module, optimizer: Any, lr: float | None, more: Mapping[str, Any]) -> Update:
    """Return the update by `optimizer`, else `more["update"]`, else gradient descent with learning rate `lr`.

    `module` has the parameters that `optimizer` changes, and `more` has the further arguments of `train`. Raise
    `WrongInput` if both `optimizer` and an update are given, or if nothing or more than one gives a learning rate.
    """
    if optimizer is not None:
        if "update" in more:
            raise WrongInput("expected one of optimizer and update, got both")
        return torch_optimizer(optimizer, module, lr)
    if "update" in more:
        if lr is not None:
            raise WrongInput("expected the learning rate once, got lr beside an update with its own; leave lr out")
        return more["update"]
    if lr is None:
        raise WrongInput("expected lr, the learning rate, or an optimizer that has its own, got neither")
    return sgd(lr)


def _listener(progress: Callable[[int, int, float], None] | bool | None) -> Callable[[int, int, float], None] | None:
    """Return the listener `progress`; for True, the listener that writes to standard error; for False or None, None.

    Raise `WrongInput` for an object that cannot be called with three arguments.
    """
    if progress is None or isinstance(progress, bool):
        return step_progress(None) if progress else None
    try:
        inspect.signature(progress).bind(0, 1, 0.0)
    except TypeError:
        raise WrongInput(
            f"expected progress as a function of step, steps and seconds_left, or True or False, got {shown(progress)}"
        ) from None
    except ValueError:  # a function written in C may have no signature
        pass
    return progress


@contextmanager
def _locked_run(saved: Checkpoint | None) -> Iterator[str]:
    """Yield the key of the run of a checkpoint, which is locked until the block or the process ends.

    Without a checkpoint, the key is random and begins with `NOT_RESUMED`.
    Without the lock, two calls that train at the same time could release two models for one charge. Raise `WrongInput`
    if another call has the lock, or if the folder of the checkpoint is missing or cannot be written to.
    """
    if saved is None:
        yield f"{NOT_RESUMED}{secrets.token_hex(16)}"
        return
    path = Path(saved.path).resolve()
    if not path.parent.is_dir():
        raise WrongInput(f"expected a checkpoint in a folder that exists, got {str(saved.path)!r}")
    with ExitStack() as held:
        try:
            busy = f"another process trains with the checkpoint {str(saved.path)!r}; let it end, or name another file"
            held.enter_context(locked_beside(path, busy))
        except OSError as problem:
            raise WrongInput(
                f"cannot lock the checkpoint {str(saved.path)!r}: {problem.strerror or problem}; name a file in a "
                "folder that can be written to"
            ) from None
        yield f"train {path}"


def _bound_to(entry: Entry, digest: str) -> str:
    """Return "HASH DIGEST": the hash of the charge `entry`, and the `digest` of the rows.

    A checkpoint stores this text, so that it is resumed only for the same charge and the same rows.
    """
    return f"{entry.hash} {digest}"


def _files(path: Path) -> dict[str, str]:
    """Return {file name: SHA-256} for the file at `path`, in the form in which a closing entry lists files."""
    return {path.name: sha256(path)}


def _finish(ledger: Ledger, run: str, saved: Checkpoint | None, steps: int) -> None:
    """Close the trained `run` in `ledger`, with the hash of its checkpoint `saved`.

    Without a checkpoint, an error of the ledger is ignored, so that the trained module is not lost. The ledger then
    lists the run as unfinished.
    """
    if saved is None:
        with suppress(OSError, PrivawareError):
            ledger.finish(run)
        return
    saved.keep_released(steps)
    ledger.finish(run, files=_files(Path(saved.path)))


def _finished_charge(ledger: Ledger, run: str, saved: Checkpoint) -> Entry | None:
    """Return the entry that charged `run`, or None if its closing entry does not name the released file `saved`.

    The closing entry of `run` in `ledger` must list exactly the file of `saved`, with its present SHA-256.
    """
    closing, path = ledger.closing(run), Path(saved.path)
    if closing is None or not path.exists() or closing.files != _files(path) or not saved.is_released():
        return None
    return ledger.find(run)


def _expect_own_file(saved: Checkpoint, entry: Entry | None, digest: str) -> None:
    """Raise `WrongInput`, before any charge, if the checkpoint `saved` belongs to other rows or another charge.

    Resuming from such a checkpoint would repeat noise. The checkpoint file must store the text `_bound_to(entry,
    digest)`. `entry` is the earlier charge of this run, and `digest` is the digest of the rows. If `entry` is None,
    every existing checkpoint file raises. A missing file passes.
    """
    saved_run = saved.saved_run()
    if saved_run is not None and (entry is None or saved_run != _bound_to(entry, digest)):
        raise WrongInput(
            f"expected the checkpoint of this run on these rows, got one of other rows or of another run at "
            f"{str(saved.path)!r}; name another file, or remove it to start again"
        )


def _known_rows(inputs: Any, targets: Any) -> tuple[str, Sketch]:
    """Return the keyed hash (digest) of all rows, and a sketch by which most of the rows are recognised again.

    A row is an entry of `inputs` (an array, or a sequence of arrays) with its entry of `targets`. The sketch recognises
    the same rows in a table, too, if the arrays are the columns of a table (`_table`). Inputs and targets of different
    lengths raise `WrongInput`.
    """
    arrays = _arrays(inputs) | {"target": _array(targets)}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise WrongInput(f"expected one target for each example, got inputs and targets of lengths {sorted(lengths)}")
    key = digest_key()
    hashes, sketch = cells_sketch(list(array_cells(arrays, key)), key)
    if (table := _table(arrays)) is not None:
        sketch = sketch.beside(hashes_and_sketch(table, key)[1])
    return rows_digest(hashes, key), sketch.finished()


def _table(arrays: Mapping[str, np.ndarray]) -> Raw | None:
    """Return arrays of one or two dimensions as a table; None for other arrays, or more than `MOST_COLUMNS` columns."""
    import pandas as pd

    if not all(0 < array.ndim < 3 for array in arrays.values()):
        return None
    columns = [column for array in arrays.values() for column in (array.T if array.ndim == 2 else [array])]
    return None if len(columns) > MOST_COLUMNS else Raw(frame=pd.DataFrame(dict(enumerate(columns))))


def _expect_public(projection: Any, inputs: Any) -> None:
    """Raise `WrongInput` if the public examples of an `anchored` projection share rows with the private `inputs`."""
    if not isinstance(projection, anchored):
        return
    key = digest_key()
    tables = (_arrays(inputs), _arrays(projection.inputs()))
    private, public = (cells_sketch(list(array_cells(table, key)), key)[1].finished() for table in tables)
    if public.resembles(private):
        raise WrongInput(
            "expected public examples as the inputs of anchored, got inputs that share rows with the private ones; "
            "give examples that nobody needs protected"
        )


def _arrays(inputs: Any) -> dict[str, np.ndarray]:
    """Return `inputs`, an array or a sequence of arrays, as a dictionary of arrays."""
    several = inputs if isinstance(inputs, (tuple, list)) and hasattr(inputs[0], "shape") else (inputs,)
    return {f"input {at}": _array(values) for at, values in enumerate(several)}


def _array(values: Any) -> np.ndarray:
    import torch

    tensor = torch.as_tensor(values).detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _row_ledger(
    ledger: Ledger | str | Path | None,
    digest: Callable[[], str],
    epsilon: float,
    delta: float,
    saved: Checkpoint | None,
) -> Ledger:
    """Return `ledger`, or open the ledger file that it names; without `ledger`, open the ledger of these rows.

    The ledger of these rows is the one that was charged for rows with this digest before, or else a file in the user's
    data folder. `digest()` returns the digest. A file that does not exist is created with `epsilon` as its limit and
    with `delta`, unless the checkpoint `saved` cannot belong to this run (`_expect_own_file`). Raise `WrongInput` if
    the ledger is not for adding or removing one row, or has another delta.
    """
    if not isinstance(ledger, Ledger):
        path = ledger or known_path(digest()) or memory_ledger(digest())
        expect_path("a ledger", path)
        if saved is not None and not Path(path).exists():  # a new ledger would fix the limit of later runs
            _expect_own_file(saved, None, digest())
        ledger = Ledger.open_or_create(path, delta=delta, new_limit=epsilon)
    if (ledger.unit, ledger.relation) != ("row", "add_remove"):
        raise WrongInput(
            "expected a ledger with the unit row and the relation add_remove, got one with the unit "
            f"{ledger.unit} and the relation {ledger.relation}; use another ledger"
        )
    if ledger.delta != delta:
        raise WrongInput(
            f"expected delta {number(ledger.delta)} as the ledger has it, got {number(delta)}; take the delta of the "
            "ledger, because all charges of a ledger share it, or another ledger"
        )
    return ledger
