"""Each mistake that others shipped is a test of ours, named after it."""

from __future__ import annotations

import re
from pathlib import Path

LATER = {
    18: "private kNN: comes with that learner",
    19: "two-stage label training: comes with that learner",
    22: "DPGEN: comes with that learner, labelled as without a guarantee",
    36: "a habit, not a function: results give means and spread over at least five seeds",
}


def test_every_pitfall_has_a_test_or_a_reason() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    named = {int(number) for name in re.findall(r"def test((?:_p\d+)+)_", tests) for number in re.findall(r"\d+", name)}
    assert named | set(LATER) == set(range(1, 39))
    assert not named & set(LATER)
