"""`privaware advise`: say which epsilon an accuracy needs, and which measured findings apply to a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privaware._rounded import number
from privaware.cli import _options as o
from privaware.cli._terminal import say, show
from privaware.errors import WrongInput

app = typer.Typer()
_EPSILON = (
    "The epsilon of the model that you plan. The findings and the bound on attacks are for this epsilon. Nothing is "
    "charged for it."
)
EPSILON = Annotated[float, o.option(_EPSILON)]
ACCURACY = Annotated[float | None, o.option("The accuracy whose epsilon is estimated, such as 0.9.")]
_PILOT = (
    "Charge this epsilon, such as 0.2, for a model and its score, which place this table on the measured curves. "
    "Without a pilot nothing is charged, and the estimate is about other tables."
)
PILOT = Annotated[float | None, o.option(_PILOT)]
WHY = Annotated[bool, o.option("Show the reason and the evidence of each finding.", "--why")]
HTML = Annotated[
    Path | None, o.option("A new HTML file: the estimate, its plot, the findings and their evidence.", "--html")
]
PUBLIC = Annotated[str | None, o.option("Public rows that are available. They are not read.")]

_FOLDER = (
    "With --pilot: the folder of its released score. The same pilot is not charged again, also for another --accuracy "
    "or --epsilon. Default: DATA-pilot-E."
)
FOLDER = Annotated[Path | None, o.option(_FOLDER, "--out")]


@app.command(epilog="Example: privaware advise people.csv --target income --accuracy 0.85 --pilot 0.2")
@o.with_run_options
def advise(
    data: o.DATA,
    epsilon: EPSILON = 1.0,
    accuracy: ACCURACY = None,
    pilot: PILOT = None,
    why: WHY = False,
    html: HTML = None,
    public: PUBLIC = None,
    folder: FOLDER = None,
    json: o.JSON = False,
    **run_options: Any,
) -> None:
    """Say which epsilon an accuracy needs, and which findings apply to the data. Only --pilot is charged."""
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise WrongInput(f"expected a name ending in .html for --html, got {html.name!r}; choose another name")
    if html is not None and not html.parent.is_dir():
        raise WrongInput(f"expected --html in a folder that exists, got {str(html)!r}; make the folder first")
    if html is not None and html.exists():
        raise WrongInput(f"expected a new file for --html, got {str(html)!r}, which exists; choose another name")
    from privaware.workflow._advice_words import advice_lines
    from privaware.workflow.advise import advise as run

    if pilot is not None and folder is None:
        folder = Path(f"{Path(data).name}-pilot-{number(pilot)}")
    asked: dict[str, Any] = {"epsilon": epsilon, "accuracy": accuracy, "pilot": pilot, "public": public}
    result = run(data, **asked, out=folder, say=say, **run_options)
    if html is not None:
        html.write_text(result.html(), encoding="utf-8")
    show(result.json(), advice_lines(result, why=why), json)
