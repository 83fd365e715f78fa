"""Scattering of 60,000 images of 28 x 28 pixels, side by side with kymatio 0.3.0: docs/results/scatter.md.

    python -m benchmarks.scatter --kymatio FOLDER --out docs/results/scatter.md

FOLDER is a virtual environment for kymatio, made here when it does not exist: it needs an old SciPy, and
borrows torch from the environment that runs this. Both sides take turns on the same slices of images,
each in a process of its own with the same number of threads, so that whatever else the machine does falls
on both. Seconds of the processor are given beside seconds of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import venv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = ["kymatio==0.3.0", "scipy==1.11.4", "numpy==1.26.4"]
NEEDED = ["appdirs", "configparser", "packaging"]
BATCH = 256  # the fastest of 64, 256 and 1,024 for kymatio


def prepare(folder: Path) -> Path:
    """The interpreter of an environment with kymatio, an old SciPy and this environment's torch."""
    python = folder / "bin" / "python"
    if not python.is_file():
        import torch

        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, *PACKAGES, *NEEDED], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "borrowed.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    return python


def transform(side: str) -> Any:
    """Images to features, a batch at a time where the library does not cut batches itself."""
    import torch

    if side == "privaware":
        from privaware.features import Scatter

        return Scatter(J=2, L=8)
    from kymatio.torch import Scattering2D

    made = Scattering2D(J=2, shape=(28, 28), L=8)
    return lambda images: torch.cat([made(part) for part in images.split(BATCH)])


def work(side: str, threads: int) -> None:
    """Answers each line `seed rows` with seconds and a fingerprint of the features."""
    import resource

    import torch

    torch.set_num_threads(threads)
    scatter = transform(side)
    scatter(torch.rand(300, 1, 28, 28))
    for line in sys.stdin:
        seed, rows = (int(word) for word in line.split())
        images = torch.rand(rows, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
        before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        wall, cpu = time.perf_counter(), time.process_time()
        features = scatter(images)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        memory = max(0, peak - before - features.numel() * 4)
        print(json.dumps([wall, cpu, memory, float(features.sum(dtype=torch.float64))]), flush=True)


class Worker:
    """One side in its own process."""

    def __init__(self, python: Path | str, side: str, threads: int) -> None:
        surroundings = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        surroundings["PYTHONPATH"] = str(Path(__file__).parents[1]) if side == "privaware" else ""
        command = [str(python), __file__, "--work", side, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
        )

    def ask(self, seed: int, rows: int) -> list[float]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{seed} {rows}\n")
        self.process.stdin.flush()
        answer: list[float] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        self.process.communicate()


def compare(given: argparse.Namespace) -> list[str]:
    """The lines of the first table: both sides on all images, taking turns."""
    lines = []
    for threads in given.threads:
        ours = Worker(sys.executable, "privaware", threads)
        theirs = Worker(prepare(given.kymatio), "kymatio", threads)
        total = {"privaware": [0.0, 0.0], "kymatio": [0.0, 0.0]}
        fastest = {"privaware": float("inf"), "kymatio": float("inf")}
        rows = given.images // given.turns
        for turn in range(given.turns):
            prints = []
            for side, worker in (("privaware", ours), ("kymatio", theirs)):
                wall, cpu, _, fingerprint = worker.ask(turn, rows)
                total[side][0] += wall
                total[side][1] += cpu
                fastest[side] = min(fastest[side], wall)
                prints.append(fingerprint)
            assert abs(prints[0] - prints[1]) < 1e-5 * abs(prints[1]), prints
        ours.close()
        theirs.close()
        (wall, cpu), (wall2, cpu2) = total["privaware"], total["kymatio"]
        each = [1e6 * fastest[side] / rows for side in total]
        print(
            f"fastest slice of {rows}: {each[0]:.0f} and {each[1]:.0f} microseconds an image, ratio "
            f"{each[1] / each[0]:.1f}, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        lines.append(
            f"| {threads} | {wall:.1f} | {wall2:.1f} | {wall2 / wall:.1f} | {cpu:.1f} | {cpu2:.1f} | {cpu2 / cpu:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def growth(given: argparse.Namespace) -> list[str]:
    """The lines of the second table: ours for more and more images, in a new process each."""
    lines = []
    for rows in (given.images // 8, given.images // 4, given.images // 2, given.images):
        worker = Worker(sys.executable, "privaware", max(given.threads))
        _, cpu, memory, _ = worker.ask(0, rows)
        worker.close()
        lines.append(f"| {rows:,} | {cpu:.1f} | {1e6 * cpu / rows:.0f} | {memory / 2**20:.0f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kymatio", type=Path, help="folder of kymatio's environment")
    arguments.add_argument("--images", type=int, default=60_000)
    arguments.add_argument("--turns", type=int, default=20)
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--work", choices=["privaware", "kymatio"], help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.work:
        return work(given.work, given.threads[0])
    if not given.kymatio:
        arguments.error("expected --kymatio FOLDER, an environment that may be made there")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    text = [
        "# Scattering against kymatio 0.3.0",
        "",
        f"Command: `python -m benchmarks.scatter --kymatio FOLDER --images {given.images} "
        f"--turns {given.turns} --threads {' '.join(str(n) for n in given.threads)}`. "
        f"Commit {commit}. Machine: {os.cpu_count()} cores, {platform.machine()}, no accelerator, shared "
        f"with other work. Date: {datetime.now(UTC):%Y-%m-%d}.",
        "",
        f"{given.images:,} random images of 28 x 28 pixels, J=2, L=8, float32, both with the same torch; the "
        f"two took turns on slices, and the sums of their features agree to 1e-5. Kymatio (SciPy 1.11.4) was "
        f"given batches of {BATCH}, its fastest of 64, 256 and 1,024. On a machine shared with other work "
        "the clock says little, but the turns make the ratio fair. Processor seconds of several threads count "
        "the time they wait for one another.",
        "",
        "| threads | seconds, ours | kymatio | ratio | processor seconds, ours | kymatio | ratio |",
        "|---|---|---|---|---|---|---|",
        *compare(given),
        "",
        "More images, ours: time grows in proportion, memory beyond the features themselves does not grow.",
        "",
        "| images | processor seconds | microseconds an image | working memory, MiB |",
        "|---|---|---|---|",
        *growth(given),
    ]
    if given.out:
        given.out.write_text("\n".join(text) + "\n")
    return None


if __name__ == "__main__":
    main()
