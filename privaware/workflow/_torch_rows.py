"""The rows that a caller gives to `train`: out of a PyTorch data set, and joined from the processes of `torchrun`."""

from __future__ import annotations

import copy
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from privaware._validate import nearest, shown
from privaware.descent import Descent
from privaware.descent._code_facts import tensor_digest
from privaware.descent._ranks import examples_of
from privaware.errors import PrivawareError, WrongInput
from privaware.ranks import Ranks
from privaware.workflow.run.options import Say

if TYPE_CHECKING:
    from torch import Tensor, nn

NOT_USED = (
    "the rows of the DataLoader are used; its batches, order and sampler are not used, because the guarantee holds for "
    "samples that are drawn independently at each step"
)
"""What `train` says about a DataLoader."""
PAIRS = "expected a data set of pairs (input, target) of tensors or numbers"
OWN = frozenset({"clipping_norm", "device", "loss", "lr", "optimizer", "progress", "rows", "sampling_rate", "seed"})
"""Keyword arguments of `train` itself that an unknown argument may stand for."""
SIMILAR = {
    "batch_size": "give sampling_rate, the expected batch size divided by the number of rows",
    "criterion": "did you mean loss?",
    "epochs": "give steps, the number of epochs divided by sampling_rate",
}
"""What to do about arguments of other libraries."""
RARE = 1e-6
"""Probability below which equal rows of several processes are no chance, but rows that were given twice."""
CHECKED_TOGETHER = 64
"""Number of rows that `expect_usable` passes through the module at a time."""


def expect_arguments(module: Any, more: Mapping[str, Any]) -> None:
    """Raise `WrongInput` unless `module` is a module of PyTorch, and `more` names further arguments of `train`.

    Further arguments are the fields of `Descent`, except `steps`, `sampler` and `loss`.
    """
    from torch import nn

    if not isinstance(module, nn.Module):
        kind = f"the class {module.__name__}" if isinstance(module, type) else f"an object of {type(module).__name__}"
        raise WrongInput(f"expected a torch.nn.Module to train, got {kind}")
    known = {field.name for field in fields(Descent)} - {"steps", "sampler", "loss"}
    for name in more:
        if name not in known:
            near = nearest(name, {*known, *OWN})
            advice = f"did you mean {near}?" if near else f"further arguments are {', '.join(sorted(known | OWN))}"
            advice = SIMILAR.get(name, advice)
            raise WrongInput(f"train has no argument {name!r}; {advice}")


@contextmanager
def failures_of_module() -> Iterator[None]:
    """Turn an error in a `with` block, which checks the module on synthetic examples, into `WrongInput`.

    The block may run the loss and `augment` too. The examples have the shape and type of the rows, so the message
    quotes no row. A `PrivawareError` and an `OutOfMemoryError` are raised as they are.
    """
    from torch import OutOfMemoryError

    try:
        yield
    except (PrivawareError, OutOfMemoryError):
        raise
    except Exception as problem:
        words = " ".join(str(problem).split())
        raise WrongInput(
            f"expected inputs and targets that the module, the loss and augment can use, but on synthetic ones of "
            f"their shape and type they fail ({type(problem).__name__}: {words:.200})"
        ) from problem


def rows_and_targets(inputs: Any, targets: Any, say: Say | None) -> tuple[Any, Any]:
    """Return the inputs and the targets of all rows; tensors and arrays are returned as they are.

    Raise `WrongInput` if targets are missing or given twice, if inputs or targets are no dense tensors or arrays (see
    `_expect_dense`), if the rows of a data set cannot be read by position or stacked, or if a DataLoader has a collate
    function of its own.

    Parameters
    ----------
    inputs
        Tensors or arrays; or a DataLoader, or a data set that can be read by position, of pairs (input, target).
    targets
        The targets, if `inputs` does not hold them.
    say
        Receives the sentence that the batches of a DataLoader are not used; None shows it nowhere.

    Returns
    -------
    tuple
        The inputs (one tensor or a tuple of tensors) and the targets.
    """
    from torch.utils.data import DataLoader, Dataset

    if not isinstance(inputs, (DataLoader, Dataset)):
        if targets is None:
            raise WrongInput("expected targets beside the inputs, got none; pass them, or pass a DataLoader with both")
        _expect_dense(inputs, targets)
        return inputs, targets
    if targets is not None:
        raise WrongInput("expected a DataLoader or data set with the targets inside, got targets beside it too")
    if isinstance(inputs, DataLoader):
        _expect_plain(inputs)
        if say is not None:
            say(NOT_USED)
        return _pairs(inputs.dataset)
    return _pairs(inputs)


def _expect_dense(inputs: Any, targets: Any) -> None:
    """Raise `WrongInput` if inputs or targets are objects of pandas, sparse, of unequal lengths, or named in a dict."""
    import torch

    for values in (*(inputs if isinstance(inputs, (tuple, list)) else (inputs,)), targets):
        if not hasattr(values, "__len__"):
            raise WrongInput(f"expected tensors or arrays with one entry for each row, got {shown(values)}")
        if hasattr(values, "iloc"):
            raise WrongInput(f"expected tensors or arrays, got a {type(values).__name__}; pass its to_numpy()")
        if isinstance(values, Mapping):
            raise WrongInput(
                "expected tensors or arrays, got a dict; for a module with several inputs, pass a tuple of them"
            )
        if isinstance(values, torch.Tensor) and values.is_nested:
            raise WrongInput("expected rows of one shape, got a nested tensor; pass its to_padded_tensor(padding=0)")
        if hasattr(values, "tocsr") or (isinstance(values, torch.Tensor) and values.layout != torch.strided):
            advice = "to_dense()" if isinstance(values, torch.Tensor) else "toarray()"
            raise WrongInput(f"expected dense tensors or arrays, got sparse ones; pass their {advice}")


def _expect_plain(loader: Any) -> None:
    """Raise `WrongInput` if a DataLoader has a collate function of the caller.

    With batches it could make a row depend on others. Without them (`batch_size` None) it would not be applied, because
    rows are read from the data set.
    """
    from torch.utils.data import default_collate, default_convert

    if loader.collate_fn not in (default_collate, default_convert):
        raise WrongInput(
            "expected a DataLoader without a collate_fn, because rows are read from its data set; transform single "
            "rows in the data set, or pass tensors"
        )


def _pairs(dataset: Any) -> tuple[Any, Any]:
    from torch.utils.data import IterableDataset, TensorDataset, default_collate

    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise WrongInput(
            "expected a data set whose rows can be read by position, because rows are sampled at random; got an "
            "IterableDataset or a data set without a length; collect its rows in tensors first"
        )
    if type(dataset) is TensorDataset:  # a subclass may make other items of its tensors
        columns: Any = dataset.tensors
        _expect_dense(columns[:-1], columns[-1])
    else:
        try:
            columns = default_collate([dataset[at] for at in range(len(dataset))])
        except (TypeError, RuntimeError):  # the message may hold values of a row
            raise WrongInput(f"{PAIRS}, each of the same shape, got items that cannot be stacked") from None
    if not isinstance(columns, (tuple, list)) or len(columns) < 2:
        raise WrongInput(f"{PAIRS}, got items of another form")
    *several, targets = columns
    return several[0] if len(several) == 1 else tuple(several), targets


def rows_of_all(ranks: Ranks, inputs: Any, targets: Any, *, own_rows: bool) -> tuple[Any, Any]:
    """Return the inputs and targets of all ranks; before any charge, raise `WrongInput` if they do not fit together.

    With `own_rows`, each rank holds other rows. Then rank 0 gets the rows of all ranks, in the order of ranks, and any
    other rank gets its own rows back; rows that several ranks hold raise `WrongInput` (see `_overlap`). Without
    `own_rows`, every rank has to hold the same rows, which are returned.
    """
    examples = examples_of(inputs, targets)
    ranks.expect_equal({"own_rows": repr(own_rows)})
    ranks.expect_equal({"shapes and types of a row": repr([(item.shape[1:], item.dtype) for item in examples])})
    if not own_rows:
        digests = repr([tensor_digest(item) for item in examples])
        advice = "give all rows in every process, or a part of them in each with own_rows=True"
        ranks.expect_equal({"training rows": digests}, advice)
        return inputs, targets
    with ranks.agreed():
        lengths = [len(item) for item in examples]
        if len(set(lengths)) > 1:
            raise WrongInput(f"expected one target for each example, got inputs and targets of lengths {lengths}")
    parts = ranks.collected(examples)
    if problem := ranks.shared(_overlap(parts) if ranks.leads else None):
        raise WrongInput(problem)
    if not ranks.leads:
        return inputs, targets
    import torch

    *several, labels = (torch.cat(items) for items in zip(*parts, strict=True))
    return (tuple(several) if isinstance(inputs, (tuple, list)) else several[0]), labels


def expect_usable(module: nn.Module, loss: Callable[..., Any], inputs: Any, targets: Any, device: str) -> None:
    """Raise `WrongInput` if `module` or `loss` fails on some rows, or if the loss of a row is NaN.

    Every row passes once through a copy of the module in evaluation mode, `CHECKED_TOGETHER` rows at a time. So a class
    or token out of range, or a missing number, is found before the charge. The message names positions and quotes no
    value of a row.
    """
    import torch

    examples, probe = examples_of(inputs, targets), copy.deepcopy(module).to(device).eval()
    kind = next(parameter.dtype for parameter in probe.parameters())
    last = max(len(targets) - CHECKED_TOGETHER, 0)
    for start in (*range(0, last, CHECKED_TOGETHER), last):
        part = (item[start : start + CHECKED_TOGETHER] for item in examples)
        *several, labels = (item.to(device, kind if item.is_floating_point() else None) for item in part)
        cause = "the loss is not a number"
        try:
            with torch.no_grad():
                if not loss(probe(*several), labels).isnan().any():
                    continue
        except torch.OutOfMemoryError:
            raise
        except Exception as problem:  # the message of PyTorch may hold a value of a row
            cause = f"the module or the loss fails ({type(problem).__name__})"
        raise WrongInput(
            f"expected rows that the module and the loss can use, but {cause} on some of the rows {start} to "
            f"{start + len(labels) - 1}; correct classes or tokens that are out of range, and missing numbers"
        )


def expect_sendable(module: nn.Module, descent: Descent) -> None:
    """Raise `WrongInput`, before any charge, unless `module` and `descent` can be pickled and so sent to ranks."""
    import cloudpickle

    try:
        cloudpickle.dumps((descent, module))
    except Exception as problem:  # an object says by any exception that it cannot be pickled
        raise WrongInput(
            "expected a module and a loss that can be sent to all processes of torchrun, got a module or a loss that "
            f"cannot be pickled ({type(problem).__name__}); use no lock, open file or connection in it"
        ) from None


def _overlap(parts: Sequence[Sequence[Tensor]]) -> str:
    """Return a sentence if rows of one part are also rows of another part, else an empty text.

    Each of `parts` holds the tensors of one rank, inputs and then targets. In coarse tables different people have equal
    rows, so some equal rows are allowed. The sentence is returned in two cases:

    1. `across > 2 * len(parts) * within`. Here `across` counts the rows, in all parts, that another part has too, and
       `within` counts the rows that occur more than once in their own part.
    2. Of the rows that occur exactly twice, more lie in two parts than in one than rows in random order would, with a
       probability below `RARE`.
    """
    from scipy.stats import binom  # slow to import

    hashes = [_row_hashes(examples) for examples in parts]
    holders = Counter(row for part in hashes for row in set(part))
    across = sum(holders[row] > 1 for part in hashes for row in part)
    within = sum(count for part in hashes for count in Counter(part).values() if count > 1)
    pairs = [row for row, count in Counter(row for part in hashes for row in part).items() if count == 2]
    apart, rows = sum(holders[row] == 2 for row in pairs), sum(map(len, hashes))
    by_chance = 1 - sum((len(part) / max(rows, 1)) ** 2 for part in hashes)
    if across <= 2 * len(parts) * within and binom.sf(apart - 1, len(pairs), by_chance) >= RARE:
        return ""
    return (
        "expected parts without common rows, but rows of one process are also rows of another, and would count twice; "
        "give each row in one process only, or all rows in every process without own_rows"
    )


def _row_hashes(examples: Sequence[Tensor]) -> list[bytes]:
    import torch

    count = len(examples[0])
    parts = [item.detach().cpu().reshape(count, math.prod(item.shape[1:])) for item in examples]
    arrays = [part.contiguous().view(torch.uint8).numpy() for part in parts]
    return [
        hashlib.blake2b(b"".join(array[at].tobytes() for array in arrays), digest_size=16).digest()
        for at in range(count)
    ]
