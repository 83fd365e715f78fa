"""What a user fixes of a plan: learner, settings, columns, and a selection or search inside the run; and its file.

>>> Recipe.of(learner="linear", select="cfs_greedy").json()
{'learner': 'linear', 'settings': {}, 'select': 'cfs_greedy'}
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from privaware._files import atomic_write
from privaware._rounded import rounded_up
from privaware._validate import expect, suggestion
from privaware.card import plain_settings
from privaware.errors import WrongInput, warn_caller
from privaware.schema import Schema
from privaware.workflow.run.paid_features import described_features

SELECTION = "selection.json"
KINDS: dict[str, Any] = {
    **dict.fromkeys(("learner", "select", "search", "workflow", "metric", "policy"), str),
    **dict.fromkeys(("settings", "select_settings", "search_settings", "selected"), Mapping),
    **dict.fromkeys(("target_range", "bins"), bool),
    "columns": (list, tuple),
}
"""Type of each entry of a saved plan."""
WORKFLOWS = ("aware", "standard")
""""aware" chooses with noise; "standard" chooses without noise, as the papers do for comparison."""
TABLES = ("architecture", "average", "loss", "noise_schedule", "schedule")
"""Settings of networks that are tables; a name alone means the table `{"name": NAME}`."""
SEARCH_SETTINGS = ("space", "trials", "held_out", "options")
"""Settings of a search; `options` are the settings of its strategy."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The parts of a plan that a user fixed.

    `columns` are the columns to use, and `selected` has the `epsilon` and `delta` of their selection by an earlier run,
    if there was one (see `selection_cost`). Alternatively, `select` names a selector that chooses them, with
    `select_settings`. `search` names the strategy of a search, with `search_settings`; it is a private search inside
    the training unless public rows are given or `workflow` is "standard". With `target_range` a regression first
    releases the mean and the spread of its target, with part of the budget, as `auto` does. With `bins` the bins of
    numeric columns with declared bounds are released first. `metric` is what the training optimises. `policy` is the
    label (name and digest) of the policy by which `auto` chooses.
    """

    learner: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    selected: Mapping[str, Any] = field(default_factory=dict)
    select: str | None = None
    select_settings: Mapping[str, Any] = field(default_factory=dict)
    search: str | None = None
    search_settings: Mapping[str, Any] = field(default_factory=dict)
    workflow: str = "aware"
    metric: str | None = None
    bins: bool = False
    policy: str = ""
    target_range: bool = False

    def __post_init__(self) -> None:
        learner, settings = current_names(self.learner, self.settings)
        object.__setattr__(self, "learner", learner)
        object.__setattr__(self, "settings", settings)
        expect(self.workflow in WORKFLOWS, "", "--workflow as aware or standard", self.workflow)
        if unknown := [name for name in self.search_settings if name not in SEARCH_SETTINGS]:
            raise WrongInput(f"a search has no setting {unknown[0]!r:.80}; {suggestion(unknown[0], SEARCH_SETTINGS)}")
        if self.search is None and self.search_settings:
            raise WrongInput("expected --search with the settings of a search (--space, --trials), got none")
        if self.columns is not None and self.select is not None:
            raise WrongInput(
                "expected one of --use (columns that were chosen) and --select (choose them now), got both"
            )

    @classmethod
    def of(
        cls,
        plan: Any = None,
        *,
        learner: str = "auto",
        settings: Mapping[str, Any] | None = None,
        use: Any = None,
        select: str | None = None,
        select_settings: Mapping[str, Any] | None = None,
        **searched: Any,
    ) -> Recipe:
        """Build a recipe from the arguments; an argument that is not given is taken from `plan`.

        `plan` is a mapping, or a TOML or JSON file; None is an empty plan. `use` (as in `chosen_columns`) or `select`
        (a selector) replaces both the columns and the selector of `plan`. `searched` are `search`, `search_settings`,
        `workflow`, `metric` and `policy`.

        Given `settings` (of the learner), `select_settings` and `search_settings` are added to the entries of `plan`,
        and have precedence over them. The `settings` of `plan` are dropped if `learner` names another learner. Raise
        `WrongInput` if `plan` was made with another policy and its learner is "auto".
        """
        base = cls() if plan is None else cls.read(plan)
        policy = searched.get("policy") or ""
        if base.learner == "auto" and base.policy and policy != base.policy:
            raise WrongInput(
                f"expected --policy with the policy of this plan ({base.policy!r:.80}), got {policy!r:.80}; give that "
                "file, or remove `policy` from the plan"
            )
        same = learner in ("auto", base.learner)
        chosen = base.learner if learner == "auto" else learner
        described = _described({**(base.settings if same else {}), **(settings or {})})
        if (current := current_names(chosen, described)) != (chosen, dict(described)):
            named = ", ".join(f"{name}={value!r}" for name, value in current[1].items())
            message = f"learner {chosen}: settings have new names; take learner {current[0]} with {named:.200}"
            warn_caller(message, DeprecationWarning)
        return replace(
            base,
            learner=chosen,
            settings=described,
            columns=base.columns if use is None and select is None else chosen_columns(use),
            selected=base.selected if use is None and select is None else selection_cost(use),
            select=base.select if use is None and select is None else select,
            select_settings={**base.select_settings, **(select_settings or {})},
            search=searched.get("search") or base.search,
            search_settings={**base.search_settings, **(searched.get("search_settings") or {})},
            workflow=searched.get("workflow") or base.workflow,
            metric=searched.get("metric") or base.metric,
            policy=policy or base.policy,
        )

    @classmethod
    def read(cls, plan: Any) -> Recipe:
        """Read a recipe from `plan`, a mapping or the path of a TOML or JSON file; its entry `reasons` is ignored.

        Raise `WrongInput` for an unknown entry or an entry of another type than in `KINDS`.
        """
        table = plan if isinstance(plan, Mapping) else _table(Path(plan))
        known = [item.name for item in fields(cls)]
        if unknown := [key for key in table if key not in (*known, "reasons")]:
            raise WrongInput(f"expected only the entries {', '.join(known)} in a plan, got {unknown[0]!r:.80}")
        for name, kind in KINDS.items():
            if name in table and not isinstance(table[name], kind):
                raise WrongInput(f"plan: {name} is expected as in a saved plan, got {table[name]!r:.80}")
        entries = {name: table[name] for name in known if name in table}
        return cls(**entries | ({"columns": tuple(map(str, entries["columns"]))} if "columns" in entries else {}))

    def json(self) -> dict[str, Any]:
        """Return plain values: `learner`, `settings`, and the other entries that differ from their defaults.

        `select_settings` are left out if `select` is None.
        """
        unset = Recipe() if self.select else Recipe(select_settings=self.select_settings)  # shown with a selector only
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: plain_settings(value) if isinstance(value, Mapping) else list(value) if name == "columns" else value
            for name, value in given.items()
            if name in ("learner", "settings") or value != getattr(unset, name)
        }

    def write(self, path: Path, reasons: Sequence[str]) -> None:
        """Write the recipe and `reasons` to `path`: as TOML if its suffix is .toml, else as JSON.

        An existing file is replaced.
        """
        entries = {**self.json(), "reasons": list(reasons)}
        if path.suffix == ".toml":
            text = "".join(f"{name} = {_toml(value)}\n" for name, value in entries.items())
        else:
            text = json.dumps(entries, indent=1)
        atomic_write(path, text.encode())

    def restricted(self, schema: Schema) -> Schema:
        """Return `schema` with only `columns`, in the order of `schema`; unchanged if `columns` is None.

        Raise `WrongInput` for unknown columns, for no columns, and for data that are no table.
        """
        if self.columns is None:
            return schema
        if schema.form != "table":
            raise WrongInput(f"--use: expected a table with columns to use, got {schema.form} data")
        known = list(dict.fromkeys(column.name for column in (*schema.declared, *schema.used)))
        unknown = [name for name in self.columns if name not in schema.known_names]
        if unknown or not self.columns:
            more = f", ... ({len(known)} in all)" if len(known) > 8 else ""
            got = ", ".join(unknown) or "a selection without columns"
            single = any(name.startswith(f"{column} (") for name in unknown for column in known)
            way = "; single categories need the --schema with which they were selected" if single else ""
            raise WrongInput(f"--use: expected columns among {', '.join(known[:8])}{more}, got {got}{way}")
        return schema.keep(self.columns)

    def left_out(self, schema: Schema) -> tuple[str, ...]:
        """Return a tuple of one sentence, which columns are used and which are not; empty if `columns` is None."""
        if self.columns is None:
            return ()
        kept = {column.name for column in self.restricted(schema).declared}
        others = ", ".join(repr(column.name) for column in schema.declared if column.name not in kept)
        named = ", ".join(map(repr, self.columns))
        return (f"Columns: {named}, {self._selected_words}. Not used: {others or 'none'}.",)

    @property
    def _selected_words(self) -> str:
        """The words of a plan about the origin of `columns`: given, or selected by an earlier run, and at what cost."""
        if not self.selected:
            return "as given"
        epsilon, delta = self.selected.get("epsilon"), self.selected.get("delta")
        if epsilon is None or delta is None:
            return "as selected before without a guarantee, which is not part of the cost below"
        price = f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}"
        return f"as selected before with {price}, which is not part of the cost below"


def _described(settings: dict[str, Any]) -> dict[str, Any]:
    """Return `settings` with features as a list of tables; a setting in `TABLES` that is a name becomes a table.

    >>> _described({"schedule": "cosine", "norm": 1.0})
    {'schedule': {'name': 'cosine'}, 'norm': 1.0}
    """
    named = {name: {"name": settings[name]} for name in TABLES if isinstance(settings.get(name), str)}
    features = {"features": described_features(settings["features"])} if settings.get("features") else {}
    return settings | named | features


def chosen_columns(use: Any) -> tuple[str, ...] | None:
    """Return the names of columns in `use`: a result of `select`, its folder or file, or a list of names.

    Return None if `use` is None. A file is TOML (.toml) or JSON. Raise `WrongInput` for a file without columns.
    """
    if use is None:
        return None
    if isinstance(getattr(use, "columns", None), tuple):
        return tuple(use.columns)
    if isinstance(use, (str, Path)):
        table = _selection(use)
        columns = table.get("columns")
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise WrongInput(f"--use: expected the columns that `privaware select` wrote, got none in {Path(use).name}")
        return tuple(columns)
    return tuple(map(str, use))


def selection_cost(use: Any) -> dict[str, float | None]:
    """Return the `epsilon` and `delta` of a selection of columns; an empty dictionary if `use` does not state both.

    `use` is as for `chosen_columns`. A list of names states neither epsilon nor delta. Both values are None if the
    columns were selected with `--workflow standard`, that is without noise, because no guarantee covers such columns.
    """
    if isinstance(use, (str, Path)):
        table = _selection(use)
    elif isinstance(getattr(use, "columns", None), tuple):
        table = {**vars(use), "settings": {"workflow": "standard"} if use.sentence.startswith("NOT PRIVATE") else {}}
    else:
        return {}
    price = {name: table.get(name) for name in ("epsilon", "delta")}
    if not all(isinstance(part, (int, float)) and part >= 0 for part in price.values()):
        return {}
    settings = table.get("settings")
    standard = isinstance(settings, Mapping) and settings.get("workflow") == "standard"
    return dict.fromkeys(price) if standard else price


def _selection(use: str | Path) -> dict[str, Any]:
    """Return the entries of the selection in the file `use`, or in `selection.json` if `use` is a folder."""
    return _table(Path(use) / SELECTION if Path(use).is_dir() else Path(use))


def _table(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError:
        raise WrongInput(f"expected a file {str(path)!r:.200}, got none that can be read") from None
    except (ValueError, RecursionError) as problem:
        raise WrongInput(f"{path.name}: expected TOML (.toml) or JSON, got {problem!s:.120}") from None
    if not isinstance(table, dict):
        raise WrongInput(f"{path.name}: expected a JSON object with named entries, got a {type(table).__name__}")
    return table


def _toml(value: Any) -> str:
    """Return a plain value as TOML; entries of a mapping that are None are left out."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))} = {_toml(part)}" for key, part in value.items() if part is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


RENAMED = {"reach": "residual_clip", "rest": "bias_clip", "bend": "skew_correction"}
"""Settings of `additive` and `boosted`, which `auto` may take, by their former names."""

SHARE_OF_WAVES = 0.5
"""Setting `share` of `fourier` for an old plan of `boosted` with the former setting `waves`."""

OF_TREES = ("trees", "depth", "lr")
"""Settings of `boosted` that `fourier` does not have."""


def current_names(learner: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the learner and its settings under today's names: stored models, saved plans and scripts may have others.

    `boosted` with `waves` and without trees is now `fourier`. Settings of a mode that is gone raise `WrongInput`: trees
    and random Fourier features in one model, and the private test of pairs of columns.

    Parameters
    ----------
    learner
        The name of a learner.
    settings
        Its settings, perhaps under former names.

    Returns
    -------
    tuple
        The name of the learner, and its settings.

    >>> current_names("boosted", {"trees": 0, "waves": 64, "share": 0.4, "bend": 0.0})
    ('fourier', {'count': 64, 'share': 0.4, 'skew_correction': 0.0})
    >>> current_names("boosted", {"trees": 9, "pairs": 0.0})
    ('boosted', {'trees': 9})
    """
    if learner not in ("additive", "auto", "boosted"):
        return learner, dict(settings)
    current = {RENAMED.get(name, name): value for name, value in settings.items()}
    if learner == "auto":
        return learner, current
    if current.pop("pairs", 0):
        raise WrongInput(f"{learner}: expected no setting pairs, which privaware no longer has; leave it out")
    waves = current.pop("waves", 0)
    if not waves:
        return learner, current
    if learner == "additive" or current.get("trees") != 0:
        raise WrongInput(
            f"{learner}: expected no setting waves beside trees; take the learner fourier for random Fourier features, "
            "with count instead of waves"
        )
    kept = {name: value for name, value in current.items() if name not in OF_TREES}
    return "fourier", {"count": waves, "share": SHARE_OF_WAVES, **kept}
