"""Takes the picture of a real report that the README shows: fits wisconsin at epsilon 1 and opens the page in Chromium.

python docs/_picture.py [docs/report.png]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import privaware

WIDTH, HEIGHT = 860, 2290
COLOURS = 64


def picture(out: Path) -> None:
    """A model, its report, and the top of that page as a small PNG."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("expected Chromium to open the report with, found none: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        privaware.fit("wisconsin", epsilon=1.0, out=folder / "model")
        shot = folder / "shot.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
        page = (folder / "model" / "report.html").as_uri()
        subprocess.run([browser, *flags, f"--screenshot={shot}", page], check=True, capture_output=True, timeout=120)
        Image.open(shot).convert("RGB").quantize(COLOURS).save(out, optimize=True)


if __name__ == "__main__":
    picture(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("report.png"))
