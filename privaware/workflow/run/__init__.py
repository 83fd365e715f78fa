"""One private run, step by step: source, plan, charge, publish, resume."""
