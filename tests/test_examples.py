"""Every example runs in an empty folder and says what its page promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "own_learner": "the checks passed",
    "own_training_loop": "noise multiplier",
    "scikit_learn": "at epsilon 2",
    "search": "with the search:",
    "table": "valid: True",
    "torch_module": "accuracy 0.",
}


@pytest.mark.filterwarnings("default::privaware.errors.OpenBoundsWarning")  # a reader of scikit_learn.py sees it
@pytest.mark.parametrize("name", SAYS)
def test_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert SAYS[name] in capsys.readouterr().out


def test_every_example_is_run_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(SAYS)
    assert all(f"`{name}.py`" in listed for name in names)
