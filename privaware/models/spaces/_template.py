"""The template of what a learner builds: "$name" stands for the chosen value, "$one|other" for the first active one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["fill", "names_in"]

_ABSENT = object()


def names_in(template: Any) -> set[str]:
    """The choices that a template refers to.

    >>> sorted(names_in({"hidden": ["$first", "$second"], "lr": 0.5}))
    ['first', 'second']
    """
    if isinstance(template, Mapping):
        return set().union(*(names_in(value) for value in template.values()))
    if isinstance(template, (list, tuple)):
        return set().union(*(names_in(value) for value in template))
    return set(_references(template))


def fill(template: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """The template with the values of a point; an entry whose choices are all absent disappears.

    >>> fill({"hidden": ["$first", "$second"], "lr": 0.5}, {"first": 16})
    {'hidden': [16], 'lr': 0.5}
    """
    filled = {name: _filled(value, point) for name, value in template.items()}
    return {name: value for name, value in filled.items() if value is not _ABSENT}


def _filled(template: Any, point: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        return fill(template, point)
    if isinstance(template, (list, tuple)):
        return [value for value in (_filled(part, point) for part in template) if value is not _ABSENT]
    names = _references(template)
    return next((point[name] for name in names if name in point), _ABSENT) if names else template


def _references(template: Any) -> list[str]:
    """The choices behind "$name" or "$one|other"."""
    marked = isinstance(template, str) and template.startswith("$")
    return template[1:].split("|") if marked else []
