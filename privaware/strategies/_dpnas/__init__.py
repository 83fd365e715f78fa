"""Parts of the search of DPNAS: cells, controller, shared weights, checkpoint."""
