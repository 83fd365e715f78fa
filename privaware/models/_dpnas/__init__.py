"""The cell of DPNAS, and the network with shared weights that holds every cell."""
