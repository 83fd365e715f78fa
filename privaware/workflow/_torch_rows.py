"""Take the rows out of a data set or a DataLoader of PyTorch."""

from __future__ import annotations

from typing import Any

from privaware.errors import WrongInput
from privaware.workflow.run.options import Say

__all__ = ["rows_and_targets"]

NOT_USED = (
    "the rows of the DataLoader are used; its batches, order and sampler are not used, because the guarantee is priced "
    "for samples that are drawn independently at each step"
)
"""What `train` says about a DataLoader."""
PAIRS = "expected a data set of pairs (input, target) of tensors or numbers"


def rows_and_targets(inputs: Any, targets: Any, say: Say | None) -> tuple[Any, Any]:
    """Return the inputs and the targets of all rows; tensors and arrays are returned as they are.

    Raise `WrongInput` if targets are missing or given twice, if the rows of a data set cannot be read by position or
    stacked, or if a DataLoader has a collate function of its own.

    Parameters
    ----------
    inputs
        Tensors or arrays; or a DataLoader, or a data set that can be read by position, of pairs (input, target).
    targets
        The targets, if `inputs` does not hold them.
    say
        Receives the sentence that the batches of a DataLoader are not used.

    Returns
    -------
    tuple
        The inputs (one tensor or a tuple of tensors) and the targets.
    """
    from torch.utils.data import DataLoader, Dataset

    if not isinstance(inputs, (DataLoader, Dataset)):
        if targets is None:
            raise WrongInput("expected targets beside the inputs, got none; pass them, or pass a DataLoader with both")
        return inputs, targets
    if targets is not None:
        raise WrongInput("expected a DataLoader or data set with the targets inside, got targets beside it too")
    if isinstance(inputs, DataLoader):
        _expect_plain(inputs)
        if say is not None:
            say(NOT_USED)
        return _pairs(inputs.dataset)
    return _pairs(inputs)


def _expect_plain(loader: Any) -> None:
    """Raise `WrongInput` for a collate function of the caller, which could make a row depend on other rows.

    A DataLoader whose `batch_size` is None has no batches, so its collate function is allowed.
    """
    from torch.utils.data import default_collate

    if loader.collate_fn is not default_collate and loader.batch_size is not None:
        raise WrongInput(
            "expected a DataLoader without a collate_fn, which sees several rows at once and so could make one depend "
            "on another; transform single rows in the data set, or pass tensors"
        )


def _pairs(dataset: Any) -> tuple[Any, Any]:
    from torch.utils.data import IterableDataset, TensorDataset, default_collate

    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise WrongInput(
            "expected a data set whose rows can be read by position, because rows are sampled at random; got an "
            "IterableDataset; collect its rows in tensors first"
        )
    if isinstance(dataset, TensorDataset):
        columns: Any = dataset.tensors
    else:
        try:
            columns = default_collate([dataset[at] for at in range(len(dataset))])
        except (TypeError, RuntimeError):  # the message may hold values of a row
            raise WrongInput(f"{PAIRS}, each of the same shape, got items that cannot be stacked") from None
    if not isinstance(columns, (tuple, list)) or len(columns) < 2:
        raise WrongInput(f"{PAIRS}, got items of another form")
    *several, targets = columns
    return several[0] if len(several) == 1 else tuple(several), targets
