"""Writes the table of `how_to/choose_an_epsilon.md`: what an attacker can gain at each epsilon.

python docs/_epsilon_table.py
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import NormalDist

from privaware import accounting
from privaware.events import Gaussian
from privaware.guarantee import protection

PAGE = Path(__file__).parent / "how_to" / "choose_an_epsilon.md"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0)
DELTA = 1e-5
SUSPICION = 0.1
"""Probability that the attacker gives to "this person was in the data" before seeing the model."""
MARKS = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of the table -->)", re.DOTALL)


def any_mechanism(epsilon: float) -> float:
    """The largest chance of a right guess between two data sets for any mechanism with (epsilon, delta)."""
    return (math.exp(epsilon) + DELTA) / (1 + math.exp(epsilon))


def gaussian_mechanism(epsilon: float) -> float:
    """The same for Gaussian noise, which moves by `1 / noise` standard deviations: `Phi(1 / (2 * noise))`."""
    noise = accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, DELTA)
    return NormalDist().cdf(1 / (2 * noise))


def suspicion(epsilon: float) -> float:
    """The largest probability that `SUSPICION` can become, except with probability delta."""
    odds = math.exp(epsilon) * SUSPICION / (1 - SUSPICION)
    return odds / (1 + odds)


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| epsilon | protection | a guess is right at most | with Gaussian noise at most | "
        "a suspicion of 10% grows to at most |",
        "|---|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        shares = (any_mechanism(epsilon), gaussian_mechanism(epsilon), suspicion(epsilon))
        lines.append(
            f"| {epsilon:g} | {protection(epsilon)} | " + " | ".join(f"{percent(share)}" for share in shares) + " |"
        )
    return "\n".join(lines) + "\n"


def percent(share: float) -> str:
    """A share in per cent, rounded up, because the table states upper bounds."""
    return "almost 100%" if share > 0.999 else f"{math.ceil(1000 * share) / 10:.1f}%"


if __name__ == "__main__":
    PAGE.write_text(MARKS.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
