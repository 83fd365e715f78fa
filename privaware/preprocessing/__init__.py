"""Paid transformations, one in each module: private ranges and bins, normalisation, principal components, weights.

A transformation is a mechanism that releases a feature map or a schema with its ranges filled in. It is a frozen
dataclass of public settings that inherits `Transformation`. A mechanism that releases names of columns is a selector
(`privaware.selectors`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from privaware.mechanism import Mechanism
from privaware.registry import expect_protocol, find

__all__ = ["Transformation", "find_transformation"]


@runtime_checkable
class Transformation(Mechanism[Any], Protocol):
    """A mechanism that releases a feature map, or a schema with ranges filled in.

    Attributes
    ----------
    releases : str
        "feature" or "schema".
    prices_replacement : bool
        True if `cost` already prices a replaced row under the relation `replace_one`. Otherwise `cost` prices one row
        added or removed, and a replaced row counts as two such changes.
    """

    releases: ClassVar[Literal["feature", "schema"]] = "feature"
    prices_replacement: ClassVar[bool] = False


def find_transformation(name: str) -> type[Transformation]:
    """Return the transformation called `name`, from this folder or from another installed package.

    Parameters
    ----------
    name : str
        The name of the transformation's module, such as "pca". An unknown name raises `WrongInput`.

    Returns
    -------
    type
        A class that implements `Transformation`.

    >>> find_transformation("pca").__name__
    'Pca'
    """
    return expect_protocol("preprocessing", name, find("preprocessing", name), Transformation)
