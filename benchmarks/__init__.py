"""Long measurements, run by hand and recorded in docs/results."""
