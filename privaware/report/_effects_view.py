"""The effects of columns for the page: small drawings without text, and bars made of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privaware.report._effects import Effect, Effects
from privaware.report._surfaces import Surface
from privaware.report._words import number

MAX_DRAWN = 8
"""Largest number of columns whose effects are drawn."""

MAX_BARS = 12
"""Largest number of bars in the drawing of a category."""

WIDTH = 240
"""Width of a drawing in pixels."""

HEIGHT = 90
"""Height of a curve in pixels; a heat map is twice as high."""

EDGE = 4
"""Distance in pixels between a curve and the edge of its drawing."""

COLOURS = ("#3f7fc1", "#d07a2d", "#3d9970", "#b05aa5", "#a08a2b", "#c24f4f", "#4aa3a8", "#7c6fd0")


def effects_view(effects: Effects | None) -> dict[str, Any] | None:
    """Return what a page shows about the effects of columns; None if `effects` is None.

    `drawn` has drawings of the `MAX_DRAWN` largest effects, all on one scale whose edge is `top`; `pairs` has heat maps
    of interactions, `sizes` the name and the size of every effect, and `legend` the colours of the outputs if there are
    several. `noise` is True if every drawn effect has the deviations of its privacy noise.
    """
    if effects is None:
        return None
    largest = effects.columns[:MAX_DRAWN]
    top = max((float(np.abs(effect.values).max()) for effect in largest), default=0.0) or 1.0
    classes = len(effects.outputs)
    return {
        "unit": effects.unit,
        "top": number(top, 3),
        "noise": all(effect.noise is not None for effect in largest),
        "drawn": [_drawing(effect, top, classes) for effect in largest],
        "pairs": [_heat_map(surface) for surface in effects.pairs],
        "sizes": [(effect.column, number(effect.size, 3)) for effect in effects.columns],
        "legend": [
            {"name": name, "colour": COLOURS[at % len(COLOURS)], "dash": at >= len(COLOURS)}
            for at, name in enumerate(effects.outputs)
        ]
        if classes > 1
        else [],
    }


def _drawing(effect: Effect, top: float, classes: int) -> dict[str, Any]:
    """Draw one effect: a line for each output of a numeric column; bars, or a table of classes, for a category.

    The result has `svg`, `bars` or `table`; unused entries are None. `top` is the value at the edge of a drawing.
    `classes` is the number of outputs: a column of categories has bars if it is 1, else a table. Of its categories only
    the `MAX_BARS` with the largest absolute values are shown, in the order of the schema; `left` counts the categories
    that are not shown (0 for a number).
    """
    shown: dict[str, Any] = dict.fromkeys(("svg", "bars", "table", "low", "high", "bins"))
    shown |= {"column": effect.column, "size": number(effect.size, 3), "left": 0}
    if effect.kind == "number":
        steps = len(effect.points) > 1 and " to " in effect.levels[0]
        shown["svg"] = _svg(effect, top, steps)
        shown["bins"] = len(effect.points) if steps else None
        shown["low"], shown["high"] = _start(effect.levels[0]), _stop(effect.levels[-1])
        return shown
    order = np.argsort(-np.abs(effect.values).max(axis=1), kind="stable")[:MAX_BARS]
    shown["left"] = len(effect.levels) - len(order)
    kept = sorted(order.tolist())
    if classes == 1:
        noise = {} if effect.noise is None else {at: number(float(effect.noise[at]), 2) for at in kept}
        shown["bars"] = [_bar(effect.levels[at], float(effect.values[at, 0]), top, noise.get(at)) for at in kept]
    else:
        shown["table"] = [(effect.levels[at], [number(float(value), 2) for value in effect.values[at]]) for at in kept]
    return shown


def _heat_map(surface: Surface) -> dict[str, Any]:
    """Draw the interaction of two columns as a heat map: a rectangle for each pair of levels of the two columns.

    It is blue where the pair raises the output and orange where it lowers it; a larger value is more opaque. The first
    column runs from the bottom to the top. The result has the `svg`, the names of the columns, the ends of both axes
    and the largest absolute value (`most`).
    """
    lines, others = surface.values.shape
    width, height = WIDTH / others, 2 * HEIGHT / lines
    top = float(np.abs(surface.values).max()) or 1.0
    cells = []
    for (line, other), value in np.ndenumerate(surface.values):
        colour, x, y = COLOURS[int(value < 0)], other * width, (lines - 1 - line) * height
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        cells.append(f'<rect {place} fill="{colour}" fill-opacity="{abs(value) / top:.2f}"/>')
    box = f'viewBox="0 0 {WIDTH} {2 * HEIGHT}" aria-hidden="true" focusable="false"'
    (first, second), (up, across) = surface.columns, surface.levels
    ends = {"low": _start(across[0]), "high": _stop(across[-1]), "bottom": _start(up[0]), "top": _stop(up[-1])}
    return {
        "first": first,
        "second": second,
        "svg": f"<svg {box}>{''.join(cells)}</svg>",
        "most": number(top, 3),
    } | ends


def _start(level: str) -> str:
    return level.split(" to ")[0]


def _stop(level: str) -> str:
    return level.split(" to ")[-1]


def _bar(name: str, value: float, top: float, noise: str | None) -> dict[str, Any]:
    """Return a bar from the middle to the right or, for a negative `value`, to the left.

    The result has `name`, `value` (a text), `noise` (the text beside the bar, or None), and the start (`left`) and
    `width` of the bar in per cent of the drawing. The bar ends at the edge of the drawing if `abs(value) >= top`.
    """
    share = 50 * min(abs(value) / top, 1.0)
    return {
        "name": name,
        "value": number(value, 3),
        "noise": noise,
        "left": f"{50 if value >= 0 else 50 - share:.2f}",
        "width": f"{share:.2f}",
    }


def _svg(effect: Effect, top: float, steps: bool) -> str:
    low, high = effect.points[0], effect.points[-1]
    middle = HEIGHT / 2
    scale = (middle - EDGE) / top
    if steps:
        edges = np.linspace(0, WIDTH, len(effect.points) + 1)
        across: Sequence[float] = np.repeat(edges, 2)[1:-1].tolist()
    else:
        across = [WIDTH * (point - low) / ((high - low) or 1.0) for point in effect.points]
    lines = []
    if effect.noise is not None and effect.values.shape[1] == 1:
        repeat = 2 if steps else 1
        ends = [(effect.values[:, 0] + sign * effect.noise).repeat(repeat) for sign in (1, -1)]
        upper, lower = ([middle - scale * float(value) for value in end] for end in ends)
        ring = [*zip(across, upper, strict=True), *reversed([*zip(across, lower, strict=True)])]
        shade = " ".join(f"{x:.1f},{min(max(y, 0), HEIGHT):.1f}" for x, y in ring)
        lines.append(f'<polygon points="{shade}" fill="{COLOURS[0]}" fill-opacity=".25"/>')
    lines += [f'<line x1="0" y1="{middle:g}" x2="{WIDTH}" y2="{middle:g}" stroke="currentColor" stroke-opacity=".35"/>']
    for at in range(effect.values.shape[1]):
        values = effect.values[:, at].repeat(2 if steps else 1)
        path = " ".join(f"{x:.1f},{middle - scale * value:.1f}" for x, value in zip(across, values, strict=True))
        dash = ' stroke-dasharray="5 3"' if at >= len(COLOURS) else ""
        colour = COLOURS[at % len(COLOURS)]
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{"".join(lines)}</svg>'
