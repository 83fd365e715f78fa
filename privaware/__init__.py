"""The best model you can release under a privacy budget, and what the whole way to it revealed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Ledger", "PrivateClassifier", "PrivateRegressor", "Schema", "fit", "train"]

if TYPE_CHECKING:
    from privaware.estimators import PrivateClassifier, PrivateRegressor
    from privaware.fit import fit
    from privaware.ledger import Ledger
    from privaware.schema import Schema
    from privaware.train import train

_HOMES = {
    "Ledger": "ledger",
    "PrivateClassifier": "estimators",
    "PrivateRegressor": "estimators",
    "Schema": "schema",
    "fit": "fit",
    "train": "train",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are asked for, so that `import privaware` stays quick."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"privaware.{_HOMES[name]}"), name)
    raise AttributeError(f"privaware has no {name!r}")


class _Package(ModuleType):
    """`fit` and `train` stay functions: importing the file of the same name does not put it in their place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
