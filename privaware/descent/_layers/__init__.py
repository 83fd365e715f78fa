"""Per-example gradients of one kind of layer a file; `rules` finds the rule for a layer."""
