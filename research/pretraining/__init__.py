"""How the weights of the priors and of the table network came about: synthetic data, and training on them."""
