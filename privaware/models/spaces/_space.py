"""A search space: its points, random draws, mutations and crossings of points, and the template of settings.

In the template "$name" stands for the value of the choice `name`, and "$one|other" for the value of the first of the
choices `one` and `other` that is active.
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privaware._validate import expect
from privaware.errors import WrongInput

FOLDER = Path(__file__).parent
"""Folder of the spaces that come with the package."""
FIELDS = ("what", "learner", "choices", "when", "build", "priced")
"""Fields of a space."""
_ABSENT = object()
"""Marks a template entry whose choices are all absent."""


def names_in(template: Any) -> set[str]:
    """Return the names of the choices that a template refers to, as "$name" or "$one|other", in values at any depth.

    >>> sorted(names_in({"hidden": ["$first", "$second"], "lr": 0.5}))
    ['first', 'second']
    """
    if isinstance(template, Mapping):
        return set().union(*(names_in(value) for value in template.values()))
    if isinstance(template, (list, tuple)):
        return set().union(*(names_in(value) for value in template))
    return set(_references(template))


def fill(template: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with each "$name" replaced by the value of choice "name" in `point`.

    "$one|other" is replaced by the value of the first of its choices that the point has. An entry of a list or
    dictionary disappears if the point has none of its choices.

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
    """Return the names of the choices if `template` is "$name" or "$one|other"; no names for any other value."""
    marked = isinstance(template, str) and template.startswith("$")
    return template[1:].split("|") if marked else []


Point = dict[str, Any]
"""A value for every active choice, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """A search space: named choices with their values, and a template of the settings that they give.

    Parameters
    ----------
    choices : mapping
        The values of each choice, by name.
    build : mapping
        The template of the learner's settings, in which "$name" stands for the value of choice "name".
    when : mapping
        Conditions: choice `name` is active only if each choice `other` in `when[name]` is active and has a value in
        `when[name][other]`; `other` must come before `name` in `choices`. A choice that is not in `when` is always
        active.
    priced : tuple of str
        The names of choices that change the privacy cost at a given noise multiplier, such as a number of steps.
    learner : str
        The name of the learner that is trained, unless `build` has an entry "learner".
    what : str
        A description in words.
    """

    choices: Mapping[str, tuple[Any, ...]]
    build: Mapping[str, Any]
    when: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    priced: tuple[str, ...] = ()
    learner: str = "dpsgd"
    what: str = ""

    def __post_init__(self) -> None:
        if not self.choices:
            raise WrongInput("a space is expected to have at least one choice, got none")
        for name, values in self.choices.items():
            if not values:
                raise WrongInput(f"choice {name!r}: expected at least one value, got none")
        earlier: set[str] = set()
        for name in self.choices:
            for other, values in self.when.get(name, {}).items():
                if other not in earlier:
                    raise WrongInput(f"choice {name!r} depends on {other!r}: expected a choice listed before {name!r}")
                self._check_values(other, values)
            earlier.add(name)
        if unknown := {*self.when, *self.priced, *names_in(self.build)} - set(self.choices):
            raise WrongInput(f"a space refers to {min(unknown)!r}, expected a choice among {', '.join(self.choices)}")

    @classmethod
    def load(cls, source: Any) -> Space:
        """Return the space of a name, a TOML file or a dictionary.

        Parameters
        ----------
        source : str, path, mapping or Space
            A name (`privaware list spaces`), a TOML file, the fields of a space, or a space. Anything else raises
            `WrongInput`.

        Returns
        -------
        Space
            The space.
        """
        if isinstance(source, Space):
            return source
        return cls(**(_parse(source, "the space") if isinstance(source, Mapping) else _read(str(source))))

    # Points

    def active(self, name: str, point: Mapping[str, Any]) -> bool:
        """Return whether choice `name` is active: each choice in its condition `when[name]` has an allowed value.

        `point` has the values of the active choices before `name`. A choice without a condition is active.
        """
        return all(other in point and point[other] in values for other, values in self.when.get(name, {}).items())

    def canonical(self, point: Mapping[str, Any]) -> Point:
        """Return a copy of `point` without inactive choices, in the order of `choices`.

        Raise `WrongInput` if a choice is unknown, or a value is missing or wrong.
        """
        if unknown := [name for name in point if name not in self.choices]:
            raise WrongInput(f"expected choices among {', '.join(self.choices)}, got {unknown[0]!r}")
        active: Point = {}
        for name in self.choices:
            if not self.active(name, active):
                continue
            if name not in point:
                raise WrongInput(f"expected a value for {name!r}, got none")
            self._check_values(name, (point[name],))
            active[name] = point[name]
        return active

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the learner's settings at `point`; raise `WrongInput` as `canonical` does."""
        return fill(self.build, self.canonical(point))

    def points(self) -> Iterator[Point]:
        """Yield all points (a value for every active choice).

        They are in the order of `choices`; the last choice changes fastest.
        """
        yield from self._extensions({}, list(self.choices))

    def _extensions(self, prefix: Point, names: list[str]) -> Iterator[Point]:
        if not names:
            yield prefix
        elif not self.active(names[0], prefix):
            yield from self._extensions(prefix, names[1:])
        else:
            for value in self.choices[names[0]]:
                yield from self._extensions({**prefix, names[0]: value}, names[1:])

    # Random points

    def draw(self, rng: np.random.Generator, fixed: Mapping[str, Any] | None = None) -> Point:
        """Return a random point: every active choice has a uniform value, or its value in `fixed`.

        Values in `fixed` are not checked, and values of inactive choices are ignored.
        """
        fixed = fixed or {}
        point: Point = {}
        for name, values in self.choices.items():
            if self.active(name, point):
                point[name] = fixed[name] if name in fixed else values[int(rng.integers(len(values)))]
        return point

    def mutate(self, point: Point, rng: np.random.Generator) -> Point:
        """Return a copy of `point` with another value for one choice; the choice and its value are drawn uniformly.

        Choices that become active are drawn at random, and those that become inactive are dropped. If no choice of the
        point has a second value, an unchanged copy is returned.
        """
        mutable = [name for name in point if len(self.choices[name]) > 1]
        if not mutable:
            return dict(point)
        name = mutable[int(rng.integers(len(mutable)))]
        others = [value for value in self.choices[name] if value != point[name]]
        return self.draw(rng, {**point, name: others[int(rng.integers(len(others)))]})

    def cross(self, one: Point, two: Point, rng: np.random.Generator) -> Point:
        """Return a point with each choice from `one` or `two` with equal probability.

        A choice that only one parent has comes from that parent. An active choice that neither parent has is drawn at
        random, and an inactive choice is dropped.
        """
        child = {}
        for name in self.choices:
            values = [parent[name] for parent in (one, two) if name in parent]
            if values:
                child[name] = values[int(rng.integers(len(values)))]
        return self.draw(rng, child)

    # Points that are checked and priced before a row is read

    def priced_points(self) -> list[Point]:
        """Return one point for each combination of values of the choices in `priced`.

        A choice in `priced` that is not active counts as absent; combinations that then are equal give one point.
        Values of choices that are not in `priced` are drawn with a fixed seed. If `priced` is empty, one point is
        returned.
        """
        rng = np.random.default_rng(0)
        points: dict[str, Point] = {}
        for values in itertools.product(*(self.choices[name] for name in self.priced)):
            point = self.draw(rng, dict(zip(self.priced, values, strict=True)))
            points.setdefault(point_key({name: point.get(name) for name in self.priced}), point)
        return list(points.values())

    def covering_points(self) -> list[Point]:
        """Return different points in which every possible value of every choice occurs.

        There is a point for each value of each choice, whose remaining choices are drawn with a fixed seed; equal
        points are returned once.
        """
        rng = np.random.default_rng(0)
        points: dict[str, Point] = {}
        for name, values in self.choices.items():
            for value in values:
                point = self.draw(rng, {**self._activating(name), name: value})
                points.setdefault(point_key(point), point)
        return list(points.values())

    def _activating(self, name: str) -> Point:
        """Return values of earlier choices that make choice `name` active; no values if `name` has no condition."""
        needed: Point = {}
        for other, values in self.when.get(name, {}).items():
            if values:
                needed |= {**self._activating(other), other: values[0]}
        return needed

    @property
    def learners(self) -> tuple[str, ...]:
        """The different names of the learners that points can have.

        There is one, `learner`, unless the template `build` has an entry "learner", which may depend on a choice.
        """
        named = self.build.get("learner", self.learner)
        values = [value for name in sorted(names_in(named)) for value in self.choices[name]]
        return tuple(dict.fromkeys(values)) or (named,)

    @property
    def unused(self) -> list[str]:
        """The names of the choices that neither the template `build` nor a condition in `when` refers to."""
        used = names_in(self.build).union(*self.when.values())
        return [name for name in self.choices if name not in used]

    def _check_values(self, name: str, values: tuple[Any, ...]) -> None:
        for value in values:
            if value not in self.choices[name]:
                raise WrongInput(f"choice {name!r}: expected one of {list(self.choices[name])}, got {value!r:.80}")


def point_key(point: Mapping[str, Any]) -> str:
    """Return a string that identifies a point.

    Parameters
    ----------
    point : mapping
        The point.

    Returns
    -------
    str
        JSON with sorted keys.
    """
    return json.dumps(point, sort_keys=True, default=str)


def spaces() -> list[str]:
    """Return the names of the spaces that come with the package.

    >>> "fcn" in spaces()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _read(name: str) -> dict[str, Any]:
    """Return the fields of the space `name` of the package, or else of the TOML file at the path `name`.

    Raise `WrongInput` if the file cannot be read, is not TOML or has wrong fields.
    """
    path = FOLDER / f"{name}.toml" if name in spaces() else Path(name)
    try:
        return _parse(tomllib.loads(path.read_text()), name)
    except (OSError, UnicodeDecodeError):
        raise WrongInput(f"expected a space among {', '.join(spaces())} or a TOML file, got {name!r:.120}") from None
    except tomllib.TOMLDecodeError as problem:
        raise WrongInput(f"{name!r:.120} is not TOML: {problem!s:.120}") from None
    except RecursionError:
        raise WrongInput(f"expected TOML with few levels, got {name!r:.120}, which is nested too deeply") from None


def _parse(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a space from the dictionary `table`, with lists as tuples and defaults for absent fields.

    A wrong field raises `WrongInput`, whose message begins with `where`.
    """
    if unknown := [key for key in table if key not in FIELDS]:
        raise WrongInput(f"{where}: expected fields among {', '.join(FIELDS)}, got {unknown[0]!r}")
    choices, when, build = (table.get(key, {}) for key in ("choices", "when", "build"))
    for name, value in (("choices", choices), ("when", when), ("build", build)):
        expect(isinstance(value, Mapping), where, f"{name} as a table", value)
    priced = table.get("priced", ())
    for name, values in choices.items():
        expect(_is_list(values), f"{where}, choice {name!r}", "a list", values)
    for name, rules in when.items():
        lists = isinstance(rules, Mapping) and all(_is_list(values) for values in rules.values())
        expect(lists, f"{where}, condition of {name!r}", "lists of values by choice", rules)
    names = _is_list(priced) and all(isinstance(name, str) for name in priced)
    expect(names, where, "priced as a list of choices", priced)
    return {
        "what": str(table.get("what", "")),
        "learner": str(table.get("learner", "dpsgd")),
        "choices": {name: tuple(values) for name, values in choices.items()},
        "when": {name: {other: tuple(values) for other, values in rules.items()} for name, rules in when.items()},
        "build": dict(build),
        "priced": tuple(priced),
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
