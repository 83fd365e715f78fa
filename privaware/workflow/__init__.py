"""One verb a file: plan on public facts, charge, run, publish. Private rows are read in `_charged_run` only."""
