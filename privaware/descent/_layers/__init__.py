"""Layer rules: how per-example gradients are computed for each type of layer. `rules` finds the rule of a layer."""
