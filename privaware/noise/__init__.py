"""The only place that draws privacy noise: `Rng` (see `_rng`), from generators keyed with 256 bits (see `_streams`)."""

from privaware.noise._positions import ExampleNumbers, PositionDraws
from privaware.noise._rng import LATTICE, SMEAR, Perturbed, Rng, lattice

__all__ = ["LATTICE", "SMEAR", "ExampleNumbers", "Perturbed", "PositionDraws", "Rng", "lattice"]
