"""The cell of DPNAS, and the network with shared weights that contains every cell."""
