"""Data-independent maps from rows to numbers, shared by the learners on fixed features."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from privaware import features
from privaware.data import Data, as_bytes
from privaware.errors import PrivawareError, WrongInput
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.pixels import Pixels
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
    """Return the rows of `data` after `feature`, as float32 numbers of bounded norm."""
    return features.apply((feature,), data.x, data.schema)


MICROBATCH = {"cpu": 128, "cuda": 1024}
"""Largest number of rows that a chain of features transforms at once: "cuda" if a GPU is available, else "cpu"."""

ENTRYWISE = ("channels", "codes", "drop", "hashed", "onehot", "pixels", "standardise", "word_codes")
"""Features whose entries are looked up, counted or scaled one by one, so that no sum is rounded."""


def rows_after(
    chain: tuple[Any, ...], data: Data, device: str = "cpu", progress: Callable[..., None] | None = None
) -> np.ndarray:
    """Return flat float32 rows after the features in `chain`, each a function of its own row alone.

    Matrix products of networks round differently for different microbatch shapes. All microbatches therefore have the
    same shape, and empty rows fill the last one. While a probe on synthetic rows finds that a row's result depends on
    its position in the microbatch, the microbatch is made four times smaller, down to one row. `progress` is called
    with the rows done, the declared number of rows, the seconds left and "features", never with the actual number.
    """
    declared, began = data.schema.rows, time.monotonic()
    size = _microbatch(chain, data.schema, device)
    rows = np.empty((len(data), math.prod(shape_after(chain, data.schema))), np.float32)
    for at, after in microbatch_features(chain, data, device, size):
        rows[at : at + size] = after.reshape(len(after), rows.shape[1])
        if progress is not None and at + size < declared:
            left = (time.monotonic() - began) / (at + size) * (declared - at - size)
            progress(at + size, declared, left, "features")
    if progress is not None:
        progress(declared, declared, 0.0, "features")
    return rows


def row_features(chain: tuple[Any, ...], data: Data, device: str = "cpu") -> np.ndarray:
    """Return the rows after the features in `chain`, each a function of its own row alone.

    Unlike the result of `rows_after`, they are not flattened, and have the number type that the features return. If all
    features in `chain` are `ENTRYWISE`, they are applied to all rows at once; otherwise in microbatches of one shape,
    as in `rows_after`.
    """
    if all(type(feature).__module__.rsplit(".", 1)[-1] in ENTRYWISE for feature in chain):
        return features.apply(chain, data.x, data.schema, device)
    size = _microbatch(chain, data.schema, device)
    return np.concatenate([after for _, after in microbatch_features(chain, data, device, size)])


def network_rows(model: Model, inputs: np.ndarray, schema: Schema, device: str = "cpu") -> np.ndarray:
    """Return the outputs of the network of `model`, each a function of its own row of `inputs` alone.

    The network is applied in microbatches of one shape, as the features are in `rows_after`.

    Parameters
    ----------
    model : Model
        The model.
    inputs : ndarray
        The rows after the features of the model.
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

    Empty rows fill the last microbatch. A probe on `synthetic` rows chooses the size of the microbatches (see
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
    """Yield (position of the first row, rows after the features) for each microbatch of `size` rows, fewer in the last.

    The features are those in `chain`. There is at least one microbatch, even without rows. If this process leads ranks,
    each of them computes a part of the microbatches.
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
    """Compute the features in `chain` of this rank's microbatches, and send them to rank 0, which reports problems.

    The rows come from rank 0. A `PrivawareError` ends the function without an exception.
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
    """Return the features of the microbatches r, r + ranks.size and so on of `rows`, for rank r, as one tensor.

    The features are those in `chain`. The tensor is empty if there is no such microbatch.
    """
    import torch

    starts = range(0, len(rows), size)[ranks.rank :: ranks.size]
    after = [_padded_features(chain, rows[at : at + size], schema, device, size) for at in starts]
    return torch.from_numpy(np.concatenate(after)) if after else torch.empty(0)


def _padded_features(chain: tuple[Any, ...], rows: np.ndarray, schema: Schema, device: str, size: int) -> np.ndarray:
    """Return `rows` after the features in `chain`, computed in a microbatch that empty rows fill up to `size`."""
    empty = np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)
    if schema.form == "text":
        empty = np.full(empty.shape, "", dtype=object)
    return features.apply(chain, np.concatenate([rows, empty]), schema, device)[: len(rows)]


def _microbatch(chain: tuple[Any, ...], schema: Schema, device: str) -> int:
    """Return the size of the microbatches in which the features in `chain` are applied."""

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

    `synthetic` returns a given number of random rows, and `declared` is the declared number of rows. No private row is
    read, so the size is public. It is 1 if results depend on the position at all tried sizes.
    """
    import torch

    most = MICROBATCH["cuda" if torch.cuda.is_available() else "cpu"]
    size = min(most, 2 ** math.ceil(math.log2(max(declared, 1))))
    while size > 1 and not _slots_alike(transform, synthetic(size)):
        size //= 4
    return max(size, 1)


def _slots_alike(transform: Callable[[np.ndarray], np.ndarray], synthetic: np.ndarray) -> bool:
    """Return whether `transform` gives a synthetic row the same bits at the next position, next to other rows."""
    before = transform(synthetic)
    moved = np.roll(synthetic, 1, axis=0)
    moved[0] = moved[-1]  # changes the neighbouring rows as well
    after = transform(moved)
    return np.array_equal(before[:-1], after[1:], equal_nan=before.dtype.kind == "f")


def shape_after(chain: tuple[Any, ...], schema: Schema) -> tuple[int, ...]:
    """Return the shape of a row after the features in `chain`, computed on an empty row; (1,) if it has no numbers."""
    empty: Any = np.zeros((1, *schema.shape), np.float32)
    if schema.form == "text":
        empty = np.array([""], dtype=object)
    elif schema.form == "table":
        empty = np.zeros((1, len(schema.used)))
    shape = features.apply(chain, empty, schema).shape[1:]
    return tuple(shape) if math.prod(shape) else (1,)


def linear_model(schema: Schema, chain: tuple[Any, ...], weight: np.ndarray, bias: np.ndarray) -> Model:
    """Return the model with `weight` (outputs, width) and `bias` on rows after the features in `chain`."""
    architecture = {"name": "linear", "inputs": weight.shape[1], "outputs": len(weight)}
    tensors = {"output.weight": weight.astype(np.float32), "output.bias": bias.astype(np.float32)}
    return Model(schema=schema, features=chain, architecture=architecture, tensors=tensors)


def constant_model(schema: Schema, outputs: np.ndarray) -> Model:
    """Return the model that uses no column and predicts these `outputs` for every row."""
    architecture = {"name": "constant", "inputs": 1, "outputs": len(outputs)}
    tensors = {"value": outputs.astype(np.float32)}
    return Model(schema=schema.keep(()), features=(), architecture=architecture, tensors=tensors)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of `logits` along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
