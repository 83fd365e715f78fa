"""The pages, behind the guard of `_guard.py`; only a form that is sent by POST charges or writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from privaware import registry, report
from privaware._version import __version__
from privaware.card import ModelCard
from privaware.errors import PrivawareError, WrongInput, naming_options
from privaware.ledger import NOT_RESUMED, Ledger, explained_lines, ledger_rows, unit_words
from privaware.report import _words
from privaware.ui._folder import Folder, model_summary
from privaware.ui._guard import Guard
from privaware.ui._plan import column_names, planned_view
from privaware.ui._runs import COMMAND, PROBLEM, Run, Runs
from privaware.ui._tasks import Task, audit_task, fit_task, number_of, predict_task, with_labels
from privaware.workflow.run.other_ledgers import SameRows
from privaware.workflow.verify import verify

__all__ = ["Guard", "guarded"]

MAX_FORM_BYTES = 20_000
"""Size in bytes above which a submitted form is ignored."""

ASSETS = {"style.css": "text/css", "script.js": "text/javascript"}
TITLES = {"fit": "Train", "predict": "Predict", "audit": "Audit"}


def guarded(folder: Path, token: str, port: int, *, command: Sequence[str] = COMMAND) -> Guard:
    """Return the ASGI application with all pages of a folder, behind the guard for `token` and `port`.

    `command` has the words that start the command line, which runs trainings, predictions and audits. When the server
    ends, their processes are ended.
    """
    found = Folder(folder.resolve())
    runs = Runs(found, command)
    pages = _Pages(found, runs)
    both = ["GET", "POST"]
    routes = [
        Route("/", pages.home),
        Route("/plan", pages.plan, methods=both),
        Route("/fit", pages.fit, methods=["POST"]),
        Route("/predict", pages.predict, methods=both),
        Route("/ledger/{name:path}", pages.ledger, methods=both),
        Route("/model/{name:path}", pages.model, methods=both),
        Route("/audit/{name:path}", pages.audit, methods=["POST"]),
        Route("/report/{name:path}", pages.report),
        Route("/file/{name:path}", pages.file),
        Route("/run/{verb}/{name:path}", pages.run, methods=both),
        *(Route(f"/{name}", _asset(name, kind)) for name, kind in ASSETS.items()),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(runs.close)

    return Guard(Starlette(routes=routes, lifespan=lifespan), token, port)


class _Pages:
    """One method for each page; each reads the folder again, so that a reload shows its current content."""

    def __init__(self, folder: Folder, runs: Runs) -> None:
        self.folder, self.runs = folder, runs

    async def home(self, request: Request) -> Response:
        def page() -> Response:
            ledgers, models = self.folder.summaries()
            lists: dict[str, Any] = {
                "data": list(self.folder.data_files()),
                "predictions": list(self.folder.predictions()),
            }
            runs = [_run_view(run) for run in self.runs.all()]
            name = self.folder.path.name
            return _page("home.html", up=".", folder=name, runs=runs, ledgers=ledgers, models=models, **lists)

        return await self._answer(page, up=".")

    async def plan(self, request: Request) -> Response:
        """Show the form of a training; a form that was sent by POST is planned, without training or charging.

        A request by GET fills the form with the values of its query.
        """
        posted = request.method == "POST"
        form = await _form(request) if posted else dict(request.query_params)

        def page() -> Response:
            return self._plan_page(form, plan=planned_view(self.folder, form) if posted and form else None)

        return await self._answer(page, up=".", again=lambda problem: self._plan_page(form, problem=problem))

    async def fit(self, request: Request) -> Response:
        """Start the charged training that the posted form describes, in a process, and redirect to the page of its run.

        A form that is refused is shown again with the reason.
        """
        form = await _form(request)
        again = lambda problem: self._plan_page(form, problem=problem)  # noqa: E731
        return await self._started(lambda: fit_task(self.folder, form), up=".", again=again)

    async def predict(self, request: Request) -> Response:
        form = await _form(request) if request.method == "POST" else dict(request.query_params)

        def page(problem: str = "") -> Response:
            choices = {"models": list(self.folder.models()), **self._data_choices()}
            return _page("predict.html", up=".", status=400 if problem else 200, problem=problem, form=form, **choices)

        def empty_form() -> Response:
            self.runs.expect_trained(form.get("model", ""))
            return page()

        def task() -> Task:
            self.runs.expect_trained(form.get("model", ""))
            return predict_task(self.folder, form, self.runs.results_of_others(form))

        if request.method != "POST":
            return await self._answer(empty_form, up=".", again=page)
        return await self._started(task, up=".", again=page)

    async def run(self, request: Request) -> Response:
        """Show the run that the address names; a posted form with an `action` changes it and redirects.

        The action is "cancel", "resume" or "forget" (remove the run from the list). Another action is answered with a
        problem.
        """
        up, at = _up(request), (request.path_params["verb"], request.path_params["name"])
        action = (await _form(request)).get("action", "") if request.method == "POST" else None

        def page() -> Response:
            run = self.runs.find(*at)
            if action is None:
                return _page("run.html", up=up, folder=self.folder.path.name, **_run_view(run, self.folder))
            if action not in ("cancel", "resume", "forget"):
                raise WrongInput("expected to cancel, resume or forget a run, got another request")
            getattr(self.runs, action)(run)
            return _see(up) if action == "forget" else _see(up, "run", *at)

        return await self._answer(page, up=up)

    async def ledger(self, request: Request) -> Response:
        """Show a ledger; a posted form sets its `limit`, or closes a run that was charged and has not finished.

        The entry `close` of the form is the number of the charge. A closed charge stays spent, and no run resumes on
        it. Nothing is closed while a training of this page is active. A change that is refused shows the page again
        with the reason.
        """
        name, up = request.path_params["name"], _up(request)
        form = await _form(request) if request.method == "POST" else None
        typed = "" if form is None else form.get("limit", "")

        def page(problem: str = "") -> Response:
            view = _ledger_view(_known(self.folder.ledgers(), name), self.folder)
            return _page("ledger.html", up=up, status=400 if problem else 200, problem=problem, typed=typed, **view)

        def changed() -> Response:
            ledger = Ledger.open(_known(self.folder.ledgers(), name))
            if form and "close" in form:
                self.runs.expect_none()
                ledger.close(int(form["close"]) if form["close"].isdecimal() else -1)
            else:
                ledger.set_limit(number_of("the limit", typed))
            return _see(up, "ledger", name)

        return await (self._answer(page, up=up) if form is None else self._answer(changed, up=up, again=page))

    async def model(self, request: Request) -> Response:
        """Show a model; a posted form verifies it (`verify`), also against the ledger that the form names, if any."""
        name, up = request.path_params["name"], _up(request)
        form = await _form(request) if request.method == "POST" else None
        return await self._answer(lambda: self._model_page(name, up, form), up=up)

    async def audit(self, request: Request) -> Response:
        """Start an audit of the model in the address, with the settings of the posted form, in a process of its own.

        The audit attacks the mechanism on crafted rows. The response leads to the page of the run. A form that is
        refused is shown again with the reason.
        """
        name, up = request.path_params["name"], _up(request)
        form = await _form(request)
        again = lambda problem: self._model_page(name, up, None, audit=form, problem=problem)  # noqa: E731
        return await self._started(lambda: audit_task(self.folder, name, form), up=up, again=again)

    async def report(self, request: Request) -> Response:
        """Render the report of a model, with its audit if there is one; `?save` offers it as a file.

        `?released` leaves the audit out, as in the report that was released with the model.
        """
        name, save = request.path_params["name"], "save" in request.query_params
        released = "released" in request.query_params

        def rendered() -> Response:
            self.runs.expect_trained(name)
            folder = _known(self.folder.models(), name)
            card = ModelCard.read(folder)
            audit = None if released else report.read_audit(folder)
            page = report.page(card, audit, report.released_tensors(folder, card))
            kind = "report" if audit is None else "audit"  # as the files in the folder are called
            disposition = f"attachment; filename*=UTF-8''{quote(folder.name)}-{kind}.html"
            return HTMLResponse(page, headers={"content-disposition": disposition} if save else None)

        return await self._answer(rendered, up=_up(request))

    async def file(self, request: Request) -> Response:
        """Offer the file with predictions that the address names as a download."""
        name = request.path_params["name"]

        def offered() -> Response:
            path = _known(self.folder.predictions(), name)
            return FileResponse(path, filename=path.name)

        return await self._answer(offered, up=_up(request))

    def _plan_page(
        self, form: Mapping[str, str], *, plan: Mapping[str, Any] | None = None, problem: str = ""
    ) -> Response:
        columns = [] if problem else column_names(self.folder, form)
        choices = {
            **self._data_choices(),
            "learners": ["auto", *registry.names("learners")],
            "ledgers": list(self.folder.ledgers()),
            "schemas": list(self.folder.schemas()),
        }
        values = {"form": form, "columns": columns, "plan": plan, "problem": problem, "listed": "list" in form}
        return _page("plan.html", up=".", status=400 if problem else 200, **choices, **values)

    def _model_page(
        self,
        name: str,
        up: str,
        form: Mapping[str, str] | None,
        *,
        audit: Mapping[str, str] | None = None,
        problem: str = "",
    ) -> Response:
        """Return the page of a model; a `form` verifies it with the ledger that the form names, if any.

        `up` is the relative path to the start page. `audit` is what was typed into the form of an audit that was
        refused, and `problem` says why. The status is 400 with a `problem`, else 200. Raise `WrongInput` for a model or
        a ledger that is not in the folder.
        """
        self.runs.expect_trained(name)
        path, ledgers = _known(self.folder.models(), name), self.folder.ledgers()
        verdict: dict[str, Any] | None = None
        if form is not None:
            chosen = form.get("ledger", "")
            if chosen and chosen not in ledgers:
                raise WrongInput("expected a ledger of the folder; choose one of the list")
            verdict = verify(path, ledger=ledgers.get(chosen)).json() | {"ledger": chosen}
        shown = {"name": name, "ledgers": list(ledgers), "model": model_summary(path), "verdict": verdict}
        audited = (path / "audit.json").is_file()
        status = 400 if problem else 200
        return _page("model.html", up=up, status=status, audit=audit or {}, problem=problem, audited=audited, **shown)

    def _data_choices(self) -> dict[str, list[str]]:
        return {"data": list(self.folder.data_files()), "built_in": registry.names("datasets")}

    async def _started(self, task: Callable[[], Task], *, up: str, again: Callable[[str], Response]) -> Response:
        """Start the run of the task that `task` returns, and redirect to the page of the run.

        `up` is the relative path to the start page. If the task cannot start, `again` renders the form with the reason.
        """

        def started() -> Response:
            run = self.runs.start(task())
            return _see(up, "run", run.task.verb, run.task.out)

        return await self._answer(started, up=up, again=again)

    async def _answer(
        self, page: Callable[[], Response], *, up: str, again: Callable[[str], Response] | None = None
    ) -> Response:
        """Render a page in a thread; an error becomes one sentence, with paths of the folder relative to it.

        `again` renders the form with what was typed and the sentence. Without it the sentence is a page of its own,
        with status 400. `up` is the relative path from the page to the start page. Only a `PrivawareError` and an
        `OSError` are caught.
        """
        with naming_options():  # a page turns options into the labels of its fields
            try:
                return await run_in_threadpool(page)
            except PrivawareError as problem:
                sentence = self.folder.shown(" ".join(str(problem).split()))
            except OSError as problem:
                why = problem.strerror or type(problem).__name__
                sentence = f"cannot read a file of this folder ({why}); load the page again"
        if again is not None:
            return await self._answer(lambda: again(sentence), up=up)
        return _page("problem.html", up=up, status=400, problem=sentence)


def _run_view(run: Run, folder: Folder | None = None) -> dict[str, Any]:
    """Return the values that the list of runs shows about a run; with `folder`, also those that its own page shows."""
    task = run.task
    view: dict[str, Any] = {"verb": task.verb, "out": task.out, "state": run.state, "resumable": run.resumable}
    view["title"] = f"{TITLES[task.verb]} {task.out}"
    if folder is None:
        return view
    return view | {
        "active": run.active,
        "command": task.command(folder),
        "lines": [line for line in run.lines if line != f"{PROBLEM}{run.problem}"],
        "printed": run.printed,
        "problem": run.problem,
        "progress": run.progress,
        "seconds": round(run.elapsed),
        "charged": run.charged,
        "form": task.form,
        "predicted": task.out if task.out in folder.predictions() else "",
        "model": task.out if task.out in folder.models() else "",
        "ledger": task.ledger(folder),
        "closed": run.closed,
    }


def _ledger_view(path: Path, folder: Folder) -> dict[str, Any]:
    ledger = Ledger.open(path)
    facts = ledger.json(totals=True)
    others = [f"{line[0].upper()}{line[1:]}." for line in SameRows.of_ledger(ledger).sentences(during_run=False)]
    explained = [*others, *explained_lines(facts)]
    return {
        "name": path.name,
        "spent": _words.rounded_up(facts["epsilon_spent"]),
        "limit": _words.rounded_up(facts["limit"]),
        "delta": _words.number(facts["delta"]),
        "share": f"{min(100.0, 100 * facts['epsilon_spent'] / facts['limit']):.1f}",
        "unit": unit_words(facts),
        "entries": ledger_rows(facts),
        "open": [(entry["number"], entry["what"], not entry["run"].startswith(NOT_RESUMED)) for entry in facts["open"]],
        "explained": [_words.tidy(folder.shown(line), facts["epsilon_spent"]) for line in explained],
        "problems": Ledger.verify(path),
    }


def _known(paths: Mapping[str, Path], name: str) -> Path:
    if name not in paths:
        raise WrongInput("expected the name of something in this folder, got another; go back to the list")
    return paths[name]


def _see(up: str, *parts: str) -> Response:
    """Redirect to another page after a change, so that loading it again changes nothing.

    `up` is the relative path to the start page, and `parts` is the path of the other page; without `parts` it is the
    start page.
    """
    return RedirectResponse("/".join([up, *map(quote, parts)]) if parts else f"{up}/", status_code=303)


def _up(request: Request) -> str:
    """Return the relative path from the address of `request` back to the start page, such as "." or "../..".

    It has no slash at its end.
    """
    return "/".join([".."] * request.url.path.count("/", 1)) or "."


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _page(template: str, *, up: str, status: int = 200, **values: Any) -> Response:
    shown = _templates().get_template(template).render(up=up, version=__version__, **values)
    return HTMLResponse(shown, status_code=status)


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(loader=PackageLoader("privaware", "ui"), autoescape=True, undefined=StrictUndefined)
    templates.filters["labels"] = with_labels
    return templates


def _asset(name: str, kind: str) -> Callable[[Request], Response]:
    content = (Path(__file__).parent / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint  # type: ignore[return-value]
