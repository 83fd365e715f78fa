"""The grid of a user's own benchmark: learners x architectures x data x epsilons x seeds, from a TOML file.

    data = ["digits"]                 # built-in names, or tables [data.NAME] (see `_rows.py`)
    epsilons = [1.0, 8.0]
    seeds = 3                         # or a list
    delta = 1e-5
    attacks = ["threshold"]           # membership attacks on every model: names, or {name = ..., and settings}
    shadows = 1                       # shadow models of an attacker; left out: as many as the attacks need

    [shadow]                          # settings of shadow models; left out: the settings of the attacked learner
    epochs = 10

    [baseline]                        # trained without noise, for utility loss
    learner = "dpsgd"

    [learners.dpsgd]                  # a name of `privaware list learners`, with settings
    [learners."hand_dp + focal"]      # or any name, with the name of the learner as `learner`
    learner = "hand_dp"
    loss = {name = "focal"}

    [architectures.small]             # for every learner with a choice of network; left out: the learner's default
    name = "simple_cnn"

A table [learners.NAME] may have `architectures`, `data` and `epsilons` of its own, which replace those of the grid. All
is checked before anything runs (`_possible.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from privaware import models
from privaware._validate import expect, expect_count, expect_in, expect_positive, nearest
from privaware.attacks import attack_needs
from privaware.bench import Settings
from privaware.bench._cells import NO_NETWORK
from privaware.bench._leakage import attack_of, shadow_settings
from privaware.bench._rows import expect_rows
from privaware.errors import WrongInput
from privaware.learners import find_learner

BASELINE = "baseline"
KEYS = {"data", "epsilons", "seeds", "delta", "attacks", "shadows", "shadow", "baseline", "learners", "architectures"}
LINE_KEYS = {"learner", "architectures", "data", "epsilons"}


def read_grid(path: Path, seeds: Sequence[int] | None = None) -> list[Settings]:
    """Return the settings of every cell of a grid file (TOML), including combinations that cannot be run.

    `seeds` replace the seeds of the file, unless they are None. Raise `WrongInput` if the file cannot be read or an
    entry is wrong.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise WrongInput(f"cannot read the grid {str(path)!r:.120}: {problem.strerror or problem}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise WrongInput(f"expected a grid in TOML, but {path.name} is not valid TOML: {problem}") from None
    return all_cells(table if seeds is None else {**table, "seeds": list(seeds)}, path.parent)


def all_cells(table: Mapping[str, Any], folder: Path = Path()) -> list[Settings]:
    """Return the settings of every cell of a grid, including combinations that cannot be run; baselines come first.

    `table` is the content of the TOML file. Relative paths of data files are relative to `folder`. Raise `WrongInput`
    for a wrong entry, and for a grid without learners.
    """
    if unknown := sorted(set(table) - KEYS):
        near = nearest(unknown[0], KEYS)
        advice = f"; did you mean {near}?" if near else ""
        raise WrongInput(f"grid: expected entries among {', '.join(sorted(KEYS))}, got {unknown[0]!r}{advice}")
    axes = _axes(table, folder)
    lines = {name: _line(name, line, axes) for name, line in _tables("learners", table).items()}
    if BASELINE in lines:
        raise WrongInput("grid: expected another name than baseline in [learners]; write the baseline as [baseline]")
    expect(lines, "grid", "at least one learner as [learners.NAME]", lines)
    cells: list[Settings] = []
    if "baseline" in table:
        baseline = _line(BASELINE, table["baseline"], axes)
        cells += _cells(BASELINE, {**baseline, "epsilons": [None]}, axes)
    for name, line in lines.items():
        cells += _cells(name, line, axes)
    return cells


def _tables(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    value = table.get(name, {})
    expect(isinstance(value, dict), "grid", f"{name} as tables [{name}.NAME]", value)
    return dict(value)


def _axes(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Check the entries of a grid that all its learners share, and return them by name.

    `table` is the content of the TOML file, and `folder` is the one to which paths of data files are relative. The
    names are `data` (the table of each data set by name), `epsilons` and `seeds` (lists), `delta` (1e-5 by default),
    `attacks`, `shadows` (the number of shadow models), `shadow` (their settings) and `architectures` (the description
    of each network by name). Raise `WrongInput` for a wrong entry.
    """
    data = table.get("data", [])
    named = {name: {} for name in data} if isinstance(data, list) and all(isinstance(d, str) for d in data) else data
    expect(isinstance(named, dict) and named, "grid", "data as a list of names, or tables [data.NAME]", data)
    seeds = table.get("seeds", 1)
    listed = list(range(seeds)) if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds > 0 else seeds
    expect(isinstance(listed, list) and listed, "grid", "seeds as a positive number of seeds or a list", seeds)
    for seed in listed:
        expect_count("grid", 0, seeds=seed)
    delta, attacks = table.get("delta", 1e-5), _attacks(table.get("attacks", []))
    expect_in("grid", "(0, 1)", delta=delta)
    shadows = _shadows(table.get("shadows"), attacks)
    return {
        "data": {name: expect_rows(name, rows, folder, attacker=shadows > 0) for name, rows in named.items()},
        "epsilons": _epsilons("grid", table.get("epsilons", [])),
        "seeds": listed,
        "delta": delta,
        "attacks": attacks,
        "shadows": shadows,
        "shadow": shadow_settings(table.get("shadow", {})),
        "architectures": {name: _architecture(name, one) for name, one in _tables("architectures", table).items()},
    }


def _epsilons(who: str, values: Any) -> list[float]:
    expect(isinstance(values, list), who, "epsilons as a list of numbers", values)
    for value in values:
        expect_positive(who, epsilons=value)
    return [float(value) for value in values]


def _attacks(wanted: Any) -> list[Any]:
    """Check `wanted`, the entry `attacks` of a grid, and return a copy: names, and tables of a `name` and settings.

    Raise `WrongInput` if it is no such list, or for an unknown attack or setting.
    """
    expect(isinstance(wanted, list), "grid", "attacks as a list", wanted)
    for one in wanted:
        good = isinstance(one, str) or (isinstance(one, dict) and isinstance(one.get("name"), str))
        expect(good, "grid", "attacks as names, or tables with a name", one)
        attack_of(one)  # an unknown name is answered with the close ones
    return list(wanted)


def _shadows(wanted: Any, attacks: Iterable[Any]) -> int:
    """Return the number of shadow models: `wanted`, or without it the largest number that an attack needs.

    `attacks` are names, or tables of a name and settings. Without attacks the largest number is 0. Raise `WrongInput`
    if `wanted` is no whole number, or is less than an attack needs.
    """
    needs = {name: attack_needs(name).shadows for name in (attack_of(one).name for one in attacks)}
    most = max(needs, key=needs.__getitem__, default="")
    if wanted is None:
        return needs.get(most, 0)
    expect_count("grid", 0, shadows=wanted)
    least = needs.get(most, 0)
    expect(wanted >= least, "grid", f"at least {least} shadow model{'s' * (least > 1)} for {most}", wanted)
    return int(wanted)


def _architecture(name: str, table: Any) -> dict[str, Any]:
    """Return the description of a network, from which the network can be built.

    `table` may be a description, with the `name` of an architecture, which is returned. Or it gives the end of a
    published network's name, such as {named = "resnet20.colour.268346"}; then the published description is returned,
    without its entries `inputs` and `outputs`. Raise `WrongInput` for a table with neither, and unless exactly one
    published network has this end. The argument `name` is the name of the network in the grid, for errors.
    """
    expect(isinstance(table, dict), f"architectures.{name}", "a table", table)
    if "named" not in table:
        expect("name" in table, f"architectures.{name}", 'a "name" of `privaware list models`', table)
        return dict(table)
    known = [network for key, network in models.named().items() if key.endswith(str(table["named"]))]
    expect(len(known) == 1, f"architectures.{name}", "the end of one published network's name", table["named"])
    return {key: value for key, value in known[0].description.items() if key not in ("inputs", "outputs")}


def _line(name: str, line: Any, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Check a table [learners.NAME] of a grid, or its [baseline], and return what it says.

    `line` is the table, `name` is NAME or "baseline", and `axes` is the result of `_axes`. The result has `algorithm`
    (the name of the learner), its `settings`, `epsilons`, and the names of `data` and `architectures`; an entry that
    `line` lacks is taken from `axes`. `architectures` is empty if the learner has no choice of network, or if
    `settings` chooses it. Raise `WrongInput` for a wrong entry.
    """
    who = BASELINE if name == BASELINE else f"learners.{name}"
    expect(isinstance(line, dict), who, "a table", line)
    algorithm = line.get("learner", name)
    make = find_learner(algorithm)
    settings = {key: value for key, value in line.items() if key not in LINE_KEYS}
    chooses = "architecture" in {field.name for field in fields(make)} and "architecture" not in settings  # type: ignore[arg-type]
    chosen = {axis: _chosen(who, axis, line, axes) for axis in ("architectures", "data")}
    if not chooses:
        chosen["architectures"] = []
    epsilons = _epsilons(who, line["epsilons"]) if "epsilons" in line else axes["epsilons"]
    if name != BASELINE:
        expect(epsilons, who, "epsilons, in this table or for the whole grid", epsilons)
    return {"algorithm": algorithm, "settings": settings, "epsilons": epsilons, **chosen}


def _chosen(who: str, axis: str, line: Mapping[str, Any], axes: Mapping[str, Any]) -> list[str]:
    wanted = line.get(axis, list(axes[axis]))
    good = isinstance(wanted, list) and all(name in axes[axis] for name in wanted)
    expect(good, who, f"{axis} among {', '.join(axes[axis]) or 'none'}", wanted)
    return list(wanted)


def _cells(name: str, line: Mapping[str, Any], axes: Mapping[str, Any]) -> Iterator[Settings]:
    networks = {label: axes["architectures"][label] for label in line["architectures"]} or {NO_NETWORK: None}
    more = {"shadows": axes["shadows"]} if axes["shadows"] else {}
    if more and axes["shadow"]:
        more["shadow"] = axes["shadow"]
    for data in line["data"]:
        for network, architecture in networks.items():
            for epsilon in line["epsilons"]:
                for seed in axes["seeds"]:
                    yield {
                        "learner": name,
                        "algorithm": line["algorithm"],
                        "settings": line["settings"],
                        "network": network,
                        "architecture": architecture,
                        "data": data,
                        "rows": axes["data"][data],
                        "attacks": axes["attacks"],
                        "delta": axes["delta"],
                        "epsilon": epsilon,
                        "seed": seed,
                    } | more
