"""Makes the prior: pretrains on images made by random processes and writes weights, statistics and a note.

    python -m benchmarks.prior --seconds 540 --seed 1 --out FOLDER --checkpoint FOLDER/state.pt --until 0.5
    python -m benchmarks.prior --seconds 540 --seed 1 --out FOLDER --checkpoint FOLDER/state.pt

Each command ends within --seconds, all included, and takes the schedule from where the checkpoint is to --until (1 is
its end), so any number of commands make one cosine schedule. With --total-images the schedule is by count instead of
by the clock, and the same command makes the same weights again on the same kind of machine. No data are read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from privaware.errors import WrongInput
from privaware.features import _depths, _pretrain, _synthetic, _views, _whitening
from privaware.features._prior_simclr import Pretraining, Recipe
from privaware.features._prior_weights import measure, measure_scattering, save
from privaware.features.prior import Prior

BEGAN = time.perf_counter()
EVERY = 20
"""Steps between two looks at the clock (each waits for the device)."""
CHECKPOINT_SECONDS = 60.0
APART = 1_000_000
"""Number of the first chunk of images behind the statistics: none of them is ever learned from."""


def say(*words: Any) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f}]", *words, flush=True)


def main() -> None:
    given = arguments().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    recipe = Recipe(**{field.name: getattr(given, field.name) for field in fields(Recipe)})
    training = Pretraining(recipe, device, given.compile if device == "cuda" else "")
    if given.checkpoint and given.checkpoint.is_file():
        training.load(torch.load(given.checkpoint, map_location=device, weights_only=True))
        say(f"goes on from step {training.step_number}, progress {training.progress:.4f}")
    if training.progress < min(given.until, 1.0):
        began = time.perf_counter()
        training.prepare()
        settle(device)
        speed = recipe.images / (time.perf_counter() - began)
        say(f"{recipe.images} images of {recipe.size} x {recipe.size}, {speed:.0f} a second")
        train(training, given)
    write(training, given, device)


def arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--seconds", type=float, default=540.0, help="this command's whole time")
    made.add_argument("--until", type=float, default=1.0, help="how far along the schedule to go")
    made.add_argument("--total-images", type=int, help="the schedule's length in pairs of views")
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--checkpoint", type=Path)
    made.add_argument("--device")
    made.add_argument("--compile", default="default", help="a mode of torch.compile, or '' for none")
    made.add_argument("--reserve", type=float, default=20.0, help="seconds kept for the statistics")
    made.add_argument("--statistics", type=int, default=32_768, help="images behind the statistics")
    made.add_argument("--depths", type=int, nargs="+", default=Prior().depths)
    made.add_argument("--pools", type=int, nargs="+", default=Prior().pools)
    made.add_argument("--normed", action="store_true", default=Prior().normed)
    made.add_argument("--commit", default="", help="where git cannot say it")
    for field in fields(Recipe):
        required = field.name == "seed"
        kind = int if required else type(field.default)
        made.add_argument(f"--{field.name}", type=kind, required=required, default=None if required else field.default)
    return made


def settle(device: str) -> None:
    """Waits for the device, so that a clock means something."""
    if device == "cuda":
        torch.cuda.synchronize()


def train(training: Pretraining, given: argparse.Namespace) -> None:
    """Steps until the schedule or the time is at its end, with a checkpoint every minute."""
    batch, until = training.recipe.batch, min(given.until, 1.0)
    here = training.progress
    if given.total_images:
        here = training.step_number * batch / given.total_images
    loss = training.step(here)  # the compiler's work is outside the clock of the schedule
    say(f"first step, loss {loss.item():.4f}", training.note)
    start, end = time.perf_counter(), BEGAN + given.seconds - given.reserve
    before, origin = training.seconds, training.progress
    saved, shown, steps = start, start, training.step_number

    def progress(now: float) -> float:
        if given.total_images:
            return training.step_number * batch / given.total_images
        return origin + (until - origin) * (now - start) / max(end - start, 1e-3)

    while (now := time.perf_counter()) < end and progress(now) < until:
        for _ in range(EVERY):
            if (here := progress(now)) >= until:
                break
            loss = training.step(here)
        value, now = loss.item(), time.perf_counter()
        training.seconds = before + now - start
        if now - shown > 10:
            speed = 2 * batch * (training.step_number - steps) / (now - shown)
            say(f"step {training.step_number} at {training.progress:.3f} loss {value:.4f} {speed:.0f} views/s")
            shown, steps = now, training.step_number
        if given.checkpoint and now - saved > CHECKPOINT_SECONDS:
            keep(training, given.checkpoint)
            saved = now
    if end > start:
        training.progress = min(progress(time.perf_counter()), until)
    if given.checkpoint:
        keep(training, given.checkpoint)
    say(f"step {training.step_number} at {training.progress:.4f} loss {loss.item():.4f}", training.note)


def keep(training: Pretraining, path: Path) -> None:
    """Writes the checkpoint whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    torch.save(training.state(), partial)
    os.replace(partial, path)


def write(training: Pretraining, given: argparse.Namespace, device: str) -> None:
    """Weights and statistics in one file, and a note that says how they came about."""
    recipe = training.recipe
    network = training.network.eval()
    statistics = measure(
        network,
        recipe.source,
        rows=given.statistics,
        first=APART,
        device=device,
        depths=given.depths,
        pools=given.pools,
        normed=given.normed,
    )
    facts = {
        "command": command(sys.argv[1:]),
        "seed": str(recipe.seed),
        "commit": given.commit or commit(),
        "sources": sources(),
        "depth": str(recipe.depth),
        "width": str(recipe.width),
        "recipe": json.dumps(asdict(recipe)),
        "steps": str(training.step_number),
        "pairs": str(training.step_number * recipe.batch),
        "progress": f"{training.progress:.4f}",
        "seconds": f"{training.seconds:.0f}",
        "machine": torch.cuda.get_device_name() if device == "cuda" else "processor",
        "torch": torch.__version__,
    }
    file = given.out / "prior.safetensors"
    save(file, network, statistics, scattering(training, given, device), given.normed, facts)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    note = {**facts, "recipe": asdict(recipe), "sha256": digest}
    (given.out / "prior.json").write_text(json.dumps(note, indent=2) + "\n")
    say(f"{file} of {file.stat().st_size / 1e6:.2f} MB, {training.step_number} steps")


def scattering(training: Pretraining, given: argparse.Namespace, device: str) -> Any:
    """Statistics of scattering, or none where that feature is not to be had."""
    try:
        return measure_scattering(training.recipe.source, rows=given.statistics // 2, first=APART, device=device)
    except WrongInput as problem:
        say(f"no statistics of scattering: {problem}")
        return None


def command(words: list[str]) -> str:
    """What was typed, without this machine's folders."""
    shown = [
        {"--out": "FOLDER", "--checkpoint": "FOLDER/state.pt"}.get(before, word)
        for before, word in zip(["", *words], words)
    ]
    return " ".join(["python -m benchmarks.prior", *shown])


def commit() -> str:
    """The commit of the working tree, where there is one."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def sources() -> str:
    """One checksum over the code that decides the weights."""
    modules = (_synthetic, _views, _depths, _pretrain, _whitening)
    texts = [Path(module.__file__ or "").read_bytes() for module in modules]
    return hashlib.sha256(b"".join(texts)).hexdigest()


if __name__ == "__main__":
    try:
        main()
    except WrongInput as problem:
        sys.exit(str(problem))
