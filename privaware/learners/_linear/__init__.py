"""Pieces of the learner `linear`: clipped gradient sums, comparison with a constant, and weights of feature blocks."""
