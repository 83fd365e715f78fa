"""Draw privacy noise, samples of rows and initial weights. No other package of privaware draws privacy noise.

`Rng` (in `_rng`) draws from generators whose keys have 256 bits (in `_streams`).
"""

from privaware.noise._positions import ExampleNumbers, PositionDraws
from privaware.noise._rng import LATTICE, SMEAR, Perturbed, Rng, lattice

__all__ = ["LATTICE", "SMEAR", "ExampleNumbers", "Perturbed", "PositionDraws", "Rng", "lattice"]
