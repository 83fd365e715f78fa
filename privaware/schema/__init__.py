"""Public facts about a data set, and their TOML file.

A schema holds everything that is public before a row is read: columns with bounds or categories, classes, the declared
number of rows, the privacy unit (`unit`) and the neighbouring relation (`relation`). This package does not read rows.

>>> age = Column(name="age", low=17, high=90, bins=(30, 45, 60))
>>> schema = Schema(columns=(age,), target="income", classes=("<=50K", ">50K"), rows=1000)
>>> schema.task, Schema.parse(schema.toml()) == schema
('classification', True)

Bounds and categories that are not declared have a privacy cost:

>>> schema.bounded, schema.bare().bounded
(True, False)

A learner sees coded columns, which are numbers and categories. A declared column may become several of them:

>>> joined = Column(name="joined", kind="date", low="2015-01-01", high="2025-01-01", parts=("days", "month"))
>>> [column.name for column in Schema(columns=(joined,), classes=("n", "y")).used]
['joined (days)', 'joined (month)']
"""

from privaware.schema._column import DATE_PARTS, KINDS, LARGEST, NOT_USED, CodedColumn, Column, folded
from privaware.schema._schema import GIVEN_BUT_PAID, GIVEN_KINDS, Schema

__all__ = [
    "DATE_PARTS",
    "GIVEN_BUT_PAID",
    "GIVEN_KINDS",
    "KINDS",
    "LARGEST",
    "NOT_USED",
    "CodedColumn",
    "Column",
    "Schema",
    "folded",
]
