"""The page of a folder, served for a test."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from privaware.ui import application

TOKEN = "a-token-of-this-test"


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


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    import uvicorn

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        port = bound.getsockname()[1]
        page = application(folder, token=TOKEN, port=port)
        config = uvicorn.Config(page, log_level="error", lifespan="off", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Served(port)
        finally:
            server.should_exit = True
            thread.join()
