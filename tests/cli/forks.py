"""A process that has everything imported and forks one child for each command, so that a run takes a second.

It reads lines of JSON, each a list of runs to start together, and answers each with the list of their
ends. A run has `words` for the command line, the folder `cwd`, and perhaps `kill` (seconds after which
it gets SIGKILL), `signal` (another signal for it), `after` (what it must have said on stderr before), `uid` (the
user to become), `umask`, or `moments` (how it is watched and where it fails, see `moments.py`).
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

IMPORTS = [
    "altair",
    "filelock",
    "jinja2",
    "opendp.measurements",
    "pandas",
    "platformdirs",
    "pyarrow.csv",
    "safetensors.numpy",
    "torch",
    "sklearn.datasets",
    "typer._adapters",
    "dp_accounting.pld.privacy_loss_distribution",
    "privaware.cli._verbs",
    "privaware.descent",
    "privaware.learners.fourier",
    "privaware.learners.linear",
    "privaware.learners.majority",
    "privaware.workflow.fit",
    "privaware.workflow.predict",
    "privaware.workflow.verify",
]


class Forks:
    """The other side of this file, as a context manager."""

    def __enter__(self) -> Forks:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *problem: object) -> None:
        self.process.communicate(timeout=60)

    def run(self, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Starts all of them together and waits for all: `code` (negative for a signal), `seconds`, `out`, `err`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(runs) + "\n")
        self.process.stdin.flush()
        ends: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        for number, end in enumerate(ends):
            for name in ("out", "err"):
                file = Path(runs[number]["cwd"]) / f".{number}.{name}"
                end[name] = file.read_text() if file.exists() else ""
                file.unlink(missing_ok=True)
        return ends


def _child(number: int, run: dict[str, Any]) -> NoReturn:
    """Runs the command and ends the process; an exception ends it as it ends any Python process."""
    from privaware.cli import main

    # Who starts the tests in the background may have them ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(run["cwd"])
    for stream, name in ((1, "out"), (2, "err")):
        handle = os.open(f".{number}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, stream)
    if "uid" in run:
        os.setuid(run["uid"])
    os.umask(run.get("umask", 0o022))
    if "moments" in run:
        importlib.import_module("moments").Moments(**run["moments"]).install()
    code = main(run["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _has_printed(number: int, runs: list[dict[str, Any]]) -> bool:
    file = Path(runs[number]["cwd"]) / f".{number}.err"
    return "after" not in runs[number] or (file.exists() and runs[number]["after"] in file.read_text())


def _serve() -> None:
    for name in IMPORTS:
        importlib.import_module(name)
    # A chart starts a JavaScript engine, which takes longer than the rest of a run and touches no file.
    importlib.import_module("privaware.report._charts").render = lambda chart: ""
    importlib.import_module("privaware.report")._template()
    importlib.import_module("privaware.cli")._command(sys.modules["privaware.cli._verbs"].app)
    for line in sys.stdin:
        runs = json.loads(line)
        began = time.monotonic()
        children: dict[int, int] = {}
        for number, run in enumerate(runs):
            pid = os.fork()
            if pid == 0:
                _child(number, run)
            children[pid] = number
        ends: dict[int, dict[str, Any]] = {}
        due = {pid: began + runs[at]["kill"] for pid, at in children.items() if "kill" in runs[at]}
        while len(ends) < len(children):
            pid, status = os.waitpid(-1, os.WNOHANG)
            now = time.monotonic()
            if pid:
                code = os.waitstatus_to_exitcode(status)
                ends[children[pid]] = {"code": code, "seconds": now - began}
                due.pop(pid, None)
                continue
            ready = [pid for pid, at in due.items() if at <= now and _has_printed(children[pid], runs)]
            for late in ready:
                os.kill(late, runs[children[late]].get("signal", signal.SIGKILL))
                del due[late]
            time.sleep(0.0005)
        print(json.dumps([ends[at] for at in range(len(runs))]), flush=True)


if __name__ == "__main__":
    _serve()
