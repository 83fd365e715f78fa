"""Numbers with and without bins, missing values and categories: small tables for the tests of learners of tables."""

from __future__ import annotations

from dataclasses import replace

from privaware.schema import Column, Schema

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="score", low=-1, high=1),
    Column(name="job", kind="category", categories=("a", "b", "c"), unseen="other"),
)
TWO = Schema(columns=COLUMNS, classes=("no", "yes"), rows=200)
THREE = replace(TWO, classes=("a", "b", "c"))
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=200)
