"""One verb a file: plan on public facts, charge, run, release."""
