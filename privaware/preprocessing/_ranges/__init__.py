"""Variants of private ranges; `workflow/run/plan.py` takes the one that costs least beside the learner."""
