"""The site: Sphinx with furo and myst-nb, built offline by `make docs`; generated pages and outputs are made then."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import _examples
import _generate

from privaware import __version__

project = "privaware"
author = "the privaware authors"
copyright = author
release = version = __version__

extensions = ["myst_nb"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "_site", "jupyter_execute"]
html_theme = "furo"
html_title = f"privaware {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["misc.highlighting_failure"]
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300

EXECUTED = ("index", "tutorials/data_owner", "how_to/")
"""Pages whose examples are run and shown with what they print."""


def run_examples(app: Any, name: str, source: list[str]) -> None:
    """Puts what the examples of a page print below them."""
    if name.startswith(EXECUTED):
        source[0] = _examples.with_output(source[0])


def setup(app: Any) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _generate.write(Path(__file__).parent / "generated")
    app.connect("source-read", run_examples)
