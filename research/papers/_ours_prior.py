"""The prior: pretraining on synthetic images and distillation, private linear heads, private fine-tuning.

Pretraining and distillation read no data set, so features have no privacy cost (data-independent).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.bench import Result, Settings
from privaware.bench._shown import spread
from privaware.noise import Rng
from research.papers._resumed import train_resumed
from research.papers._runner import Bench

if TYPE_CHECKING:
    from privaware.data import Data

__all__ = ["distil", "feature_heads", "finetune", "glyphs", "heads", "pretrain", "views"]

HELD_OUT_CHUNK = 1_000_000
"""Number of the first chunk of images behind the statistics: pretraining never reaches it."""


def heads(bench: Bench, cells: Sequence[Settings]) -> Iterator[Result]:
    """Private linear heads, the default learner for named features; rows of one feature are computed once.

    Digits are not averaged with their mirror images.
    """
    from privaware.features.prior import Prior
    from privaware.learners.linear import Linear

    for (data, scatter), group in itertools.groupby(cells, key=lambda cell: (cell["data"], cell["scatter"])):
        listed = list(group)
        train, test = None, None
        if not bench.dry:
            prior = Prior(scatter=scatter, mirror=data != "mnist")
            train, test = feature_rows(data, prior, listed[0].get("first"))
        for cell in listed:
            learner = Linear(features=[{"name": "bounded"}], steps=cell["steps"], device=bench.device)
            noise = bench.prices.calibrated(
                f"head {cell['steps']} {cell['epsilon']:g}", partial(_head_cost, cell["steps"]), cell["epsilon"]
            )
            if train is None or test is None:
                yield {}
                continue
            models = (learner.run(train, noise, Rng(seed=seed)) for seed in range(cell["seeds"]))
            scores = [float((model.predictions(test) == test.y).mean()) for model in models]
            mean, deviation = spread(scores)
            yield {"score": mean, "spread": deviation, "scores": scores}


def _head_cost(steps: int, noise: float) -> Any:
    from privaware.events import Gaussian

    return steps * Gaussian(noise=noise)


def feature_rows(data: str, feature: Callable[[Any], Any], first: int | None = None) -> tuple[Data, Data]:
    """Rows of a feature in place of the pixels of training and test rows."""
    from privaware import datasets

    loaded, parts = datasets.load(data), []
    for part in (loaded.train, loaded.test):
        rows = feature(part.x[:first])
        schema = replace(part.schema, shape=(1, 1, rows.shape[1]), rows=len(rows))
        parts.append(replace(part, schema=schema, x=rows[:, None, None], y=part.y[:first]))
    return parts[0], parts[1]


def finetune(bench: Bench, settings: Settings) -> Result:
    """The learner `finetune` on CIFAR-10: its test score, and the seconds of a run."""
    from privaware import datasets
    from privaware.learners.finetune import Finetune

    epsilon, first, chosen = settings["epsilon"], settings.get("first"), dict(settings.get("learner", {}))
    learner = Finetune(precision="float32" if bench.device == "cpu" else "bf16", device=bench.device, **chosen)
    schema = datasets.schema("cifar10")
    words = " ".join(f"{name}={value}" for name, value in sorted(chosen.items()))
    noise = bench.prices.calibrated(f"finetune {epsilon:g} {words}".strip(), partial(learner.cost, schema), epsilon)
    if bench.dry:
        return {}
    loaded = datasets.load("cifar10")
    train, test = (replace(part, x=part.x[:first], y=part.y[:first]) for part in (loaded.train, loaded.test))
    began = time.perf_counter()
    model = learner.run(train, noise, Rng(seed=settings["seed"]))
    seconds = time.perf_counter() - began
    decided = model.decide(model.outputs(test.x, bench.device))
    return {"score": float((decided == test.y).mean()), "noise": noise, "seconds": seconds}


def pretrain(bench: Bench, settings: Settings) -> Result:
    """The prior's weights: `pairs` pairs of views on one cosine schedule, resumed from a checkpoint every 200 steps.

    Writes prior.safetensors (weights and statistics) and prior.json beside the store. The schedule goes by count: the
    same settings give the same weights on the same kind of machine.
    """
    from privaware.features.prior import Prior
    from research.pretraining.simclr import ImageRecipe, Pretraining

    chosen = {name: value for name, value in settings.items() if name not in ("pairs", "statistics")}
    training = Pretraining(ImageRecipe(**chosen), bench.device, "default" if bench.device.startswith("cuda") else "")
    file, steps = (bench.out or Path()) / "prior.safetensors", math.ceil(settings["pairs"] / training.recipe.batch)
    loss = train_resumed(training, steps, file, bench)
    digest = _write_prior("weights", training, Prior(), settings, bench, file)
    return {"steps": training.step_number, "loss": loss, "sha256": digest}


def glyphs(bench: Bench, settings: Settings) -> Result:
    """The prior's network for glyphs: `steps` steps of contrastive learning from drawings of random strokes.

    Writes prior_glyphs.safetensors and prior_glyphs.json beside the store, and resumes as pretraining does.
    """
    from privaware.features.prior import Prior
    from research.pretraining.simclr import GlyphPretraining, GlyphRecipe

    chosen = {name: value for name, value in settings.items() if name not in ("steps", "statistics")}
    training = GlyphPretraining(
        GlyphRecipe(**chosen), bench.device, "default" if bench.device.startswith("cuda") else ""
    )
    file = (bench.out or Path()) / "prior_glyphs.safetensors"
    loss = train_resumed(training, settings["steps"], file, bench)
    maps = Prior(network="glyphs", depths=(0, 1, 2), pools=(4, 4, 2))
    digest = _write_prior("glyphs", training, maps, settings, bench, file)
    return {"steps": training.step_number, "loss": loss, "sha256": digest}


def distil(bench: Bench, settings: Settings) -> Result:
    """The small prior: a narrow network learns to predict the large one's features, in `steps` steps.

    Writes prior_small.safetensors and prior_small.json beside the store, and resumes as pretraining does.
    """
    from privaware.features._prior.student import StudentShape
    from privaware.features.prior import Prior
    from research.pretraining.distillation import Distillation, DistillationRecipe, folded
    from research.pretraining.weights_files import save_student

    chosen = {name: value for name, value in settings.items() if name not in ("steps", "shape")}
    recipe = DistillationRecipe(**chosen, shape=StudentShape(**settings.get("shape", {})))
    teacher = Prior()
    training = Distillation(recipe, teacher.network_features(bench.device), bench.device)
    file = (bench.out or Path()) / "prior_small.safetensors"
    loss = train_resumed(training, settings["steps"], file, bench)
    teacher_digest = hashlib.sha256(Path(teacher.file).read_bytes()).hexdigest()
    facts = _facts("small", recipe, training.step_number, settings, bench) | {"teacher": teacher_digest}
    save_student(file, folded(training.student), facts)
    return {"steps": training.step_number, "loss": loss, "sha256": _write_note(file, facts, recipe)}


def views(bench: Bench, settings: Settings) -> Result:
    """Statistics and dictionary of the feature `prior_views`, from synthetic images and the prior's network.

    Writes prior_views.safetensors and prior_views.json beside the store.
    """
    import torch

    from privaware.bench._store import commit, machine
    from privaware.features._prior.maps import preprocess
    from privaware.features._prior.weights import load
    from privaware.features.prior import Prior
    from research.pretraining.images import SyntheticImages
    from research.pretraining.prior_views import measure_views
    from research.pretraining.weights_files import save_views

    prior = Prior(weights=settings.get("weights"))
    weights = load(prior.file, bench.device)
    chunks = {name: settings[name] for name in ("size", "generators", "each") if name in settings}
    source, rows = SyntheticImages(seed=settings["seed"], **chunks), settings["images"]

    def batches() -> Iterator[Any]:
        images = source.generate(rows, bench.device, HELD_OUT_CHUNK)
        return (preprocess(part.float() / 255) for part in images.split(256))

    depths, pools = weights.statistics.depths, weights.statistics.pools
    measured = measure_views(
        weights.network,
        batches,
        depths=depths,
        pools=pools,
        depth=depths[len(depths) // 2 - 1],
        entries=settings["entries"],
        seed=settings["seed"],
    )
    file = (bench.out or Path()) / "prior_views.safetensors"
    facts = {
        "command": f"privaware reproduce ours/prior/views, {dict(settings)}",
        "seed": str(settings["seed"]),
        "commit": commit(),
        "network": hashlib.sha256(Path(prior.file).read_bytes()).hexdigest(),
        "machine": machine(bench.device),
        "torch": torch.__version__,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    save_views(file, measured, facts)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    file.with_suffix(".json").write_text(json.dumps({**facts, "sha256": digest}, indent=2) + "\n")
    return {"entries": len(measured.dictionary.entries), "sha256": digest}


def feature_heads(bench: Bench, cells: Sequence[Settings]) -> Iterator[Result]:
    """Private linear heads on `feature` (`prior_views` if none is named): test scores, and seconds of a head.

    Rows are computed once for the cells of one data set and feature.
    """
    from privaware import features
    from privaware.learners.linear import Linear

    for (data, described), group in itertools.groupby(cells, key=lambda cell: (cell["data"], cell.get("feature"))):
        split: tuple[Data, Data] | None = None
        rows: Any = None
        for cell in group:
            centre, steps, epsilon = cell["centre"], cell["steps"], cell["epsilon"]
            noise = bench.prices.calibrated(f"head {steps} {epsilon:g}", partial(_head_cost, steps), epsilon)
            noise /= math.sqrt(1 - centre)  # the mean of the rows takes that part of the same Gaussian budget
            if bench.dry:
                yield {}
                continue
            learner = Linear(features=[], steps=steps, norm=cell["norm"], centre=centre, device=bench.device)
            if split is None:
                feature = features.build(described or {"name": "prior_views", "mirror": data not in ("mnist", "svhn")})
                split = feature_rows(data, feature, cell.get("first"))
                rows = learner.rows_for(split[0])
            began = time.perf_counter()
            shared = rows if not centre else rows.copy() if bench.device == "cpu" else rows.clone()
            model = learner.run_on(shared, split[0], noise, Rng(seed=cell["seed"]))
            seconds = time.perf_counter() - began
            yield {"score": float((model.predictions(split[1]) == split[1].y).mean()), "seconds": seconds}


def _write_prior(item: str, training: Any, prior: Any, settings: Settings, bench: Bench, file: Path) -> str:
    """Weights and statistics in one file, and a note that says how they came about."""
    from research.pretraining.prior_statistics import measure, measure_scattering
    from research.pretraining.weights_files import save_prior

    recipe_used, rows = training.recipe, settings["statistics"]
    pools = {name: getattr(prior, name) for name in ("depths", "pools", "normed", "mirror")}
    statistics = measure(training.network.eval(), recipe_used.source, rows=rows, first=HELD_OUT_CHUNK, **pools)
    scattering = measure_scattering(recipe_used.source, rows=rows // 2, first=HELD_OUT_CHUNK, device=bench.device)
    facts = _facts(item, recipe_used, training.step_number, settings, bench) | {
        "depth": str(recipe_used.depth),
        "width": str(recipe_used.width),
        "stride": str(getattr(recipe_used, "stride", 1)),
    }
    save_prior(file, training.network, statistics, scattering, prior.normed, facts)
    return _write_note(file, facts, recipe_used)


def _facts(item: str, recipe: Any, steps: int, settings: Settings, bench: Bench) -> dict[str, str]:
    """How weights came about."""
    import torch

    from privaware.bench._store import commit, machine

    return {
        "command": f"privaware reproduce ours/prior/{item}, {dict(settings)}",
        "seed": str(recipe.seed),
        "commit": commit(),
        "recipe": json.dumps(asdict(recipe)),
        "steps": str(steps),
        "machine": machine(bench.device),
        "torch": torch.__version__,
    }


def _write_note(file: Path, facts: dict[str, str], recipe: Any) -> str:
    """Writes these facts with the checksum of the weights beside them, which it returns."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    note = {**facts, "recipe": asdict(recipe), "sha256": digest}
    file.with_suffix(".json").write_text(json.dumps(note, indent=2) + "\n")
    return digest
