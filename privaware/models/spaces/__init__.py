"""What a search may choose from: named choices, conditions between them, and what a learner makes of them.

A space is a plain dictionary, the same in Python and in TOML:

>>> space = Space.load({
...     "what": "One or two hidden layers.",
...     "choices": {"layers": [1, 2], "first": [8, 16], "second": [4, 8], "lr": [1.0, 4.0]},
...     "when": {"second": {"layers": [2]}},
...     "build": {"architecture": {"name": "fcn", "hidden": ["$first", "$second"]}, "lr": "$lr"},
... })
>>> space.settings({"layers": 1, "first": 16, "lr": 4.0})
{'architecture': {'name': 'fcn', 'hidden': [16]}, 'lr': 4.0}

A point holds a value for every choice that counts; a choice whose condition fails is left out, so that points which
build the same thing are equal. In the template `build` a "$name" stands for the chosen value ("$one|other" for the
first that counts), and an entry whose choice is left out disappears. `priced` names the choices that change what a
candidate costs (a batch, a number of steps): a search has to know every price before it reads a row.
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

from privaware.errors import WrongInput

__all__ = ["Point", "Space", "spaces"]

Point = dict[str, Any]

FOLDER = Path(__file__).parent
FIELDS = ("what", "learner", "choices", "when", "build", "priced")
LEFT_OUT = object()


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """Choices by name, each with its values. `learner` trains what `build` describes."""

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
        seen: set[str] = set()
        for name in self.choices:
            for other, values in self.when.get(name, {}).items():
                if other not in seen:
                    raise WrongInput(f"choice {name!r} depends on {other!r}, which is expected to come before it")
                self._expect_values(other, values)
            seen.add(name)
        unknown = [*({*self.when, *self.priced, *_names(self.build)} - set(self.choices))]
        if unknown:
            raise WrongInput(
                f"a space speaks of {sorted(unknown)[0]!r}, expected a choice among {', '.join(self.choices)}"
            )

    @classmethod
    def load(cls, given: Any) -> Space:
        """The space of a name (`privaware list spaces`), a TOML file or a dictionary."""
        if isinstance(given, Space):
            return given
        if isinstance(given, Mapping):
            return cls._parsed(given, "the space")
        name = str(given)
        own = FOLDER / f"{name}.toml"
        path = own if name in spaces() else Path(name)
        try:
            return cls._parsed(tomllib.loads(path.read_text()), name)
        except (OSError, UnicodeDecodeError):
            raise WrongInput(
                f"expected a space among {', '.join(spaces())} or a TOML file, got {name!r:.120}"
            ) from None
        except tomllib.TOMLDecodeError as problem:
            raise WrongInput(f"{name!r:.120} is not TOML: {problem!s:.120}") from None
        except RecursionError:
            raise WrongInput(
                f"expected a space of a few levels, got {name!r:.120}, which is nested without an end"
            ) from None

    @classmethod
    def _parsed(cls, given: Mapping[str, Any], where: str) -> Space:
        if unknown := [key for key in given if key not in FIELDS]:
            raise WrongInput(f"{where}: expected fields among {', '.join(FIELDS)}, got {unknown[0]!r}")
        tables = {key: given.get(key, {}) for key in ("choices", "when", "build")}
        for key, table in tables.items():
            if not isinstance(table, Mapping):
                raise WrongInput(f"{where}: expected {key} as a table, got {table!r:.80}")
        for name, values in tables["choices"].items():
            if not isinstance(values, (list, tuple)):
                raise WrongInput(f"{where}, choice {name!r}: expected a list, got {values!r:.80}")
        for name, rules in tables["when"].items():
            listed = isinstance(rules, Mapping) and all(isinstance(values, (list, tuple)) for values in rules.values())
            if not listed:
                raise WrongInput(
                    f"{where}, condition of {name!r}: expected lists of values by choice, got {rules!r:.80}"
                )
        priced = given.get("priced", ())
        if not isinstance(priced, (list, tuple)) or not all(isinstance(n, str) for n in priced):
            raise WrongInput(f"{where}: expected priced as a list of choices, got {priced!r:.80}")
        return cls(
            what=str(given.get("what", "")),
            learner=str(given.get("learner", "dpsgd")),
            choices={name: tuple(values) for name, values in tables["choices"].items()},
            when={
                name: {other: tuple(values) for other, values in rules.items()}
                for name, rules in tables["when"].items()
            },
            build=dict(tables["build"]),
            priced=tuple(priced),
        )

    def active(self, name: str, point: Mapping[str, Any]) -> bool:
        """Whether a choice counts, given the choices before it."""
        return all(other in point and point[other] in values for other, values in self.when.get(name, {}).items())

    def canonical(self, point: Mapping[str, Any]) -> Point:
        """The same point without choices that do not count; one that is missing or wrong is refused."""
        if unknown := [name for name in point if name not in self.choices]:
            raise WrongInput(f"expected choices among {', '.join(self.choices)}, got {unknown[0]!r}")
        made: Point = {}
        for name in self.choices:
            if not self.active(name, made):
                continue
            if name not in point:
                raise WrongInput(f"expected a value for {name!r}, got none")
            self._expect_values(name, (point[name],))
            made[name] = point[name]
        return made

    def draw(self, rng: np.random.Generator, given: Mapping[str, Any] | None = None) -> Point:
        """A point at random: every choice uniformly, but for those `given`."""
        made: Point = {}
        for name, values in self.choices.items():
            if self.active(name, made):
                fixed = (given or {}).get(name, LEFT_OUT)
                made[name] = values[int(rng.integers(len(values)))] if fixed is LEFT_OUT else fixed
        return made

    def mutated(self, point: Point, rng: np.random.Generator) -> Point:
        """One choice that counts and has another value takes it; what depends on it is drawn anew."""
        free = [name for name in point if len(self.choices[name]) > 1]
        if not free:
            return dict(point)
        name = free[int(rng.integers(len(free)))]
        others = [value for value in self.choices[name] if value != point[name]]
        changed = {**point, name: others[int(rng.integers(len(others)))]}
        return self.draw(rng, changed)

    def crossed(self, one: Point, two: Point, rng: np.random.Generator) -> Point:
        """Every choice from one of two parents, evenly; what neither has is drawn."""
        child = {}
        for name in self.choices:
            have = [parent[name] for parent in (one, two) if name in parent]
            if have:
                child[name] = have[int(rng.integers(len(have)))]
        return self.draw(rng, child)

    def points(self) -> Iterator[Point]:
        """All of them, in the order of the choices."""
        yield from self._extended({}, list(self.choices))

    def _extended(self, made: Point, names: list[str]) -> Iterator[Point]:
        if not names:
            yield made
        elif not self.active(names[0], made):
            yield from self._extended(made, names[1:])
        else:
            for value in self.choices[names[0]]:
                yield from self._extended({**made, names[0]: value}, names[1:])

    def recipes(self) -> list[Point]:
        """One point for each combination of the priced choices: all that a price depends on."""
        calm = np.random.default_rng(0)
        lists = [self.choices[name] for name in self.priced]
        found: dict[str, Point] = {}
        for values in itertools.product(*lists):
            point = self.draw(calm, dict(zip(self.priced, values, strict=True)))
            found.setdefault(key({name: point.get(name) for name in self.priced}), point)
        return list(found.values())

    @property
    def idle(self) -> list[str]:
        """Choices on which neither what is built nor another choice depends."""
        used = _names(self.build).union(*self.when.values())
        return [name for name in self.choices if name not in used]

    def samples(self) -> list[Point]:
        """Few points in which every value of every choice occurs that can."""
        calm = np.random.default_rng(0)
        found: dict[str, Point] = {}
        for name, values in self.choices.items():
            for value in values:
                point = self.draw(calm, {**self._needed(name), name: value})
                found.setdefault(key(point), point)
        return list(found.values())

    def _needed(self, name: str) -> Point:
        """Values of earlier choices with which this one counts."""
        needed: Point = {}
        for other, values in self.when.get(name, {}).items():
            if values:
                needed |= {**self._needed(other), other: values[0]}
        return needed

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """What the learner is given at this point."""
        made = _filled(self.build, self.canonical(point))
        return {} if made is LEFT_OUT else dict(made)

    def _expect_values(self, name: str, values: tuple[Any, ...]) -> None:
        for value in values:
            if value not in self.choices[name]:
                raise WrongInput(f"choice {name!r}: expected one of {list(self.choices[name])}, got {value!r:.80}")


def spaces() -> list[str]:
    """The spaces that come with the package.

    >>> "fcn" in spaces()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def key(point: Mapping[str, Any]) -> str:
    """One string for one point."""
    return json.dumps(point, sort_keys=True, default=str)


def _names(template: Any) -> set[str]:
    if isinstance(template, Mapping):
        return set().union(*(_names(value) for value in template.values()))
    if isinstance(template, (list, tuple)):
        return set().union(*(_names(value) for value in template))
    return set(_stands_for(template))


def _filled(template: Any, point: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        made = {name: _filled(value, point) for name, value in template.items()}
        return {name: value for name, value in made.items() if value is not LEFT_OUT}
    if isinstance(template, (list, tuple)):
        return [v for v in (_filled(value, point) for value in template) if v is not LEFT_OUT]
    names = _stands_for(template)
    return next((point[name] for name in names if name in point), LEFT_OUT) if names else template


def _stands_for(template: Any) -> list[str]:
    """The choices behind "$name", or behind "$one|other" of which the first that counts is meant."""
    marked = isinstance(template, str) and template.startswith("$")
    return template[1:].split("|") if marked else []
