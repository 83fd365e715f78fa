"""Default data-independent features, their application to rows in microbatches, and linear and constant models."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from privaware import features
from privaware.data import Data, as_bytes
from privaware.errors import PrivawareError, WrongInput
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.pixels import Pixels
from privaware.learners._networks.plain_descent import paced
from privaware.model import Model
from privaware.ranks import Ranks, current
from privaware.schema import Schema


def feature_for(schema: Schema, bins: int = 0) -> Any:
    """Return the default feature for the form of data in `schema`; its rows have norm at most 1.

    Tables get one-hot rows (with `bins` bins for numbers without declared bins; 0 keeps them as numbers), images get
    pixels and texts get hashed n-grams. Noise grows with the width of a row, so texts get about one hash bucket for
    every 16 declared rows, from 64 to 4096 buckets. Raise `WrongInput` for a table without columns beside the target.
    """
    if schema.form == "image":
        return Pixels()
    if schema.form == "text":
        slots = 2 ** round(math.log2(schema.rows / 16)) if schema.rows > 16 else 64
        return Hashed(slots=min(max(slots, 64), 4096), words=1, letters=3)
    if not schema.used:
        raise WrongInput(
            "expected at least one column beside the target to learn from, got none; "
            "majority and mean learn from the target alone"
        )
    return OneHot(bins=bins)


def rows_of(data: Data, feature: Any) -> np.ndarray:
    """Return the rows of `data` after `feature`, a feature object such as `feature_for` returns.

    The result has the shape and the number type that the feature returns; rows of `feature_for` are float32 (rows,
    width). All rows are transformed at once.
    """
    return features.apply((feature,), data.x, data.schema)


MICROBATCH = {"cpu": 128, "cuda": 1024}
"""Largest number of rows that features transform at once: "cuda" if PyTorch finds a GPU, else "cpu"."""

ENTRYWISE = ("channels", "codes", "drop", "hashed", "onehot", "pixels", "standardise", "word_codes")
"""Module names of features whose entries are looked up, counted or scaled one by one, so that no sum is rounded."""


def rows_after(
    chain: tuple[Any, ...], data: Data, device: str = "cpu", progress: Callable[..., None] | None = None
) -> np.ndarray:
    """Return the rows of `data` after the features in `chain`, flattened: float32 (rows, width).

    `chain` is a tuple of feature objects that are applied in order. Each result is a function of its own row alone, bit
    for bit. Matrix products of networks round differently for different microbatch shapes. So all microbatches have the
    same shape, and rows of zeros (or empty texts) fill the last one. A probe on synthetic rows tests whether a row's
    result depends on its position in the microbatch. While it does, the microbatch is made four times smaller, down to
    one row.

    `progress`, if given, is called with the number of finished rows, the declared number of rows, the seconds left and
    "features". It never gets the true number of rows: the last call has the declared number for both.
    """
    declared = data.schema.rows
    report = paced(progress, declared, "features")
    size = _microbatch(chain, data.schema, device)
    rows = np.empty((len(data), math.prod(shape_after(chain, data.schema))), np.float32)
    for at, after in microbatch_features(chain, data, device, size):
        rows[at : at + size] = after.reshape(len(after), rows.shape[1])
        if at + size < declared:
            report(at + size)
    report(declared)
    return rows


def row_features(chain: tuple[Any, ...], data: Data, device: str = "cpu") -> np.ndarray:
    """Return the rows of `data` after the features in `chain`, not flattened, in the number type of the last feature.

    `chain` is a tuple of feature objects that are applied in order. Each result is a function of its own row alone, bit
    for bit. Features without rounded sums (`ENTRYWISE`) are applied to all rows at once. If `chain` has any other
    feature, the rows are processed in microbatches of one shape, as in `rows_after`.
    """
    if all(type(feature).__module__.rsplit(".", 1)[-1] in ENTRYWISE for feature in chain):
        return features.apply(chain, data.x, data.schema, device)
    size = _microbatch(chain, data.schema, device)
    return np.concatenate([after for _, after in microbatch_features(chain, data, device, size)])


def network_rows(model: Model, inputs: np.ndarray, schema: Schema, device: str = "cpu") -> np.ndarray:
    """Return the raw outputs of the network of `model`, each a function of its own row of `inputs` alone, bit for bit.

    The network is applied in microbatches of one shape, whose size a probe on synthetic rows chooses (see
    `rows_after`). Texts without a text feature, which only a constant model accepts, are passed in one call instead.

    Parameters
    ----------
    model : Model
        The model.
    inputs : ndarray
        The rows (rows, ...), to which the features of the model were applied before.
    schema : Schema
        The schema of the rows; its declared number of rows is public.
    device : str
        "cpu" or "cuda".

    Returns
    -------
    ndarray
        Outputs of shape (rows, outputs).
    """
    if inputs.dtype == object:  # texts without a text feature: a constant model ignores its inputs
        return model.network_outputs(inputs, device)
    outputs = model.network_function(device)

    def synthetic(size: int) -> np.ndarray:
        draw, shape = np.random.default_rng(0), (size, *inputs.shape[1:])
        numbers: np.ndarray = draw.random(shape) if inputs.dtype.kind == "f" else draw.integers(2, size=shape)
        return numbers.astype(inputs.dtype)

    return outputs_in_one_shape(outputs, inputs, synthetic, schema.rows)


def outputs_in_one_shape(
    outputs: Callable[[np.ndarray], np.ndarray],
    inputs: np.ndarray,
    synthetic: Callable[[int], np.ndarray],
    declared: int,
) -> np.ndarray:
    """Return `outputs(inputs)`, computed in microbatches of one shape, so that each row depends on itself alone.

    Rows of zeros fill the last microbatch. A probe on `synthetic` rows chooses the size of the microbatches (see
    `_fixed_size`). `declared` is the declared number of rows.
    """
    size = _fixed_size(outputs, synthetic, declared)
    parts = []
    for at in range(0, max(len(inputs), 1), size):
        rows = inputs[at : at + size]
        empty = np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)
        parts.append(outputs(np.concatenate([rows, empty]))[: len(rows)])
    return np.concatenate(parts)


def microbatch_features(chain: tuple[Any, ...], data: Data, device: str, size: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield, for each microbatch, the position of its first row and its rows after the features in `chain`, in order.

    A microbatch has `size` rows of `data`, the last one perhaps fewer; without rows there is one microbatch with no
    row. If this process is rank 0 of several `torchrun` processes and there are more than `size` rows, each rank
    computes the features of a part of the microbatches.
    """
    ranks = current()
    if ranks is None or ranks.size == 1 or len(data) <= size:
        for at in range(0, max(len(data), 1), size):
            yield at, _padded_features(chain, data.x[at : at + size], data.schema, device, size)
        return
    with ranks.job(_follow_features, chain, data.schema, device, size):
        rows = ranks.shared_rows(data.x)
        with ranks.agreed():
            own = _own_features(ranks, chain, rows, data.schema, device, size)
        parts = [items[0].numpy() for items in ranks.collected([own])]
    for number, at in enumerate(range(0, len(data), size)):
        before = number // ranks.size * size
        yield at, parts[number % ranks.size][before : before + min(size, len(data) - at)]


def _follow_features(ranks: Ranks, chain: tuple[Any, ...], schema: Schema, device: str, size: int) -> None:
    """On a rank other than 0, compute the features of this rank's microbatches of `size` rows and send them to rank 0.

    The rows come from rank 0, and the features are those in `chain`. If a rank raises a `PrivawareError`, this function
    returns without an exception, because rank 0 raises the error.
    """
    import torch

    rows = ranks.shared_rows(None)
    here = torch.cuda.device(ranks.local_gpu) if torch.cuda.is_available() else contextlib.nullcontext()
    with contextlib.suppress(PrivawareError), here:
        with ranks.agreed():
            own = _own_features(ranks, chain, rows, schema, ranks.device(device), size)
        ranks.collected([own])


def _own_features(
    ranks: Ranks, chain: tuple[Any, ...], rows: np.ndarray, schema: Schema, device: str, size: int
) -> Any:
    """Return, as one tensor, the features of the microbatches of `rows` that this rank computes.

    Microbatch i holds the rows from `i * size` to `(i + 1) * size`; rank r computes the microbatches r, r + ranks.size,
    r + 2 * ranks.size and so on. The features are those in `chain`. The tensor (rows of these microbatches, ...) is
    empty if there is no such microbatch.
    """
    import torch

    starts = range(0, len(rows), size)[ranks.rank :: ranks.size]
    after = [_padded_features(chain, rows[at : at + size], schema, device, size) for at in starts]
    return torch.from_numpy(np.concatenate(after)) if after else torch.empty(0)


def _padded_features(chain: tuple[Any, ...], rows: np.ndarray, schema: Schema, device: str, size: int) -> np.ndarray:
    """Return `rows` after the features in `chain`, computed in one microbatch of `size` rows.

    At most `size` rows are given. Rows of zeros, or empty texts, fill the microbatch; they are not in the result.
    """
    empty = np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)
    if schema.form == "text":
        empty = np.full(empty.shape, "", dtype=object)
    return features.apply(chain, np.concatenate([rows, empty]), schema, device)[: len(rows)]


def _microbatch(chain: tuple[Any, ...], schema: Schema, device: str) -> int:
    """Return the largest microbatch size, of those that `_fixed_size` tries, at which the features in `chain` are safe.

    Safe means that the result of a row does not depend on its position in the microbatch. This is tested on synthetic
    rows that fit `schema`, so no private row is read.
    """

    def synthetic(size: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        texts = np.array([f"row {number}" for number in rng.integers(10**9, size=size)], dtype=object)
        if schema.form == "text":
            return texts
        shape = schema.shape if schema.form == "image" else (len(schema.used),)
        rows = np.random.default_rng(0).random((size, *shape), np.float32)
        if not schema.has_whole_columns:
            return rows
        images = as_bytes(rng.random((size if schema.has_images else 0, *schema.shape), np.float32))
        values = {"text": texts, "image": images}
        columns = [values[each.kind] if each.is_whole else rows[:, at] for at, each in enumerate(schema.used)]
        return np.stack([column.astype(object) for column in columns], axis=1)

    return _fixed_size(lambda rows: features.apply(chain, rows, schema, device), synthetic, schema.rows)


def _fixed_size(
    transform: Callable[[np.ndarray], np.ndarray], synthetic: Callable[[int], np.ndarray], declared: int
) -> int:
    """Return the largest tried microbatch size at which no result of `transform` depends on a row's position.

    `transform` maps rows to results. `synthetic(size)` returns `size` random rows, and `declared` is the declared
    number of rows. The first size tried is `MICROBATCH`, or the power of two that is at least `declared` if this is
    smaller. Each further size is a quarter of the size before. The result is 1 if results depend on the position at all
    tried sizes. No private row is read, so the size is public.
    """
    import torch

    most = MICROBATCH["cuda" if torch.cuda.is_available() else "cpu"]
    size = min(most, 2 ** math.ceil(math.log2(max(declared, 1))))
    while size > 1 and not _slots_alike(transform, synthetic(size)):
        size //= 4
    return max(size, 1)


def _slots_alike(transform: Callable[[np.ndarray], np.ndarray], synthetic: np.ndarray) -> bool:
    """Return whether results of `transform` stay the same, bit for bit, when rows move to the next position.

    The rows of the array `synthetic` are transformed twice: in their order, and moved by one position with a changed
    first row. The function compares the results of all rows except the last one.
    """
    before = transform(synthetic)
    moved = np.roll(synthetic, 1, axis=0)
    moved[0] = moved[-1]  # changes the neighbouring rows as well
    after = transform(moved)
    return np.array_equal(before[:-1], after[1:], equal_nan=before.dtype.kind == "f")


def shape_after(chain: tuple[Any, ...], schema: Schema) -> tuple[int, ...]:
    """Return the shape of one row after the features in `chain`, without the axis of rows.

    The shape is (1,) if a row has no entries (width 0). It is computed by applying the features to one row of zeros, or
    to one empty text.
    """
    empty: Any = np.zeros((1, *schema.shape), np.float32)
    if schema.form == "text":
        empty = np.array([""], dtype=object)
    elif schema.form == "table":
        empty = np.zeros((1, len(schema.used)))
    shape = features.apply(chain, empty, schema).shape[1:]
    return tuple(shape) if math.prod(shape) else (1,)


def linear_model(schema: Schema, chain: tuple[Any, ...], weight: np.ndarray, bias: np.ndarray) -> Model:
    """Return the linear model with `weight` and `bias` on rows after the features in `chain`.

    `chain` is a tuple of feature objects. `weight` is (outputs, width) and `bias` (outputs,); the model stores both as
    float32.
    """
    architecture = {"name": "linear", "inputs": weight.shape[1], "outputs": len(weight)}
    tensors = {"output.weight": weight.astype(np.float32), "output.bias": bias.astype(np.float32)}
    return Model(schema=schema, features=chain, architecture=architecture, tensors=tensors)


def constant_model(schema: Schema, outputs: np.ndarray) -> Model:
    """Return the model that reads no column and predicts `outputs` for every row.

    `outputs` has one logit for each class, or in a regression one number in [-1, 1], the scaled target.
    """
    architecture = {"name": "constant", "inputs": 1, "outputs": len(outputs)}
    tensors = {"value": outputs.astype(np.float32)}
    return Model(schema=schema.keep(()), features=(), architecture=architecture, tensors=tensors)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of `logits` along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
