"""Tables of docs/results/descent.md, from cells that `benchmarks.descent` measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from privaware.papers._page import Page, markdown

__all__ = ["functions"]

TABLE_XVII = {
    "cnn.svhn.1817930": (23.94, 1.26),
    "cnn.svhn.600522": (20.58, 0.84),
    "fcn.svhn.221066": (15.96, 0.50),
    "fcn.svhn.39818": (12.60, 0.34),
    "lstm.sms.496978": (18.80, 0.56),
    "lstm.sms.50994": (15.28, 0.42),
}
"""Bao et al.: printed seconds an epoch, private and plain."""
OPACUS = ("opacus hooks", "opacus ghost", "opacus functorch")
POISSON = "privaware, Poisson of 20 x"
Measured = dict[tuple[Any, ...], dict[str, float]]


def functions(page: Page) -> dict[str, Callable[..., str]]:
    known: list[Callable[..., str]] = [single, cpu, memory, populations, table_xvii]
    return {function.__name__: partial(function, page) for function in known}


def measured(page: Page, device: str) -> Measured:
    """Results by model, batch, way, mode and models at once."""
    names = ("model", "batch", "way", "mode", "models")
    cells = [cell for cell in page.cells("benchmarks/descent") if cell.settings["device"] == device]
    return {tuple(cell.settings[name] for name in names): cell.result for cell in cells}


def number(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def shown(result: dict[str, float] | None) -> str:
    """Milliseconds, and in brackets how many times plain SGD of the same mode."""
    if result is None:
        return "-"
    over = result.get("over_plain")
    return number(result["milliseconds"]) + (f" ({over:.2f})" if over else "")


def single(page: Page, vgg: bool = False) -> str:
    """One model on the H200: what runs eagerly, then what is captured."""
    known, rows = measured(page, "H200"), []
    for model, batch in dict.fromkeys((model, batch) for model, batch, *_, models in known if models == 1):
        if model in TABLE_XVII or (model.startswith("VGG") != vgg):
            continue
        of = partial(_of, known, model, batch)
        plain, eager = of("plain SGD", "eager"), of("privaware", "eager")
        row = [model, f"{batch:,}", shown(plain), *(shown(of(way, "eager")) for way in OPACUS), shown(eager)]
        rivals = [rival["milliseconds"] for way in OPACUS if (rival := of(way, "eager"))]
        row.append(f"{min(rivals) / eager['milliseconds']:.1f}" if rivals and eager else "-")
        captured = [("plain SGD", "captured"), ("privaware", "captured"), ("privaware tf32", "captured")]
        rows.append([*row, *(shown(of(*way)) for way in captured), shown(of(POISSON, "captured"))])
    head = ["model", "batch", "plain, eager", "Opacus hooks, eager", "ghost", "functorch", "ours, eager"]
    head += ["fastest Opacus over ours, eager", "plain, captured", "ours, captured", "ours, captured, TF32"]
    return markdown([*head, "ours, captured, Poisson of 20 x batch"], rows)


def _of(known: Measured, model: str, batch: int, way: str, mode: str) -> dict[str, float] | None:
    return known.get((model, batch, way, mode, 1))


def memory(page: Page) -> str:
    """Peak megabytes of an eager step."""
    known, rows = measured(page, "H200"), []
    for model, batch in dict.fromkeys(
        (model, batch) for (model, batch, *_), one in known.items() if "megabytes" in one
    ):
        ways = ("plain SGD", *OPACUS, "privaware")
        results = [known[model, batch, way, "eager", 1] for way in ways]
        rows.append([model, f"{batch:,}", *(f"{one['megabytes']:,.0f}" for one in results)])
    return markdown(["model", "batch", "plain SGD", "Opacus hooks", "ghost", "functorch", "ours"], rows)


def cpu(page: Page, device: str) -> str:
    known, rows = measured(page, device), []
    for model, batch in dict.fromkeys((model, batch) for model, batch, *_, models in known if models == 1):
        of = partial(_of, known, model, batch)
        times = [
            number(one["milliseconds"]) for way in ("plain SGD", *OPACUS, "privaware") if (one := of(way, "eager"))
        ]
        ours, sampled = of("privaware", "eager"), of(POISSON, "eager")
        assert ours is not None
        assert sampled is not None
        rows.append([model, f"{batch:,}", *times, f"{ours['over_plain']:.2f}", number(sampled["milliseconds"])])
    head = ["model", "batch", "plain SGD", "Opacus hooks", "ghost", "functorch", "ours", "over plain"]
    return markdown([*head, "ours, Poisson of 20 x batch"], rows)


def populations(page: Page, device: str) -> str:
    """Model-steps of a population beside one model at a time: Opacus (eager), and ours in the same mode."""
    known, rows = measured(page, device), []
    for (model, batch, way, mode, models), result in known.items():
        if models == 1:
            continue
        alone = known[model, batch, way, mode, 1]["milliseconds"]
        name = f"{models} TF32" if way.endswith("tf32") else str(models)
        times = f"{alone * models / result['milliseconds']:.1f}"
        rate = f"{result['rate']:,.0f}"
        rows.append([model, name, number(result["milliseconds"]), rate, f"{result['over_opacus']:,.1f}", times])
    mode = "captured" if device == "H200" else "eager"
    head = ["model", "models at once", "ms a step", "model-steps a second", "over Opacus hooks, eager, one at a time"]
    return markdown([*head, f"over ours, {mode}, one at a time"], rows)


def table_xvii(page: Page) -> str:
    known, rows = measured(page, "H200"), []
    for model, (private, plain) in TABLE_XVII.items():
        row = [model, f"{private:g} / {plain:g}", f"{private / plain:.1f}"]
        for mode, digits in (("captured", 3), ("eager", 2)):
            ours, theirs = (known[model, 256, way, mode, 1] for way in ("privaware", "plain SGD"))
            times = [f"{one['milliseconds']:.{digits}f}" for one in (theirs, ours)]
            row += [*times, f"{ours['over_plain']:.2f}"]
        rows.append(row)
    head = ["model", "printed s an epoch, private / plain", "printed ratio", "plain, captured, ms a step"]
    return markdown([*head, "ours, captured", "ratio", "plain, eager", "ours, eager", "ratio"], rows)
