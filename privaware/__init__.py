"""Train the most accurate model that a privacy budget allows, and account for every access to the data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privaware._version import __version__

if TYPE_CHECKING:
    from privaware.estimators import PrivateClassifier, PrivateRegressor, PrivateSelector
    from privaware.ledger import Ledger
    from privaware.schema import Schema
    from privaware.workflow.advise import advise
    from privaware.workflow.audit import audit
    from privaware.workflow.crossover import crossover
    from privaware.workflow.fit import fit
    from privaware.workflow.load import load
    from privaware.workflow.predict import predict
    from privaware.workflow.search import search
    from privaware.workflow.select import select
    from privaware.workflow.train import train
    from privaware.workflow.verify import verify

__all__ = [
    "Ledger",
    "PrivateClassifier",
    "PrivateRegressor",
    "PrivateSelector",
    "Schema",
    "__version__",
    "advise",
    "audit",
    "crossover",
    "fit",
    "load",
    "predict",
    "search",
    "select",
    "train",
    "verify",
]

_MODULES = {
    "Ledger": "ledger",
    "PrivateClassifier": "estimators",
    "PrivateRegressor": "estimators",
    "PrivateSelector": "estimators",
    "Schema": "schema",
    "advise": "workflow.advise",
    "audit": "workflow.audit",
    "crossover": "workflow.crossover",
    "fit": "workflow.fit",
    "load": "workflow.load",
    "predict": "workflow.predict",
    "search": "workflow.search",
    "select": "workflow.select",
    "train": "workflow.train",
    "verify": "workflow.verify",
}


def __getattr__(name: str) -> Any:
    """Import the public object `name` from its submodule at its first use, so that `import privaware` stays quick.

    `_MODULES` maps each public name to its submodule. A name that is not in it raises `AttributeError`.
    """
    if name in _MODULES:
        return getattr(import_module(f"privaware.{_MODULES[name]}"), name)
    raise AttributeError(f"privaware has no {name!r}")


def __dir__() -> list[str]:
    return __all__
