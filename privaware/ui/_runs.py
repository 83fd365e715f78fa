"""Runs of the page: each is a child process that calls the command line. It ends with the server, not with the browser.

What a run prints stays in memory, because some of it is for the owner of the data only. The form of a training is kept
in the user's data folder until the training has ended, so that a run that was interrupted can be resumed after the
server was started again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from privaware._files import atomic_write, ledger_folder
from privaware.errors import PrivawareError, WrongInput
from privaware.ledger import Ledger
from privaware.ledger._entry import unfinished
from privaware.ledger._owner_folder import owner_folder
from privaware.ui._folder import PREDICTIONS, Folder
from privaware.ui._tasks import Task, fit_task
from privaware.workflow.run.charge import CHARGED, RESUMING
from privaware.workflow.run.command import ONLY_RESUME

COMMAND = (sys.executable, "-P", "-m", "privaware")
"""The command line of this package, without modules of the working directory."""
PROBLEM = "privaware: "
"""Start of the sentence with which the command line says why it failed."""
ENTRY = re.compile(rf"{CHARGED} (\d+)\.")
STEPS = re.compile(r"\b(\d+) of (\d+)\b")
MAX_LINES = 300
"""Largest number of lines that a page shows of one run."""
SECONDS_TO_END = 20.0
"""Time after which a cancelled run that has not ended is killed."""
REFUTED = 4
"""Exit code of an audit that refutes the claimed epsilon: its result is complete."""


@dataclass(eq=False, kw_only=True)
class Run:
    """One call of the command line, while it runs and after it has ended.

    Attributes
    ----------
    task
        The call.
    lines, printed
        What the call wrote to standard error (plan and progress, the last `MAX_LINES` lines) and to standard output
        (result).
    charged, entry
        Whether the call said that its cost is in the ledger, and the number of the entry if the call said it.
    closed
        Whether the charge is closed in the ledger, so that no run can resume on it.
    cancelled
        Whether the user, or the end of the server, cancelled the run.
    code
        The exit code; None while the call runs, and for a run that an earlier server process started.
    process
        The child process; None for a run that an earlier server process started.
    began, seconds
        The start, on the clock `time.monotonic`; and the whole time of a run that has ended, in seconds.
    """

    task: Task
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    printed: list[str] = field(default_factory=list)
    charged: bool = False
    entry: int | None = None
    closed: bool = False
    cancelled: bool = False
    code: int | None = None
    process: subprocess.Popen[str] | None = None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def state(self) -> str:
        """One of "running", "cancelling", "finished", "cancelled", "failed" and "interrupted".

        A run that ended with an earlier server process is "interrupted". An audit that refutes the claim is "finished".
        """
        if self.code is None:
            return "interrupted" if self.process is None else "cancelling" if self.cancelled else "running"
        if self.code == 0 or (self.task.verb == "audit" and self.code == REFUTED):
            return "finished"
        return "cancelled" if self.cancelled else "failed"

    @property
    def active(self) -> bool:
        """Whether the call still runs."""
        return self.state in ("running", "cancelling")

    @property
    def resumable(self) -> bool:
        """Whether this run is a training that the same call would continue.

        It was cancelled or failed after its charge, or it was interrupted with an earlier server process (charged or
        not). Its charge must not be closed.
        """
        ended = self.state in ("cancelled", "failed") and self.charged
        return self.task.verb == "fit" and not self.closed and (ended or self.state == "interrupted")

    @property
    def problem(self) -> str:
        """The sentence with which a failed call ended; empty if the call has not failed."""
        said = [line.removeprefix(PROBLEM) for line in self.lines if line.startswith(PROBLEM)]
        if self.state != "failed":
            return ""
        return said[-1] if said else f"the run ended without a result (exit code {self.code})"

    @property
    def progress(self) -> tuple[int, int] | None:
        """The number of finished steps and of all steps, from the last line with one phrase such as "3 of 10".

        None if there is no such line. Lines before the sentence that the run is charged do not count.
        """
        for line in reversed(self.lines):
            if len(steps := STEPS.findall(line)) == 1:
                return int(steps[0][0]), int(steps[0][1])
            if line.startswith((CHARGED, RESUMING)):
                break
        return None

    @property
    def elapsed(self) -> float:
        """Seconds since the start, or the whole time of a run that has ended."""
        return time.monotonic() - self.began if self.active else self.seconds


class Runs:
    """The runs of a folder, by verb and name of the result; at most one run of each result is active at a time.

    Parameters
    ----------
    folder
        The folder of the page.
    command
        The words that call the command line.
    """

    def __init__(self, folder: Folder, command: Sequence[str] = COMMAND) -> None:
        self.folder, self.command = folder, tuple(command)
        self._runs: dict[tuple[str, str], Run] = {}
        self._lock = threading.RLock()

    def all(self) -> list[Run]:
        """Return the runs of this server, newest first, and then the unfinished trainings of earlier server processes.

        The unfinished trainings are in no particular order; those whose charge is closed are left out.
        """
        with self._lock:
            earlier = {key: run for key, run in self._recorded().items() if key not in self._runs}
            runs = [*reversed(self._runs.values()), *earlier.values()]
        for run in runs:
            run.closed = run.closed or (run.resumable and self._is_closed(run))
        return [run for run in runs if not (run.closed and run.process is None)]

    def find(self, verb: str, out: str) -> Run:
        """Return the run of `verb` with the result `out`; raise `WrongInput` if there is none."""
        run = next((run for run in self.all() if (run.task.verb, run.task.out) == (verb, out)), None)
        if run is None:
            raise WrongInput("expected a run of this page, got another; go back to the list")
        return run

    def start(self, task: Task, *, on_charge: bool = False) -> Run:
        """Start a run, resume the interrupted run of the same task, or return the active run of the same task.

        With `on_charge`, the call fails rather than make a new charge. Raise `WrongInput` if another task with the same
        result is active, or was interrupted and can be resumed.
        """
        with self._lock:
            active = [run for run in self._runs.values() if run.active and run.task.out == task.out]
            if active and active[0].task.words == task.words:
                return active[0]
            if active:
                raise WrongInput(f"another run is using {task.out!r}; let it end, cancel it, or choose another name")
            before = [run for run in self.all() if run.resumable and run.task.out == task.out]
            if before and before[0].task.words != task.words:
                raise WrongInput(
                    f"{task.out!r} belongs to a run that was interrupted; resume it, remove it from the list, or "
                    "choose another name"
                )
            run = self._begin(task, before[0] if before else None, on_charge)
        threading.Thread(target=self._follow, args=(run,), daemon=True).start()
        return run

    def resume(self, run: Run) -> Run:
        """Start the call of `run` again. If `run` was charged, the new call continues on this charge.

        If `run` is known to be charged, the call fails rather than charge again, for example if the data have changed
        since. Raise `WrongInput` if `run` is not resumable.
        """
        if not run.resumable:
            raise WrongInput("expected a run that was interrupted, got another; go back to the list")
        return self.start(run.task, on_charge=run.charged)

    def cancel(self, run: Run) -> None:
        """Interrupt a run as Ctrl-C does, and return at once.

        A timer kills the run if it has not ended after `SECONDS_TO_END` seconds. Nothing is done if the run has ended,
        or was cancelled before.
        """
        if not run.active or run.cancelled:
            return
        run.cancelled = True
        _send(run, interrupt=True)
        killer = threading.Timer(SECONDS_TO_END, _send, (run,))
        killer.daemon = True
        killer.start()

    def forget(self, run: Run) -> None:
        """Remove a run that has ended, and its stored form, from the list; its charge stays in the ledger.

        An active run raises `WrongInput`.
        """
        if run.active:
            raise WrongInput("expected a run that has ended, got one that is running; cancel it first")
        with self._lock:
            self._runs.pop((run.task.verb, run.task.out), None)
            self._forget(run.task)

    def expect_trained(self, model: str) -> None:
        """Raise `WrongInput` if a training of `model`, the name of a model folder, is active."""
        if any(run.active and (run.task.verb, run.task.out) == ("fit", model) for run in self.all()):
            raise WrongInput(f"a run is in progress that trains {model!r}: wait until it has ended")

    def results_of_others(self, form: Mapping[str, str]) -> set[str]:
        """Return the names of the results of active runs, except those that were started with `form`."""
        return {run.task.out for run in self.all() if run.active and run.task.form != form}

    def expect_none(self) -> None:
        """Raise `WrongInput` if a training is active, because no charge must be closed then."""
        if any(run.active and run.task.verb == "fit" for run in self.all()):
            raise WrongInput("expected no training on this page, got one that is running; let it end, or cancel it")

    def close(self) -> None:
        """Interrupt all runs and wait until they have ended, at most `SECONDS_TO_END` seconds; then kill the others.

        A training that was charged can be resumed after the server was started again.
        """
        active = [run for run in self._runs.values() if run.active]
        for run in active:
            self.cancel(run)
        deadline = time.monotonic() + SECONDS_TO_END
        while any(run.active for run in active) and time.monotonic() < deadline:
            time.sleep(0.02)
        for run in active:
            _send(run)

    def _begin(self, task: Task, before: Run | None, on_charge: bool) -> Run:
        """Start the process of a task, and return its run, which is now the newest in the list.

        `before` is the resumable run that it continues, or None; the new run takes over its charge. `on_charge` is as
        in `start`.
        """
        charged, entry = (False, None) if before is None else (before.charged, before.entry)
        only = {ONLY_RESUME: "" if entry is None else str(entry)} if on_charge else {}
        self._remember(task, charged, entry)
        if task.verb == "predict":
            (self.folder.path / PREDICTIONS).mkdir(exist_ok=True)
        process = subprocess.Popen(
            [*self.command, *task.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **only},
            start_new_session=True,
        )
        run = Run(task=task, charged=charged, entry=entry, process=process)
        self._runs.pop((task.verb, task.out), None)  # the newest run is the last
        self._runs[task.verb, task.out] = run
        return run

    def _follow(self, run: Run) -> None:
        """Collect what the process of a run prints until it ends, and then record its exit code and its time.

        The stored form of a training is removed then, unless the training can be resumed.
        """
        process = run.process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            result = threading.Thread(target=self._collect, args=(run, process.stdout), daemon=True)
            result.start()
            for line in process.stderr:
                self._heard(run, self.folder.shown(line.rstrip("\n")))
            result.join()
            code = process.wait()
        with self._lock:
            run.seconds = run.elapsed
            run.code = code
            if not run.resumable:
                self._forget(run.task)

    def _collect(self, run: Run, stream: IO[str]) -> None:
        run.printed += [self.folder.shown(line.rstrip("\n")) for line in stream]

    def _heard(self, run: Run, line: str) -> None:
        if line.startswith((CHARGED, RESUMING)):
            run.charged = True
            if number := ENTRY.fullmatch(line):
                run.entry = int(number[1])
            self._remember(run.task, run.charged, run.entry)
        if not run.cancelled or line.startswith(PROBLEM):  # an interrupted import ends with a traceback
            run.lines.append(line)

    def _records(self) -> Path:
        name = hashlib.sha256(str(self.folder.path).encode()).hexdigest()[:32]
        return ledger_folder() / "ui" / name

    def _record(self, task: Task) -> Path:
        return self._records() / f"{hashlib.sha256(task.out.encode()).hexdigest()[:32]}.json"

    def _is_closed(self, run: Run) -> bool:
        """Whether the charge of a run was closed in its ledger; False if the ledger or the charge is not known."""
        path = self.folder.ledgers().get(run.task.ledger(self.folder))
        if path is None or run.entry is None:
            return False
        with suppress(PrivawareError):
            return run.entry not in [entry.number for entry in unfinished(Ledger.open(path).entries())]
        return False

    def _remember(self, task: Task, charged: bool, entry: int | None) -> None:
        """Record the form of a training, so that it can be resumed later; nothing is recorded for other verbs.

        `charged` is whether the training is charged, and `entry` is the number of its charge in the ledger, if known.
        An earlier record of the same output folder is replaced.
        """
        if task.verb != "fit":
            return
        owner_folder()
        place = self._record(task)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps({"form": dict(task.form), "charged": charged, "entry": entry})
        atomic_write(place, content.encode(), mode=0o600)

    def _forget(self, task: Task) -> None:
        if task.verb == "fit":
            self._record(task).unlink(missing_ok=True)

    def _recorded(self) -> dict[tuple[str, str], Run]:
        """Return the unfinished trainings whose form is stored, by verb and name of the result.

        A training is left out if its form cannot be read or is no longer valid, or if its model exists.
        """
        runs: dict[tuple[str, str], Run] = {}
        for path in sorted(self._records().glob("*.json")):
            with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, PrivawareError):
                facts = json.loads(path.read_bytes())
                task = fit_task(self.folder, facts["form"])
                if not (self.folder.path / task.out / "model.json").exists():
                    runs["fit", task.out] = Run(task=task, charged=facts["charged"] is True, entry=facts.get("entry"))
        return runs


def _send(run: Run, *, interrupt: bool = False) -> None:
    """Send the interrupt signal (with `interrupt`) or the kill signal to all processes of a run, if it is active.

    On a system without POSIX signals, only the process of the run itself is terminated, in both cases.
    """
    if not run.active or run.process is None:
        return
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(run.process.pid, signal.SIGINT if interrupt else signal.SIGKILL)
        else:
            run.process.terminate()
