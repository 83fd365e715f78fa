"""Turn everything that a release contains into one vector of numbers."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from privaware.noise import Rng


def released_numbers(released: Any) -> np.ndarray:
    """Return every number that is reachable from a release, in a fixed order.

    Text and bytes count as a checksum, and None as 0. Classes and random generators are skipped, and a container that
    occurs twice counts once, unless it is an array or a tensor.

    Parameters
    ----------
    released : object
        The release. Dataclasses, models, schemas, mappings, sequences, arrays, tensors, frames and closures of
        functions are searched too, so that every released value is compared.

    Returns
    -------
    ndarray
        The numbers, as one vector.

    Examples
    --------
    >>> released_numbers((np.ones(2), [3, None, {7, 5}])).tolist()
    [1.0, 1.0, 3.0, 0.0, 5.0, 7.0]
    """
    parts: list[np.ndarray] = []
    _collect(released, {}, parts)
    return np.concatenate(parts) if parts else np.zeros(0)


def name_of(algorithm: object) -> str:
    """Return the name of a function or class, or the class name of any other object."""
    return algorithm.__name__ if isinstance(algorithm, (type, FunctionType)) else type(algorithm).__name__


def padded(rows: list[np.ndarray]) -> np.ndarray:
    """Return a matrix with one row for each vector in `rows`; shorter vectors are padded with zeros at the end."""
    matrix = np.zeros((len(rows), max((len(row) for row in rows), default=0)))
    for at, row in enumerate(rows):
        matrix[at, : len(row)] = row
    return matrix


def _collect(value: Any, visited: dict[int, Any], parts: list[np.ndarray]) -> None:
    """Append the numbers of `value` to `parts`, but skip a container that is in `visited`, by id.

    `visited` keeps containers alive, because the id of one that no longer exists may be given to another one.
    """
    leaf = _leaf(value)
    if leaf is not None:
        parts.append(leaf)
    elif id(value) not in visited:
        visited[id(value)] = value
        for part in _inside(value):
            _collect(part, visited, parts)


def _leaf(value: Any) -> np.ndarray | None:
    """Return the numbers of a simple value as a vector, empty for a class or `Rng`; return None for a container."""
    if value is None:
        return np.zeros(1)
    if isinstance(value, (str, PurePath)):
        return np.array([zlib.crc32(str(value).encode()) / 2**32])
    if isinstance(value, (bytes, bytearray)):
        return np.array([zlib.crc32(value) / 2**32])
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return np.array([float(value)])
    if isinstance(value, complex):
        return np.array([value.real, value.imag])
    if hasattr(value, "detach") and hasattr(value, "dtype"):
        value = (value.detach().cpu().double() if value.is_floating_point() else value.cpu()).numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.astype(float).ravel()
    if isinstance(value, (type, Rng, np.random.Generator)):
        return np.zeros(0)
    return None


def _inside(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return list(value.ravel())
    if hasattr(value, "to_numpy"):
        return [list(getattr(value, "columns", ())), value.to_numpy()]
    if isinstance(value, Mapping):
        return [part for key in sorted(value, key=str) for part in (key, value[key])]
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, FunctionType):
        return [value.__defaults__, [cell.cell_contents for cell in value.__closure__ or ()]]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    named = [getattr(value, item.name) for item in fields(value)] if is_dataclass(value) else []
    return [*named, getattr(value, "__dict__", None)]
