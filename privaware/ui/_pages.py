"""The pages: everything is rendered here, and a plan or a verdict is the answer to a form.

Only the holder of the token may ask, for this host and from this page. Everybody else gets an empty answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privaware import registry, report
from privaware._version import __version__
from privaware.card import ModelCard
from privaware.errors import PrivawareError, WrongInput
from privaware.ledger import Ledger, explained_lines
from privaware.report import _words
from privaware.ui._folder import Folder, model_summary
from privaware.workflow.fit import fit
from privaware.workflow.verify import verify

__all__ = ["Guard", "guarded"]

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
METHODS = ("GET", "HEAD", "POST")


class Guard:
    """Admits only requests to `/TOKEN/...` at 127.0.0.1 or localhost on this port.

    The host is checked, so that a foreign name that resolves to this machine is not served. A POST from another page
    names its origin, and is refused even with the right token.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._admits(scope):
            if scope["type"] == "http":
                await PlainTextResponse("", status_code=403, headers=HEADERS)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [pair for pair in message["headers"] if pair[0].decode() not in HEADERS] + own
            await send(message)

        inner = dict(scope) | {"path": scope["path"][len(self.token) + 1 :], "root_path": ""}
        await self.app(inner, receive, send_guarded)

    def _admits(self, scope: Scope) -> bool:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        named = [value.decode("latin-1") for value in headers.get(b"host", [])]
        first, _, rest = str(scope["path"]).removeprefix("/").partition("/")
        token = secrets.compare_digest(first.encode(), self.token.encode())
        good = token and len(named) == 1 and named[0] in self.hosts and scope["method"] in METHODS
        return good and "/" in scope["path"][1:] and self._own_origin(headers, scope, rest)

    def _own_origin(self, headers: dict[bytes, list[bytes]], scope: Scope, rest: str) -> bool:
        if scope["method"] != "POST":
            return True
        origins: list[Any] = [value.decode("latin-1") for value in headers.get(b"origin", [])]
        site = [value for value in headers.get(b"sec-fetch-site", []) if value not in (b"same-origin", b"none")]
        return not site and all(origin in {f"http://{host}" for host in self.hosts} for origin in origins)


MAX_FORM_BYTES = 20_000
"""Size in bytes above which a submitted form is ignored."""

ASSETS = {"style.css": "text/css", "script.js": "text/javascript"}
NUMBERS = ("epsilon", "delta")


def guarded(folder: Path, token: str, port: int) -> Guard:
    """Return all pages of a folder behind the guard."""
    pages = _Pages(Folder(folder.resolve()))
    routes = [
        Route("/", pages.home),
        Route("/ledger/{name:path}", pages.ledger),
        Route("/model/{name:path}", pages.model, methods=["GET", "POST"]),
        Route("/report/{name:path}", pages.report),
        Route("/plan", pages.plan, methods=["GET", "POST"]),
        *(Route(f"/{name}", _asset(name, kind)) for name, kind in ASSETS.items()),
    ]
    return Guard(Starlette(routes=routes), token, port)


class _Pages:
    """One method for each page; each reads the folder again, so that a reload shows its current content."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    async def home(self, request: Request) -> Response:
        def view() -> dict[str, Any]:
            ledgers, models = self.folder.summaries()
            return {"folder": self.folder.path.name, "ledgers": ledgers, "models": models}

        return await _answer(lambda: _page("home.html", up=".", **view()), up=".")

    async def ledger(self, request: Request) -> Response:
        name, up = request.path_params["name"], _up(request)
        view = lambda: _ledger_view(_known(self.folder.ledgers(), name))  # noqa: E731
        return await _answer(lambda: _page("ledger.html", up=up, **view()), up=up)

    async def model(self, request: Request) -> Response:
        name, up = request.path_params["name"], _up(request)
        form = await _form(request) if request.method == "POST" else None

        def view() -> dict[str, Any]:
            return _model_view(_known(self.folder.models(), name), name, self.folder.ledgers(), form)

        return await _answer(lambda: _page("model.html", up=up, **view()), up=up)

    async def report(self, request: Request) -> Response:
        """Render the report of a model, with its audit if there is one."""
        name = request.path_params["name"]

        def rendered() -> Response:
            folder = _known(self.folder.models(), name)
            card = ModelCard.read(folder)
            return HTMLResponse(report.page(card, report.read_audit(folder), report.released_tensors(folder, card)))

        return await _answer(rendered, up=_up(request))

    async def plan(self, request: Request) -> Response:
        form = await _form(request) if request.method == "POST" else {}

        def view() -> dict[str, Any]:
            choices = {"data": self.folder.data(), "learners": ["auto", *registry.names("learners")]}
            return {**choices, "form": form, "plan": self._planned(form) if form else None}

        return await _answer(lambda: _page("plan.html", up=".", **view()), up=".")

    def _planned(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Plan without training or charging (a dry run)."""
        name, files = form.get("data", ""), self.folder.data_files()
        if name not in files and name not in registry.names("datasets"):
            raise WrongInput("expected data among those of the folder or built in; choose one of the list")
        options: dict[str, Any] = {key: form[key] for key in ("target", "learner") if form.get(key)}
        options |= {key: _number(key, form[key]) for key in NUMBERS if form.get(key)}
        planned = fit(str(files.get(name, name)), **{"epsilon": 1.0, **options}, dry_run=True)
        return {
            "learner": planned.learner,
            "epsilon": _words.rounded_up(planned.epsilon),
            "delta": _words.rounded_up(planned.delta),
            "sentences": [_words.tidy(line, planned.epsilon) for line in planned.plan],
            "sentence": _words.tidy(planned.sentence, planned.epsilon),
            "assumptions": planned.assumptions,
        }


def _ledger_view(path: Path) -> dict[str, Any]:
    facts = Ledger.open(path).json()
    charges = [
        {"number": entry["number"], "time": entry["time"], "who": entry["who"], "what": entry["what"]}
        | {"epsilon": _words.rounded_up(entry["epsilon"])}
        for entry in facts["events"]
    ]
    return {
        "name": path.name,
        "spent": _words.rounded_up(facts["epsilon_spent"]),
        "limit": _words.number(facts["limit"]),
        "delta": _words.number(facts["delta"]),
        "share": f"{min(100.0, 100 * facts['epsilon_spent'] / facts['limit']):.1f}",
        "unit": facts["unit"],
        "charges": charges,
        "explained": [_words.tidy(line, facts["epsilon_spent"]) for line in explained_lines(facts)],
        "problems": Ledger.verify(path),
    }


def _model_view(path: Path, name: str, ledgers: Mapping[str, Path], form: Mapping[str, str] | None) -> dict[str, Any]:
    view: dict[str, Any] = {"name": name, "ledgers": list(ledgers), "model": model_summary(path), "verdict": None}
    if form is not None:
        chosen = form.get("ledger", "")
        if chosen and chosen not in ledgers:
            raise WrongInput("expected a ledger of the folder; choose one of the list")
        verdict = verify(path, ledger=ledgers[chosen] if chosen else None)
        view["verdict"] = verdict.json() | {"ledger": chosen}
    return view


def _known(paths: Mapping[str, Path], name: str) -> Path:
    if name not in paths:
        raise WrongInput("expected the name of something in this folder, got another; go back to the list")
    return paths[name]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongInput(f"expected {name} as a number, got {text!r:.40}") from None


def _up(request: Request) -> str:
    """Return the relative path from an address back to the start page."""
    return "/".join([".."] * request.url.path.count("/", 1)) or "."


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


async def _answer(page: Callable[[], Response], *, up: str) -> Response:
    """Render a page in a thread; an error becomes one sentence that names no path."""
    try:
        return await run_in_threadpool(page)
    except PrivawareError as problem:
        sentence = " ".join(str(problem).split())
    except OSError as problem:
        sentence = (
            f"cannot read a file of this folder ({problem.strerror or type(problem).__name__}); load the page again"
        )
    return _page("problem.html", up=up, status=400, problem=sentence)


def _page(template: str, *, up: str, status: int = 200, **values: Any) -> Response:
    shown = _templates().get_template(template).render(up=up, version=__version__, **values)
    return HTMLResponse(shown, status_code=status)


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(loader=PackageLoader("privaware", "ui"), autoescape=True, undefined=StrictUndefined)


def _asset(name: str, kind: str) -> Callable[[Request], Response]:
    content = (Path(__file__).parent / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint  # type: ignore[return-value]
