"""What the learners with a convex loss share: bounded rows, losses, a solver and the price of its error."""
