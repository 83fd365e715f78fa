"""The policy of `auto`: an ordered list of rules in a TOML file.

`auto` takes the first rule that matches the public facts, whose network is installed and whose cost is within limits.

>>> from privaware.datasets import schema
>>> choose(schema("wisconsin"), epsilon=1.0).rule
'table'
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from privaware._validate import expect_nonnegative, suggestion
from privaware.data._parts import threads
from privaware.errors import WrongInput
from privaware.learners import find_learner
from privaware.registry import names
from privaware.schema import Schema
from privaware.workflow.auto._choice import BESIDE, Choice, beside_columns, constant_learner, reads_texts
from privaware.workflow.auto._considered import considered, unmet
from privaware.workflow.auto._evidence import benchmark_sentence, wins
from privaware.workflow.auto._facts import FACTS, NETWORKS, QUANTITIES, expect_condition, facts_of, holds, resolved
from privaware.workflow.auto._floor import Floor

CONSTANT = "constant"
"""The name that stands for the constant prediction of the task: majority, mean or median."""
RELEASES = ("bins", "target_range")
"""What may be released before the learner: bins of numbers with declared bounds, and the range of a numeric target."""
SPENDS = {
    "centre": "of the budget estimates the mean of the features, which is subtracted.",
    "weigh": "of the budget weights each network by how well it separates the classes.",
}
"""Settings of `linear` that are fractions of the budget, with the end of their sentence in the plan."""
MULTIPLICATION = 2e-10
"""Seconds for one multiplication of the gradient of a linear head on two cores."""
CORES = 2
"""Number of processor cores on which the costs of the policy were measured."""
SLOWER = 4
"""Factor by which features and training may take longer than measured, on a busy or slower machine."""
GPU_SECONDS = 2e-4
"""Seconds for the features of one row on a GPU, where a rule does not say."""
EARLIER = "its conditions hold, but an earlier rule was taken"
"""The reason why a rule after the first that matches was not taken."""
STEPS = 100
"""Steps of a linear head, where a rule does not say."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest time in seconds and the largest memory for features in bytes that a rule may take.

    `memory` is the limit on a CPU, and `gpu_memory` the limit on a GPU. `--time-limit` replaces `seconds`.
    """

    seconds: float = math.inf
    memory: float = math.inf
    gpu_memory: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: if the facts meet `when`, and its cost is within the limits, `use` is what is trained.

    `use` has a `learner`, its `settings`, and the releases `before` it. `why` is the reason that the plan states.
    `cost` has the `seconds` for the features of one row on two cores, `gpu_seconds` on a GPU, the `width` of a row of
    features, and `sizes`: for each side in pixels to which images may be enlarged, the further seconds for one row. A
    rule without `cost` is within every limit. `candidate` is the name of the rule in the benchmarks, and `evidence` its
    page of results.
    """

    name: str
    when: Mapping[str, Any]
    use: Mapping[str, Any]
    why: str
    cost: Mapping[str, Any] = field(default_factory=dict)
    candidate: str = ""
    evidence: str = ""

    def variants(self) -> Iterator[tuple[Rule, dict[str, int]]]:
        """Yield the rule for each image size that it names, the largest first; then the rule itself without a size.

        Beside the rule is {"size": SIZE}, or {} without a size. The seconds of a size are added to the seconds in
        `cost`.
        """
        sizes = self.cost.get("sizes", {})
        for size in sorted(sizes, key=int, reverse=True):
            seconds = self.cost["seconds"] + sizes[size]
            yield replace(self, cost={**self.cost, "seconds": seconds}), {"size": int(size)}
        yield self, {}

    def is_for_kind(self, facts: Mapping[str, Any]) -> bool:
        """Whether the conditions of the rule on `form` and `channels`, if it has any, are equal to these `facts`."""
        return all(self.when.get(fact, facts[fact]) == facts[fact] for fact in ("form", "channels"))

    def matches(self, facts: Mapping[str, Any]) -> bool:
        """Return whether `facts` meet all conditions of `when`, except the condition on `installed`.

        `choose` checks `installed` separately, because the plan names a network that is not installed.
        """
        return all(holds(condition, facts[fact]) for fact, condition in self.when.items() if fact != "installed")

    def seconds(self, facts: Mapping[str, Any]) -> float:
        """Return about how many seconds features and training take on `CORES` cores; on a GPU, features only.

        `facts` are the values of `FACTS`, which give the number of rows and classes and the device.
        """
        if facts["device"] != "cpu":
            return float(facts["rows"] * self.cost.get("gpu_seconds", GPU_SECONDS))
        steps = self.use.get("settings", {}).get("steps", STEPS)
        head = self.cost.get("width", 0) * max(facts["classes"], 1) * steps * MULTIPLICATION
        return float(facts["rows"] * (self.cost.get("seconds", 0.0) + head))

    def obstacle(self, facts: Mapping[str, Any], limits: Limits, seconds: float) -> str:
        """Return why the rule cannot be taken for `facts`; an empty text if it can.

        The conditions of `when` must hold, the features fit into memory, and the network be installed. `seconds` is the
        time limit; `limits.seconds` is not used.
        """
        for fact, condition in self.when.items():
            if fact != "installed" and not holds(condition, facts[fact]):
                return unmet(fact, condition, facts[fact])
        if not self.fits_memory(facts, limits):
            return "its features do not fit into the memory that the policy allows"
        if self.when.get("installed", "") not in {"", *facts["installed"]}:
            return f"the network {NETWORKS[self.when['installed']].module.NETWORK} is not installed"
        if self.cost and self.seconds(facts) > seconds:
            return f"it takes about {_duration(self.seconds(facts))}, and the limit is {_duration(seconds)}"
        return ""

    def fits_memory(self, facts: Mapping[str, Any], limits: Limits) -> bool:
        """Whether the features of all rows, 4 bytes a number, fit into the memory that `limits` give to the device.

        `facts` are the values of `FACTS`, which give the number of rows and the device. A rule without a `width` fits.
        """
        size = 4 * facts["rows"] * self.cost.get("width", 0)
        return bool(size <= (limits.memory if facts["device"] == "cpu" else limits.gpu_memory))


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A name, the rules in their order, the floor below which a constant is trained, and the limits of time and memory.

    `label` is the name with a digest of the content, which plans and models record.
    """

    name: str
    rules: tuple[Rule, ...]
    floor: Floor
    limits: Limits
    label: str

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any] | None) -> Policy:
        """Return the policy in `source`, a TOML file or a mapping; the default policy if `source` is None.

        A missing table `floor` or `limits` is taken from the default policy. Raise `WrongInput` for a wrong entry, and
        for a file that cannot be read.
        """
        if source is None:
            return default_policy()
        if isinstance(source, Mapping):
            return _policy(source, str(source.get("name", "policy")))
        path = Path(source)
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise WrongInput(f"--policy: expected a file {str(path)!r:.200}, got none that can be read") from None
        except (ValueError, RecursionError) as problem:
            raise WrongInput(f"--policy: expected TOML in {path.name}, got {problem!s:.120}") from None
        return _policy(table, path.stem)


@cache
def default_policy() -> Policy:
    """Return the policy of the package: `policy.toml` beside this file."""
    text = files("privaware.workflow.auto").joinpath("policy.toml").read_text(encoding="utf-8")
    return _policy(tomllib.loads(text), "default")


def _policy(table: Mapping[str, Any], name: str) -> Policy:
    name = str(table.get("name", name))
    _expect_keys(f"policy {name!r:.60}", table, ("name", "rule", "floor", "limits"))
    listed = table.get("rule")
    if not isinstance(listed, list) or not listed:
        raise WrongInput(f"policy {name!r:.60}: expected rules as [[rule]] tables, got none")
    rules = tuple(_rule(number, each) for number, each in enumerate(listed, start=1))
    parts: dict[str, Any] = {}
    for key, kind in (("floor", Floor), ("limits", Limits)):
        given = table.get(key, {})
        _expect_keys(key, given, [item.name for item in fields(kind)])
        _expect_numbers(key, {**given, **given.get("checked", {}), "checked": 0})
        parts[key] = kind(**given) if key in table else getattr(default_policy(), key)
    digest = hashlib.sha256(json.dumps(table, sort_keys=True, default=str).encode()).hexdigest()
    return Policy(name=name, rules=rules, label=f"{name} {digest[:12]}", **parts)


def _rule(number: int, table: Any) -> Rule:
    title = f"rule {table.get('name', number)!r:.60}" if isinstance(table, Mapping) else f"rule {number}"
    known = [item.name for item in fields(Rule)]
    _expect_keys(title, table, known)
    for key, kind in (("name", str), ("use", Mapping), ("why", str)):
        if not isinstance(table.get(key), kind):
            expected = "a text" if kind is str else "a table"
            raise WrongInput(f"{title}: expected {key!r} as {expected}, got {table.get(key)!r:.60}")
    rule = Rule(**{"when": {}, **table})
    _expect_keys(f"{title}: when", rule.when, FACTS)
    for fact, condition in rule.when.items():
        expect_condition(rule.name, fact, condition)
    _expect_keys(f"{title}: cost", rule.cost, ("seconds", "gpu_seconds", "width", "sizes"))
    _expect_numbers(f"{title}: cost", {**rule.cost, **rule.cost.get("sizes", {}), "sizes": 0})
    _expect_use(title, rule.use)
    return rule


def _expect_use(title: str, use: Mapping[str, Any]) -> None:
    """Raise `WrongInput` if `use` names an unknown learner, setting, release or quantity.

    `title` starts the message.
    """
    _expect_keys(f"{title}: use", use, ("learner", "settings", "before"))
    learner, settings = use.get("learner"), use.get("settings", {})
    if learner not in (CONSTANT, *names("learners")):
        raise WrongInput(f"{title}: no learner is called {learner!r:.60}; {suggestion(learner, names('learners'))}")
    make: Any = None if learner == CONSTANT else find_learner(str(learner))
    known = [] if make is None else [item.name for item in fields(make)]
    _expect_keys(f"{title}: settings of {learner}", settings, known)
    if unknown := [each for each in use.get("before", ()) if each not in RELEASES]:
        raise WrongInput(f"{title}: no release is called {unknown[0]!r:.60}; {suggestion(unknown[0], RELEASES)}")
    try:
        resolved(settings, dict.fromkeys(FACTS, 1))
    except KeyError as missing:
        name = missing.args[0]
        raise WrongInput(f"{title}: no quantity is called '${name:.60}'; {suggestion(name, QUANTITIES)}") from None


def _expect_numbers(where: str, table: Mapping[str, Any]) -> None:
    expect_nonnegative(where, **{str(name): value for name, value in table.items()})


def _expect_keys(where: str, table: Any, known: Any) -> None:
    if not isinstance(table, Mapping):
        raise WrongInput(f"{where}: expected a table, got {table!r:.60}")
    if unknown := [key for key in table if key not in known]:
        raise WrongInput(f"{where} has no {unknown[0]!r:.60}; {suggestion(unknown[0], known)}")


def choose(
    schema: Schema,
    epsilon: float,
    *,
    device: str = "cpu",
    time_limit: float | None = None,
    metric: str | None = None,
    policy: Policy | None = None,
) -> Choice:
    """Return the choice of the first rule that matches, whose network is installed and whose cost is within the limits.

    `time_limit` replaces the seconds in the limits, and `metric` decides which constant prediction is meant. `policy`
    None means the default policy. A rule with image sizes is tried with each size, the largest first, and then without
    a size. `policy.floor` is not applied here. The sentences `details` of the choice also name the first earlier rule
    that only lacked a network, and the first that only lacked time. Raise `WrongInput` if no rule can be taken.
    """
    policy = policy or default_policy()
    facts = facts_of(schema, epsilon, device)
    limit = policy.limits.seconds if time_limit is None else time_limit
    absent = slower = None
    for rule, size in (variant for each in policy.rules for variant in each.variants()):
        if not rule.matches(facts) or not rule.fits_memory(facts, policy.limits):
            continue
        in_time = not rule.cost or rule.seconds(facts) <= limit
        if rule.when.get("installed", "") not in {"", *facts["installed"]}:
            absent = absent or (rule if in_time else None)
        elif not in_time:
            slower = slower or rule
        else:
            learner = _learner(rule, schema, metric)
            choice = _choice(rule, learner, facts | size, _better(absent, slower, facts))
            choice = _mixed(choice, images=schema.has_images) if schema.has_whole_columns else choice
            named = [(each, _learner(each, schema, metric)) for each in policy.rules if each.is_for_kind(facts)]
            return replace(choice, considered=_considered(named, rule.name, facts, policy.limits, limit))
    shown = ", ".join(f"{name} {facts[name]}" for name in ("form", "task", "rows", "epsilon", "classes", "columns"))
    raise WrongInput(f"policy {policy.name!r:.60}: no rule matches ({shown}); add a last rule without `when`")


def choose_with_texts(schema: Schema, epsilon: float, **options: Any) -> Choice:
    """Return the choice for a schema whose free texts may be read whole; `options` are those of `choose`.

    If the choice for whole texts reads them (`reads_texts`), it is returned. Otherwise the choice is for the schema as
    it is: each text of a table is hashed to a few buckets, and the rules for tables choose.
    """
    choice = choose(schema.with_whole_texts(), epsilon, **options)
    return choice if schema.form != "table" or reads_texts(choice.settings) else choose(schema, epsilon, **options)


def _mixed(choice: Choice, *, images: bool) -> Choice:
    """Return `choice`, which a rule for texts or images made for a table, so that the other columns are used, too.

    If the features of `choice` read the texts (the images, if `images`), they are wrapped in the feature `mixed`, a
    sentence about the other columns is added to the first reason, and "bins" is added to the releases. Otherwise
    `choice` is returned unchanged.
    """
    settings = beside_columns(choice.settings, images=images)
    if not reads_texts(settings):
        return choice
    first, *others = choice.reasons
    beside = BESIDE.format(whole="images" if images else "texts")
    return replace(
        choice, settings=settings, reasons=(f"{first} {beside}", *others), releases=(*choice.releases, "bins")
    )


def _learner(rule: Rule, schema: Schema, metric: str | None) -> str:
    """Return the learner of a rule; for the constant prediction, the learner of the task and the metric."""
    named = str(rule.use["learner"])
    return constant_learner(schema, metric) if named == CONSTANT else named


def _considered(
    rules: list[tuple[Rule, str]], taken: str, facts: Mapping[str, Any], limits: Limits, seconds: float
) -> tuple[dict[str, Any], ...]:
    """Return a row for each pair (rule, learner) of `rules`: whether and why it was taken for `facts`.

    `taken` is the name of the rule that was taken, and `seconds` is the time limit.
    """
    rows = []
    for rule, learner in rules:
        why = rule.why.replace("{learner}", learner)
        reason = why if rule.name == taken else rule.obstacle(facts, limits, seconds) or EARLIER
        best, runs = wins(rule.candidate, facts)
        if runs:
            counted = f"it was best or within one point of the best in {best} of {runs}"
            reason = f"{reason.removesuffix('.')}. In benchmarks of similar size and budget {counted}"
        rows.append(considered(learner, reason, taken=rule.name == taken, rule=rule.name))
    return tuple(rows)


def _choice(rule: Rule, learner: str, facts: Mapping[str, Any], better: list[str]) -> Choice:
    """Return the choice of `rule` with `learner`, its settings for `facts`, and the sentences of the plan.

    `better` are sentences about rules passed over.
    """
    settings = resolved(rule.use.get("settings", {}), facts)
    reasons = [rule.why.replace("{learner}", learner)]
    if (network := rule.when.get("installed")) is not None:
        reasons.append(NETWORKS[network].warning)
    details = [*([benchmark_sentence(rule.candidate, facts)] if rule.candidate else []), *better]
    if rule.cost:
        details.append(_time_sentence(rule.seconds(facts), facts["device"]))
    details += [f"{settings[name]:.0%} {end}" for name, end in SPENDS.items() if isinstance(settings.get(name), float)]
    return Choice(
        learner=learner,
        settings=settings,
        reasons=tuple(reasons),
        details=tuple(details),
        releases=tuple(rule.use.get("before", ())),
        rule=rule.name,
        evidence=rule.evidence,
    )


def _better(absent: Rule | None, slower: Rule | None, facts: Mapping[str, Any]) -> list[str]:
    """Return a sentence about `absent`, the first rule that lacked only a network, and one about `slower`.

    `slower` is the first rule that lacked only time; `facts` give its running time. None gives no sentence.
    """
    sentences = []
    if absent is not None:
        module = NETWORKS[absent.when["installed"]].module
        sentences.append(
            f"More accurate: the network {module.NETWORK}, which is not installed. To install it: `{module.INSTALL}`"
        )
    if slower is not None:
        longer = _duration(slower.seconds(facts))
        sentences.append(f"More accurate: rule {slower.name!r}, which takes about {longer}; see --time-limit.")
    return sentences


def _time_sentence(seconds: float, device: str) -> str:
    """Return a sentence on how long features and training take; `seconds` is the result of `Rule.seconds`.

    `device` is "cpu" or any other word for a GPU, on which the time is for the features only. With fewer cores than
    `CORES`, the time on a CPU is longer in proportion.

    >>> _time_sentence(10.0, "gpu")
    'The features take about 10 s, without the training.'
    """
    if device != "cpu":
        return f"The features take about {_duration(seconds)}, without the training."
    cores = min(threads(), CORES)
    soon = seconds * CORES / cores
    many = f"{cores} processor core{'s' if cores > 1 else ''}"
    usual, longest = _duration(soon), _duration(SLOWER * soon)
    if usual == longest:
        return f"Features and training take about {usual} on {many}."
    return (
        f"Features and training take about {usual} to {longest} on {many}; the longer time is for a busy or slower "
        "machine."
    )


def _duration(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
