"""Attack a released model or a mechanism.

An attack with canaries gives a lower bound on epsilon. A membership attack gives an AUC and true positive rates.
Neither gives a guarantee.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from privaware import accounting, registry, report
from privaware._files import atomic_write
from privaware._validate import typed_arguments
from privaware._version import __version__
from privaware.attacks._evidence import Evidence, evidence_of_canaries, evidence_of_runs
from privaware.attacks._many_run import deciding_pair, many_runs
from privaware.attacks._row_canaries import crafted_pair, crafted_rows
from privaware.card import ModelCard
from privaware.data import Data
from privaware.errors import WrongInput, for_caller, warn_caller
from privaware.events import NOTHING, Event
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.workflow._audit_runs import (
    SPACES,
    Audit,
    AuditSettings,
    MembershipGame,
    OneRun,
    search_vector,
    small_search,
)
from privaware.workflow._audited_training import AuditedTraining
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options
from privaware.workflow.run.output import sha256
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import schema_plan, search_plan, selection_plan
from privaware.workflow.run.training_plan import training_plan

__all__ = ["Audit", "audit"]

FILE = "audit.json"
"""Name of the file with the results."""

PAGE = "audit.html"
"""Name of the page that shows the results."""

DRY = "Nothing was charged: this was a dry run."
CRAFTED_ROWS_ONE_RUN = 500
"""Number of crafted rows in an audit of a model folder by one_run, but at most the declared number of rows."""
CRAFTED_ROWS_MANY_RUNS = 8
"""Number of crafted rows beside the canary row in an audit by many_run; an audit of a search has none."""

MAX_TRAININGS = 40
"""Largest number of trainings in an audit of a model folder by one_run, to reach the requested number of canaries."""

MIN_CANARIES_PER_TRAINING = 4
"""Smallest number of canaries that one training on crafted rows must have room for."""

EPSILON = 1.0
"""The epsilon of an audited mechanism by default."""


@shows_run_options
@typed_arguments
def audit(
    data: Any,
    *,
    attack: str = "one_run",
    learner: str = "auto",
    method: str | None = None,
    search: Any = None,
    space: Any = None,
    epsilon: float = EPSILON,
    settings: Mapping[str, Any] | None = None,
    insert: str = "gradient",
    canaries: int = 1000,
    runs: int = 300,
    shadows: int | None = None,
    shadow_training: str = "private",
    public: Any = None,
    device: str = "cpu",
    **run_options: Unpack[RunArguments],
) -> Audit:
    """Attack a released model or a mechanism, and compare the result with the claimed epsilon.

    Parameters
    ----------
    data
        A model folder, or data as for `fit`.
    attack
        "one_run", "many_run" or the name of a membership attack (`privaware list attacks`).
    learner, method
        With data: the learner to audit; or the selector to audit instead ("bounds" for the release of column bounds).
    search, space
        With data and "many_run": audit a search with this strategy, "rs", in this search space (`privaware list
        spaces`, a TOML file or a mapping) instead of a learner.
    epsilon
        With data: the epsilon of the audited mechanism.
    settings
        Hyper-parameters of the learner or settings of the selector.
    insert
        For "one_run": "gradient" inserts canaries into gradients and sums, "input" inserts them into the rows.
    canaries
        For "one_run": the number of canaries to insert; fewer if the mechanism has no room for this number. For a model
        folder, up to 40 trainings are run to reach this number.
    runs
        For "many_run": the number of runs with the canary row; as many are run without it.
    shadows, shadow_training
        For membership attacks: the number of shadow models (default: 16 for "lira", 4 for "rmia", 1 for "black_box" and
        "white_box", 0 for other attacks), and whether they are trained "private" or "without_privacy".
    public
        Public rows, for learners that need them.
    device
        "cpu" or "cuda".
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `kinds`, `unit`, `cap`, `not_persons`, `check_persons`, `header`, `sep`, `decimal`,
        `encoding`, `ledger`, `new_ledger`, `limit`, `dry_run`, `out`, `seed`, `sign`, `say` and `verbose`.
        `RunArguments` in `privaware.workflow.run.options` describes them.

    Returns
    -------
    Audit
        The lower bound on epsilon, its confidence, and whether the claim is refuted. A membership attack gives AUC and
        true positive rates instead.

    Notes
    -----
    A model folder and "many_run" are audited on synthetic rows, without private rows. "one_run" on data is charged with
    the cost of the mechanism. A membership attack is not charged. On private rows its result is for the data owner only
    and is never written; on built-in data, which are public, it may be written.

    Examples
    --------
    >>> plan = audit("wisconsin", learner="linear", epsilon=1.0, attack="one_run", dry_run=True)
    >>> plan.epsilon_claimed <= 1.0, plan.epsilon_lower is None
    (True, True)
    """
    search, space, insert = _named_alike(search, space, insert, run_options.get("say"))
    asked = AuditSettings(
        attack=attack,
        space=insert,
        canaries=canaries,
        runs=runs,
        shadows=shadows,
        shadow_training=shadow_training,
        device=device,
    )
    options = RunOptions.of(run_options, public=public, device=device)
    if isinstance(data, (str, Path)) and (Path(data) / "model.json").is_file():
        of_data = {
            "--learner": learner != "auto",
            "--method": method is not None,
            "--search": search is not None,
            "settings": bool(settings),
            "--public": public is not None,
        }
        if given := [name for name, differs in of_data.items() if differs]:
            raise WrongInput(f"expected no {given[0]} with a model folder, whose card says this; leave it out")
        if epsilon != EPSILON and options.say is not None:
            options.say(for_caller("--epsilon is not used: the claim of the model's card is tested."))
        return _audit_model(Path(data), asked, options)
    with charged_run("audit", data, options, learner=learner if method is None else "auto") as run:
        budget: dict[str, Any] = {"epsilon": epsilon, "delta": options.delta_for(run.schema)}
        if search is not None:
            if attack != "many_run" or method is not None:
                raise WrongInput("expected --search with --attack=many_run and without --method, got other options")
            plan = search_plan(
                run.schema,
                search=small_search(space, settings),
                model_epsilon=None,
                strategy="rs",
                settings=dict(settings or {}),
                **budget,
            )
        elif method == "bounds":
            plan = schema_plan(run.schema.bare(), **budget)
        elif method is not None:
            plan = selection_plan(run.schema, method=method, settings=settings, **budget)
        else:
            more: dict[str, Any] = {"public": run.source.public, "runtime": {"device": device}}
            plan = training_plan(run.schema, learner=learner, settings=settings, **budget, **more)
        if attack == "many_run":
            return _many_runs(run, plan, asked)
        if attack == "one_run":
            return _one_run(run, plan, asked)
        if method is not None:
            raise WrongInput(f"expected one_run or many_run for {method}, which releases no model, got {attack}")
        return _membership(run, plan, asked)


def _named_alike(search: Any, space: Any, insert: str, say: Callable[[str], None] | None) -> tuple[Any, Any, str]:
    """Return (search, space, insert), the options of `audit`, with earlier spellings replaced by those of today.

    Today `search` is a strategy, `space` is a search space, and `insert` is the place of the canaries ("gradient" or
    "input"). Earlier `search` was a search space, and `space` was the place of the canaries. A replaced spelling gives
    a notice to `say`; if `say` is None, the notice is a `DeprecationWarning`. Raise `WrongInput` for another strategy
    than "rs", or if only one of `search` and `space` is given.
    """
    notices = []
    if isinstance(space, str) and space in SPACES:
        notices.append(f"The setting --space={space} is called --insert={space} now.")
        space, insert = None, space
    if search is not None and not (isinstance(search, str) and search in registry.names("strategies")):
        notices.append("The setting --search names a strategy now; the search space is called --space.")
        search, space = "rs", search
    for sentence in notices:
        if say is None:
            warn_caller(sentence, DeprecationWarning)
        else:
            say(for_caller(sentence))
    if search not in (None, "rs"):
        raise WrongInput(f"expected --search=rs, the strategy that an audit can run, got {search}")
    if (search is None) != (space is None):
        raise WrongInput("expected --search and --space together, to audit a search, got one of them")
    return search, space, insert


def _many_runs(run: ChargedRun, plan: Plan, asked: AuditSettings) -> Audit:
    if run.options.folder is not None:
        raise WrongInput(
            "expected no --out with many_run: it reads no row and is charged nothing, so nothing is written"
        )
    return _on_crafted_rows(plan, plan.schema, asked, run.options, subject=plan.learner)


def _one_run(run: ChargedRun, plan: Plan, asked: AuditSettings) -> Audit:
    mechanism = OneRun(mechanism=plan.mechanism, settings=asked)
    mechanism.expect_possible(plan.schema, plan.noise)
    plan = replace(plan, mechanism=mechanism, settings={**plan.settings, "audit": asked.json()})
    charged = f"Charged to the ledger: the cost of {plan.learner}, because the attack used its release."
    if not run.charge(plan, what=f"audit {plan.learner} on {run.source.name} by one run"):
        return _result(plan, asked, Audit.found_in(run.result), run=run, charged=charged if run.result else DRY)
    evidence = evidence_of_canaries(run.execute(), plan.event, plan.delta, gradients=asked.space == "gradient")
    result = _result(plan, asked, evidence.to_json(), run=run, charged=charged)
    run.publish_result(FILE, result.json())
    return result


def _membership(run: ChargedRun, plan: Plan, asked: AuditSettings) -> Audit:
    private = not run.source.builtin
    if private and run.options.folder is not None:
        raise WrongInput(
            f"expected no --out with {asked.attack} on private rows: its numbers are for their owner only and are "
            "never written; leave it out"
        )
    game = MembershipGame(mechanism=plan.mechanism, settings=asked)
    game.expect_possible(plan.schema)
    quarter = replace(plan, schema=replace(plan.schema, rows=max(plan.schema.rows // 4, 1)))
    noise = accounting.calibrate(lambda noise: quarter.at(noise).event, plan.epsilon, plan.delta)
    free = replace(
        plan,
        mechanism=game,
        noise=noise,
        reasons=(*plan.reasons, f"the attacked model trains on a quarter of the rows, noise multiplier {noise:.4g}"),
        parts=((f"{asked.attack} among the rows, for their owner only", NOTHING),),
        settings={**plan.settings, "audit": asked.json()},
    )
    charged = "Nothing was charged: the rows are a public benchmark."
    if private:
        charged = (
            "Nothing was charged, because the numbers are for the data owner only (internal). Do not publish them."
        )
    if not run.charge(free, what=f"attack {plan.learner} on {run.source.name} by {asked.attack}, for the owner only"):
        found = Audit.found_in(run.result)
        return _result(plan, asked, found, run=run, charged=charged if run.result else DRY, free=True)
    found = run.execute().to_json()
    result = _result(plan, asked, found, run=run, charged=charged, free=True)
    result = replace(result, owner_only=private, certified=result.certified and not private)
    run.publish_result(FILE, {**result.json(), "plan": free.sentences})
    return result


def _result(
    plan: Plan, asked: AuditSettings, found: Mapping[str, Any], *, run: ChargedRun, charged: str, free: bool = False
) -> Audit:
    return Audit(
        subject=plan.learner,
        settings=asked.json(),
        found=found,
        epsilon_claimed=plan.epsilon,
        delta=plan.delta,
        epsilon=0.0 if free else plan.epsilon,
        charged=charged,
        plan=[*map(for_caller, plan.sentences)],
        certified=run.certified,
        seconds=run.seconds,
        out=run.out,
    )


def _audit_model(folder: Path, asked: AuditSettings, options: RunOptions) -> Audit:
    """Audit the mechanism that a model card describes on synthetic rows, and write the result into the model folder.

    `folder` is the model folder, and `asked` are the settings of the attack. The claim that is tested is the epsilon of
    all events on the card. A dry run neither attacks nor writes. Raise `WrongInput` for an attack without canaries, and
    if an output folder is given.
    """
    card = ModelCard.read(folder)
    if not asked.of_canaries:
        raise WrongInput(
            f"expected --attack as one_run or many_run for a model folder, got {asked.attack}: a membership attack "
            f"needs the training rows; run `privaware audit DATA --learner NAME --attack {asked.attack}`"
        )
    if options.out is not None:
        raise WrongInput(f"expected no --out with a model folder: the audit is written into it as {FILE}")
    training = AuditedTraining.of(card)
    plan = training_plan(
        card.schema,
        epsilon=training.epsilon,
        delta=card.guarantee.delta,
        learner=training.learner,
        settings=training.settings,
        public=crafted_rows(card.schema, CRAFTED_ROWS_ONE_RUN, Rng(seed=0)),
        runtime={"device": asked.device},
    )
    plan = replace(plan, reasons=(*plan.reasons, *training.notes))
    claim = sum((priced.event for priced in card.events), start=NOTHING)
    result = _on_crafted_rows(plan, card.schema, asked, options, subject=str(folder), claim=claim)
    if options.dry_run:
        return result
    return _stored(folder, card, result, options)


def _on_crafted_rows(
    plan: Plan, schema: Schema, asked: AuditSettings, options: RunOptions, *, subject: str, claim: Event | None = None
) -> Audit:
    """Audit the mechanism of `plan` on synthetic rows that fit `schema`, without private rows and without a charge.

    `asked` are the settings of the attack, and `subject` names the audited learner or model folder in the result.
    `claim` is the event whose epsilon is tested. Default: the event of `plan`. A dry run returns no numbers of an
    attack.
    """
    rng, began = Rng(options.seed), time.perf_counter()
    result = Audit(
        subject=subject,
        settings=asked.json(),
        found={},
        epsilon_claimed=plan.epsilon,
        delta=plan.delta,
        epsilon=0.0,
        charged="Nothing was charged: the attack used synthetic rows and no private row.",
        plan=[*map(for_caller, plan.sentences)],
        certified=options.seed is None,
    )
    if options.dry_run:
        return result
    evidence = _evidence(plan, schema, asked, options, rng, claim=plan.event if claim is None else claim)
    return replace(
        result, found=evidence.to_json(), epsilon_claimed=evidence.epsilon_claimed, seconds=time.perf_counter() - began
    )


def _evidence(
    plan: Plan, schema: Schema, asked: AuditSettings, options: RunOptions, rng: Rng, *, claim: Event
) -> Evidence:
    if asked.attack == "one_run":
        audited = OneRun(mechanism=plan.mechanism, settings=asked)
        audited.expect_possible(schema, plan.noise, least=MIN_CANARIES_PER_TRAINING)
        rows = crafted_rows(schema, min(schema.rows, CRAFTED_ROWS_ONE_RUN), rng)
        canaries = audited.run(rows, plan.noise, rng)
        for _ in range(MAX_TRAININGS - 1):  # small arrays have room for few canaries, and crafted rows cost nothing
            if len(canaries) >= asked.canaries:
                break
            canaries = canaries.and_those(audited.run(rows, plan.noise, rng))
        return evidence_of_canaries(canaries, claim, plan.delta, gradients=asked.space == "gradient")
    rows, canary = _neighbours(plan, schema, rng)
    vector = search_vector if isinstance(plan.mechanism, Search) else None
    scores = many_runs(
        plan.mechanism, rows, canary, plan.noise, runs=asked.runs, rng=rng, say=options.say, vector=vector
    )
    return evidence_of_runs(*scores, claim, plan.delta)


def _neighbours(plan: Plan, schema: Schema, rng: Rng) -> tuple[Data, Data]:
    """Return synthetic rows, and the canary: one further row, which is made to change the release of `plan`.

    For a selection of columns, the canary is made to change which columns are selected. For a search there are no rows
    beside the canary: a search scores few rows, so other rows would hide the canary.
    """
    if getattr(plan.mechanism, "releases", "") == "columns":
        return deciding_pair(plan.mechanism, schema, CRAFTED_ROWS_MANY_RUNS, plan.noise, rng)
    return crafted_pair(schema, 0 if isinstance(plan.mechanism, Search) else CRAFTED_ROWS_MANY_RUNS, rng)


def _stored(folder: Path, card: ModelCard, result: Audit, options: RunOptions) -> Audit:
    """Write the audit and its page into the model folder, and return `result` with the path of the audit.

    If the card names its run and there is a ledger (`--ledger`, or `run.ledger` in `folder`), record the hashes of both
    files there. Otherwise tell the listener (if any) that they are not recorded.
    """
    record = {"format": 1, "version": __version__, **result.json()}
    path = folder / FILE
    result = replace(result, out=str(path))
    atomic_write(path, json.dumps({**record, "out": FILE}, indent=1, allow_nan=False).encode())
    page = report.page(card, report.read_audit(folder), report.released_tensors(folder, card))
    atomic_write(folder / PAGE, page.encode())
    ledger = options.ledger_path or folder / "run.ledger"
    if card.ledger.run is not None and ledger.is_file():
        files = {name: sha256(folder / name) for name in (FILE, PAGE)}
        Ledger.open(ledger).record_audit(card.ledger.run, files=files, what=f"audit by {result.settings['attack']}")
    elif options.say is not None:
        advice = for_caller("Pass the ledger of the model with --ledger, so that `privaware verify` can check it.")
        options.say(f"{FILE} is not recorded in a ledger. {advice}")
    return result
