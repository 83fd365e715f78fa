"""Run the command line as `python -m privaware`."""

from __future__ import annotations

from privaware.cli import main

if __name__ == "__main__":
    main()
