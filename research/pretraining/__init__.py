"""The origin of the shipped weights of the priors and of the table network: synthetic data, and training on them."""
