"""Tables of docs/results/scatter.md, from cells that `benchmarks.scatter` measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from privaware.papers._page import Page, markdown

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Callable[..., str]]:
    return {"compared": partial(compared, page), "growth": partial(growth, page)}


def compared(page: Page, load: str) -> str:
    """Seconds of the clock and of the processor; on an idle machine also the ratio of the fastest slices."""
    cells = [cell for cell in page.cells("benchmarks/scatter") if cell.settings["load"] == load]
    rows, idle = [], load == "idle"
    for cell in cells:
        one, (images, threads) = cell.result, (cell.settings["images"], cell.settings["threads"])
        ratios = [one["kymatio seconds"] / one["ours seconds"], one["kymatio processor"] / one["ours processor"]]
        wall = [f"{one['ours seconds']:.1f}", f"{one['kymatio seconds']:.1f}", f"{one.get('ratio', ratios[0]):.1f}"]
        used = [f"{one['ours processor']:.1f}", f"{one['kymatio processor']:.1f}"]
        fastest = [f"{one['fastest ratio']:.1f}"] if idle else []
        rows.append([f"{images:,}", threads, *wall, *fastest, *used, f"{one.get('processor ratio', ratios[1]):.1f}"])
    fastest = ["fastest slice of 3,000, ratio"] if idle else []
    head = ["images", "threads", "seconds, ours", "kymatio", "ratio", *fastest, "processor seconds, ours", "kymatio"]
    return markdown([*head, "ratio"], rows)


def growth(page: Page) -> str:
    rows = [
        [
            f"{cell.settings['images']:,}",
            f"{one['processor']:.1f}",
            f"{one['microseconds']:.0f}",
            f"{one['mebibytes']:.0f}",
        ]
        for cell in page.cells("benchmarks/scatter/growth")
        for one in [cell.result]
    ]
    return markdown(["images", "processor seconds", "microseconds an image", "working memory, MiB"], rows)
