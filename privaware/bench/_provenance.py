"""Where a cell was measured: the machine, and the commit of the source."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path


def machine(device: str) -> str:
    """Return the processor architecture for "cpu", such as "CPU (x86_64)", else the name of the GPU."""
    if device == "cpu":
        return f"CPU ({platform.machine()})"
    import torch

    return str(torch.cuda.get_device_name())


def commit() -> str:
    """Return the short hash of the source's commit, or "unknown" outside a git clone."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
