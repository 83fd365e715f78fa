"""Variants of private ranges; `workflow/run/plan.py` takes the variant that costs least together with the learner."""
