"""Private rows held against a schema, and the readers that bring them in.

`read` returns a `Raw`: a file as it is (CSV, Parquet, `.npz`, a folder of images by class, a DataFrame), on
the owner's side only. `draft` proposes a schema from it, for a person to confirm; `Data.of` codes the
rows by a schema. Every value ends within what the schema declares, or one sentence names file, line and column
of the one that does not, never the value: `show_values` is for the owner's own screen. `rows_digest` knows the same
rows again.
"""

from privaware.data._data import Data
from privaware.data._digest import array_hashes, row_hashes, rows_digest
from privaware.data._draft import draft, typed
from privaware.data._notices import notices
from privaware.data._read import Raw, read
from privaware.data._values import numbers_among, show_values

__all__ = [
    "Data",
    "Raw",
    "array_hashes",
    "draft",
    "notices",
    "numbers_among",
    "read",
    "row_hashes",
    "rows_digest",
    "show_values",
    "typed",
]
