"""Parts of the learner `linear`: its gradient, sums over parts, comparison with a constant, weights of networks."""
