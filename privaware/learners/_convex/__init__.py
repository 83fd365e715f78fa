"""Code shared by the learners with a convex loss: bounded rows, losses, a certified solver and privacy costs."""
