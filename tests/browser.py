"""Debian's Chromium without a window, driven over a pipe by its DevTools protocol: no package is needed."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here: `apt-get install chromium` (`make browser` tries it)"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
    "--force-device-scale-factor=1 --font-render-hinting=none --remote-debugging-pipe"
)
EXEC = (
    "import os, sys; from fcntl import fcntl, F_DUPFD as DUP\n"
    "for to, fd in enumerate([fcntl(int(n), DUP, 20) for n in sys.argv[1:3]], 3): os.dup2(fd, to)\n"
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""Chromium reads commands from descriptor 3 and answers on 4."""
SECONDS = 30


class Tab:
    """One tab. `requests` are the addresses it asked for, `problems` what its console complained of."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back = to, back
        self.numbers = itertools.count(1)
        self.rest = b""
        self.session: str | None = None
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command; events that come before it are noted."""
        number = next(self.numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self._until(lambda answer: answer.get("id") == number)

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while True:
            while b"\0" not in self.rest:
                if not select.select([self.back], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise TimeoutError("Chromium did not answer")
                part = os.read(self.back, 1 << 20)
                if not part:
                    raise EOFError("Chromium has ended")
                self.rest += part
            first, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(first)
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            self._note(answer)
            if wanted(answer):
                return answer.get("result", {})

    def _note(self, answer: dict[str, Any]) -> None:
        method, facts = answer.get("method"), answer.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(facts["exceptionDetails"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.problems.append(facts["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.problems.append(str(facts["args"]))

    def show(self, address: str | Path, *, width: int = 800, height: int = 1000, dark: bool = False) -> None:
        """Opens a page in this size and colour, and waits until it is loaded."""
        self.requests, self.problems = [], []
        self.size(width, height)
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.open(address.as_uri() if isinstance(address, Path) else address)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """The value of an expression of the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression of the page is true."""
        deadline = time.monotonic() + SECONDS
        quiet = f"(() => {{ try {{ return !!({script}); }} catch {{ return false; }} }})()"
        while True:
            with suppress(RuntimeError):  # the page was exchanged in between
                if self.run(quiet):
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(script)
            time.sleep(0.02)

    def picture(self, selector: str = "body") -> np.ndarray:
        """What an element looks like: grey from 0 to 1, one number a pixel."""
        from PIL import Image

        box = self.run(
            f"(e => {{ const r = e.getBoundingClientRect();"
            f" return [r.x + scrollX, r.y + scrollY, r.width, r.height]; }})(document.querySelector({selector!r}))"
        )
        clip = dict(zip(("x", "y", "width", "height"), box)) | {"scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("L")) / 255.0


@contextmanager
def chromium() -> Iterator[Tab]:
    """A tab of a browser of its own, ended with the block."""
    assert CHROMIUM is not None
    there, to = os.pipe()
    back, here = os.pipe()
    words = [sys.executable, "-c", EXEC, str(there), str(here), CHROMIUM, *FLAGS.split()]
    process = subprocess.Popen(words, pass_fds=(there, here), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(there)
    os.close(here)
    try:
        yield Tab(to, back)
    finally:
        os.close(to)
        process.terminate()
        process.wait(SECONDS)
        os.close(back)
