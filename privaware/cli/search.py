"""`privaware search`: the best architecture and settings under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import confirm, say, show

app = typer.Typer()


@app.command(epilog="Example: privaware search digits --space fcn --strategy rs --epsilon 5 --trials 20")
@o.with_run_options
def search(
    data: o.DATA,
    space: o.SPACE = "fcn",
    strategy: o.STRATEGY = "rs",
    epsilon: o.TOTAL = None,
    model_epsilon: o.MODEL_EPSILON = None,
    trials: o.TRIALS = None,
    option: o.OPTION = None,
    set_: o.SET = None,
    held_out: o.HELD_OUT = 0.1,
    public: o.SEARCH_PUBLIC = None,
    workflow: o.WORKFLOW = "aware",
    workers: o.WORKERS = 1,
    ray: o.RAY = None,
    test: o.TEST = None,
    device: o.DEVICE = "cpu",
    out: o.FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Find an architecture and settings that bear the noise; the search itself is charged."""
    from privaware.workflow.search import search as run

    if epsilon is None and model_epsilon is None:
        epsilon = 1.0
    result = run(
        data,
        space=space,
        strategy=strategy,
        epsilon=epsilon,
        model_epsilon=model_epsilon,
        trials=trials,
        settings=o.named_values("--set", set_),
        options=o.named_values("--option", option),
        held_out=held_out,
        public=public,
        workflow=workflow,
        workers=workers,
        ray=ray,
        test=test,
        device=device,
        out=out or Path(f"{Path(data).name}-model"),
        say=say,
        confirm=confirm,
        **run_options,
    )
    lines = [result.sentence] if result.sentence else []
    lines.append(
        f"epsilon {result.epsilon_total:.4g} in all, {result.epsilon_model:.4g} for one model, "
        f"about {result.trials:.4g} trials"
    )
    lines += [f"{name}: {value}" for name, value in (result.best or {}).items()]
    if (score := result.internal.get("test_score")) is not None:
        lines.append(f"internal, not for release: test score {score:.4f}")
    if result.out:
        lines.append(f"model folder: {result.out}")
    show(result.json(), lines, json)
