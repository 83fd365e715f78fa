"""Start the command line, as `privaware` or `python -m privaware`; Ctrl-C in its imports ends it in one sentence."""

from __future__ import annotations

import os
import signal
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Import the command line, then run one command with the arguments of this process, which exits."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _interrupted)
    from privaware.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _interrupted(*_: Any) -> None:
    os.write(2, b"privaware: interrupted; this command charged nothing\n")
    os._exit(130)


if __name__ == "__main__":
    main()
