"""A local web page for a folder: train, predict, audit, change the limit of a ledger, read reports and verdicts.

`serve` binds to 127.0.0.1 only. Every address starts with a random token that only the person who opened the page
knows. Requests with another token or for another host get an empty response. A plan is a dry run. Only a form that is
sent by POST charges or writes, and only inside the folder and the user's data folder of privaware (`ledger_folder`).
Trainings, predictions and audits are calls of the command line in processes of their own. `pip install 'privaware[ui]'`
installs Starlette and uvicorn.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput

__all__ = ["application", "serve"]

HOST = "127.0.0.1"


def application(folder: str | Path, *, token: str, port: int) -> Any:
    """Return the page of a folder as an ASGI application.

    Parameters
    ----------
    folder
        The folder with data, ledgers and models.
    token
        The secret first part of every address.
    port
        The port at which the application is served.

    Returns
    -------
    ASGI application
        The guarded pages. `WrongInput` is raised if Starlette is not installed.
    """
    try:
        from privaware.ui import _pages
    except ModuleNotFoundError as absent:
        if (absent.name or "").split(".")[0] != "starlette":
            raise
        raise WrongInput("privaware ui needs Starlette and uvicorn: pip install 'privaware[ui]'") from None
    return _pages.guarded(Path(folder), token, port)


def serve(folder: str | Path, *, port: int = 0, started: Callable[[str], None]) -> None:
    """Serve the page of a folder until interrupted, and then end its runs.

    Parameters
    ----------
    folder
        The folder with data, ledgers and models. A path that is no folder raises `WrongInput`.
    port
        The port on this machine. 0 chooses a free port. A port that is in use raises `WrongInput`.
    started
        A function that receives the address of the page, with a new token, just before the page is served.
    """
    if not Path(folder).is_dir():
        raise WrongInput(f"expected a folder with ledgers and models, got {str(folder)!r:.120}")
    token = secrets.token_urlsafe(24)
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except (OSError, OverflowError) as problem:
            raise WrongInput(
                f"cannot listen at port {port} of this machine: {problem}; choose another --port"
            ) from None
        bound.listen()
        port = bound.getsockname()[1]
        page = application(folder, token=token, port=port)
        server = _server(page)
        started(f"http://{HOST}:{port}/{token}/")
        server.run(sockets=[bound])


def _server(page: Any) -> Any:
    """Return the uvicorn server of `page`, an ASGI application.

    The server logs warnings and errors with the log handlers of its process. The logging configuration of uvicorn would
    close these handlers, and absl's handler then closes the stream that was standard error when absl was imported.
    """
    import uvicorn

    quiet: dict[str, Any] = {"log_config": None, "log_level": "warning", "access_log": False}
    return uvicorn.Server(uvicorn.Config(page, lifespan="on", timeout_graceful_shutdown=2, **quiet))
