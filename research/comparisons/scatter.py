"""Scattering of 60,000 images of 28 x 28 pixels, beside kymatio 0.3.0: docs/results/scatter.md.

    python -m research.comparisons.scatter --kymatio FOLDER --out docs/results/scatter

FOLDER is a virtual environment for kymatio, created if it does not exist. It needs an old SciPy, and borrows torch from
the environment that runs this script. Both sides take turns on the same slices of images, each in its own process with
the same number of threads, so that other load on the machine affects both. CPU seconds are reported beside wall
seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

PACKAGES = ["kymatio==0.3.0", "scipy==1.11.4", "numpy==1.26.4"]
NEEDED = ["appdirs", "configparser", "packaging"]
BATCH = 256  # the fastest of 64, 256 and 1,024 for kymatio


def prepare(folder: Path) -> Path:
    """Return the interpreter of an environment with kymatio, an old SciPy and the torch of this environment."""
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
    """Return a function from images to features; it splits batches if the library does not."""
    import torch

    if side == "privaware":
        from privaware.features import Scatter

        return Scatter(J=2, L=8)
    from kymatio.torch import Scattering2D

    scattering = Scattering2D(J=2, shape=(28, 28), L=8)
    return lambda images: torch.cat([scattering(part) for part in images.split(BATCH)])


def work(side: str, threads: int) -> None:
    """Answer each line `seed rows` with seconds, memory and the sum of the features."""
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
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        environment["PYTHONPATH"] = str(Path(__file__).parents[2]) if side == "privaware" else ""
        command = [str(python), __file__, "--work", side, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
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


def compare(options: argparse.Namespace, threads: int) -> dict[str, float]:
    """Run both sides on all images in turns, and check that their features agree."""
    workers = {
        "ours": Worker(sys.executable, "privaware", threads),
        "kymatio": Worker(prepare(options.kymatio), "kymatio", threads),
    }
    rows, fastest = options.images // options.turns, dict.fromkeys(workers, float("inf"))
    result = {f"{side} {clock}": 0.0 for side in workers for clock in ("seconds", "processor")}
    for turn in range(options.turns):
        sums = []
        for side, worker in workers.items():
            wall, processor, _, total = worker.ask(turn, rows)
            result[f"{side} seconds"] += wall
            result[f"{side} processor"] += processor
            fastest[side] = min(fastest[side], wall)
            sums.append(total)
        assert abs(sums[0] - sums[1]) < 1e-5 * abs(sums[1]), sums
    for worker in workers.values():
        worker.close()
    ratios = [result[f"kymatio {clock}"] / result[f"ours {clock}"] for clock in ("seconds", "processor")]
    slices = {"fastest ratio": fastest["kymatio"] / fastest["ours"]}
    return result | {"ratio": ratios[0], "processor ratio": ratios[1]} | slices


def growth(rows: int, threads: int) -> dict[str, float]:
    """Measure this package for one number of images, in a new process."""
    worker = Worker(sys.executable, "privaware", threads)
    _, processor, memory, _ = worker.ask(0, rows)
    worker.close()
    return {"processor": processor, "microseconds": 1e6 * processor / rows, "mebibytes": memory / 2**20}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--kymatio", type=Path, help="folder of kymatio's environment")
    arguments.add_argument("--images", type=int, default=60_000)
    arguments.add_argument("--turns", type=int, default=20)
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--load", default="idle", help="idle or shared: what else the machine does")
    arguments.add_argument("--out", type=Path, help="a folder of stored cells")
    arguments.add_argument("--work", choices=["privaware", "kymatio"], help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.work:
        return work(options.work, options.threads[0])
    if not options.kymatio:
        arguments.error("expected --kymatio FOLDER, an environment that may be made there")
    from research.comparisons import record

    for threads in options.threads:
        settings = {"images": options.images, "threads": threads, "load": options.load}
        result = compare(options, threads)
        print(settings, result, flush=True)
        record(options.out, "benchmarks/scatter", settings, result)
    for rows in (options.images // 8, options.images // 4, options.images // 2, options.images):
        result = growth(rows, max(options.threads))
        print(rows, result, flush=True)
        record(options.out, "benchmarks/scatter/growth", {"images": rows}, result)
    return None


if __name__ == "__main__":
    main()
