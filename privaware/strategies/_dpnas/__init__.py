"""Parts of the DPNAS search: cells, controller, shared weights, checkpoint."""
