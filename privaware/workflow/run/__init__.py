"""The steps of one private run: read the source, plan, charge, publish, resume."""
