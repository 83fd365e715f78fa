"""Rows that the processes of `torchrun` give to `train`: the same rows in each of them, or a part in each of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privaware.descent._code_facts import tensor_digest
from privaware.descent._ranks import examples_of
from privaware.errors import WrongInput
from privaware.ranks import Ranks

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["rows_of_all"]


def rows_of_all(ranks: Ranks, inputs: Any, targets: Any, *, own_rows: bool) -> tuple[Any, Any]:
    """Return the inputs and targets of all ranks; before any charge, raise `WrongInput` if they do not fit together.

    With `own_rows`, rank 0 gets the parts of all ranks, in the order of ranks, and any other rank its own part; parts
    with common rows raise. Otherwise every rank has to give the same rows, which are returned.
    """
    examples = examples_of(inputs, targets)
    ranks.expect_equal({"own_rows": repr(own_rows)})
    ranks.expect_equal({"shapes and types of a row": repr([(item.shape[1:], item.dtype) for item in examples])})
    if not own_rows:
        digests = repr([tensor_digest(item) for item in examples])
        advice = "give all rows in every process, or a part of them in each with own_rows=True"
        ranks.expect_equal({"training rows": digests}, advice)
        return inputs, targets
    parts = ranks.collected(examples)
    if problem := ranks.shared(_overlap(parts) if ranks.leads else None):
        raise WrongInput(problem)
    if not ranks.leads:
        return inputs, targets
    import torch

    *several, labels = (torch.cat(items) for items in zip(*parts, strict=True))
    return (tuple(several) if isinstance(inputs, (tuple, list)) else several[0]), labels


def _overlap(parts: Sequence[Sequence[Tensor]]) -> str:
    """Return a sentence if rows of one part are in another one, and an empty one otherwise.

    In coarse tables different people have equal rows. So equal rows of two parts count as the same row only if they are
    more frequent than equal rows inside a part let expect. Such a row would be counted twice.
    """
    hashes = [_row_hashes(examples) for examples in parts]
    holders = Counter(row for part in hashes for row in set(part))
    across = sum(holders[row] > 1 for part in hashes for row in part)
    within = sum(count for part in hashes for count in Counter(part).values() if count > 1)
    if across <= 2 * len(parts) * within:
        return ""
    return (
        "expected parts without common rows, but rows of one process are also rows of another, and would count twice; "
        "give each row in one process only, or all rows in every process without own_rows"
    )


def _row_hashes(examples: Sequence[Tensor]) -> list[bytes]:
    arrays = [item.numpy() for item in examples]
    return [
        hashlib.blake2b(b"".join(array[at].tobytes() for array in arrays), digest_size=16).digest()
        for at in range(len(arrays[0]))
    ]
