"""Parts of the DPNAS search: cells, the controller that proposes them, and shared weights."""
