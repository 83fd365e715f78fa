"""Runs the examples of a page in an empty folder, as a reader would type them.

In a page ```console blocks hold commands (with or without `$ `; a backslash continues a line), ```python blocks share
one namespace, and ```LANGUAGE file=NAME writes a file. `exit=3` after the language says which exit code is expected,
`slow` that a block takes minutes, `shown` that it is not run, `data=NAME` that it is run only where the files of this
built-in data set are on the machine. The build of the site puts what a block printed below it;
the tests run every page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privaware import datasets

DOCS = Path(__file__).parent
ROOT = DOCS.parent
FENCE = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("console", "python", "{code-cell}")
PYTHON = {"python": [sys.executable], "torchrun": [sys.executable, "-m", "torch.distributed.run"]}
"""Commands that this interpreter runs."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its marks such as `exit=3`, and its text."""

    language: str
    marks: tuple[str, ...]
    text: str
    end: int

    def mark(self, name: str, default: str = "") -> str:
        return next((mark.partition("=")[2] for mark in self.marks if mark.startswith(f"{name}=")), default)

    @property
    def commands(self) -> list[str]:
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ").strip() for line in lines if line.strip() and not line.startswith("#")]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    for match in FENCE.finditer(page):
        language, *marks = match["info"].split()
        found.append(Block(language, tuple(marks), match["text"], match.end()))
    return found


@dataclass
class Reader:
    """Someone who types the examples of one page into an empty folder."""

    slow: bool = True
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self, block: Block) -> str:
        """What a block prints; a wrong exit code or an exception is an error."""
        if name := block.mark("file"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(block.text, encoding="utf-8")
            return ""
        if block.language not in RUN or "shown" in block.marks or ("slow" in block.marks and not self.slow):
            return ""
        if (name := block.mark("data")) and datasets.source(name).folder() is None:
            return ""
        if block.language != "console":
            return self._python(block.text)
        expected = int(block.mark("exit", "0"))
        said = []
        for command in block.commands:
            code, output = self._command(command)
            if code != expected:
                raise AssertionError(f"$ {command}\nexit code {code}, expected {expected}\n{output}")
            said.append(output)
        return "".join(said)

    def _python(self, text: str) -> str:
        code = "\n".join(line for line in text.splitlines() if not line.startswith(":"))
        with captured() as said:
            exec(compile(code, "<example>", "exec"), self.namespace)
        return said.getvalue()

    def _command(self, command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[0] != "privaware":
            words = [*PYTHON.get(words[0], words[:1]), *words[1:]]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr
        from privaware.cli import main

        with captured() as said:
            code = main(words[1:])
        return code, said.getvalue()


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Both streams as one text, as a terminal shows them."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("default")
        yield said


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """An empty folder as the working directory, with a registry of ledgers of its own and the examples beside it."""
    before, where = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ |= {"PRIVAWARE_LEDGERS": str(Path(name) / ".ledgers"), "LOGNAME": "owner"}
        (Path(name) / "examples").symlink_to(ROOT / "examples")
        try:
            yield Path(name)
        finally:
            os.chdir(where)
            os.environ.clear()
            os.environ.update(before)


def with_output(page: str, *, slow: bool = False) -> str:
    """The page with what every block printed below it."""
    parts, at = [], 0
    reader = Reader(slow=slow)
    with empty_folder() as folder:
        for block in blocks(page):
            said = reader.run(block).rstrip().replace(f"{folder}/", "")
            parts.append(page[at : block.end])
            at = block.end
            if said:
                parts.append(f"\n\n```text\n{said}\n```")
    return "".join([*parts, page[at:]])
