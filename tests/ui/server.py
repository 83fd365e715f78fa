"""The page of a folder, served for a test."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from privaware.ui import _pages, _server, application

TOKEN = "a-token-of-this-test"
SECONDS = 120
"""Longest time that a page may take until it says what a test waits for."""
STUB = """
import sys, time
from pathlib import Path

def say(line):
    print(line, file=sys.stderr, flush=True)

def option(name):
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}=")), "")

try:
    target, out = option("target"), Path(option("out"))
    if target == "wrong":
        sys.exit("privaware: expected a better target, got 'wrong' of " + str(out))
    if target == "early":
        say("Reading.")
        time.sleep(60)
    if out.is_dir():
        say("Resuming: this run is already charged, and it starts again from the beginning.")
    else:
        out.mkdir()
        say("Charged to the ledger as entry 1.")
        say("step 3 of 12, about 60 s left")
        time.sleep(60 if target == "slow" else 0)
    print("Trained in", out)
except KeyboardInterrupt:
    say("privaware: interrupted; the charge stays in the ledger, and the same command resumes the run")
    sys.exit(130)
"""
"""A command that says what `privaware fit` says: it is slow for the target "slow", and refuses the target "wrong"."""


@dataclass(frozen=True)
class Served:
    """A running page; `ask` is a request with any host, path and headers, as an attacker would write it."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{TOKEN}/"

    def ask(
        self, path: str, *, form: dict[str, str] | None = None, method: str = "", **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            body = None if form is None else urlencode(form)
            connection.request(method or ("GET" if form is None else "POST"), path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def until(self, path: str, words: str, every: float = 0.1) -> str:
        """The page at a path, as soon as it says these words; it is asked again after `every` seconds."""
        deadline = time.monotonic() + SECONDS
        while words not in (text := self.ask(f"/{TOKEN}/{path}")[1]):
            if time.monotonic() > deadline:
                raise TimeoutError(text)
            time.sleep(every)
        return text


@contextmanager
def served(folder: Path, command: Sequence[str] = ()) -> Iterator[Served]:
    """The page of a folder; `command` is called instead of the command line."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        port = bound.getsockname()[1]
        page = application(folder, token=TOKEN, port=port)
        if command:
            page = _pages.guarded(folder, TOKEN, port, command=command)
        server = _server(page)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Served(port)
        finally:
            server.should_exit = True
            thread.join()
