"""Output of a command: results on standard output, progress on standard error."""

from __future__ import annotations

import json as json_
import sys
from typing import Any

from privaware.errors import without_controls


class Terminal:
    """Progress on standard error: one line for each sentence, and a progress bar for long work at a terminal.

    Call the object with a sentence to print it. There is no bar if standard error is not a terminal, or if the
    attribute `quiet` is true.
    """

    def __init__(self) -> None:
        self.quiet = False
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, sentence: str) -> None:
        sentence = without_controls(sentence)
        if self._bar is not None:
            self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        else:
            print(sentence, file=sys.stderr, flush=True)

    @property
    def shows_progress(self) -> bool:
        """Whether `progress` draws anything."""
        return not self.quiet and sys.stderr.isatty()

    def progress(self, what: str, at: int, of: int | None) -> None:
        """Draw that `at` of `of` steps of the task `what` are finished, with rate and remaining time.

        Without `of`, draw only that work continues. Draw nothing unless `shows_progress`.
        """
        if not self.shows_progress:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=of)
        self._bar.update(self._tasks[what], completed=at, total=of)

    def close(self) -> None:
        """Stop the bar and leave it visible; later output appears below it."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._tasks = None, {}


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Any) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.1f}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False)


say = Terminal()
"""The terminal of this process."""


def show(result: dict[str, Any], lines: list[str], json: bool) -> None:
    """Print `result` as one line of JSON if `json` is true, else print `lines`, for a person.

    Control characters, and characters that standard output cannot encode, are escaped. NaN or infinity in JSON raises
    `ValueError`.
    """
    say.close()
    text = json_.dumps(result, allow_nan=False) if json else without_controls("\n".join(lines))
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
