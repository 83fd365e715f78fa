"""Private rows coded by a schema, and the readers that load them.

`read` returns a `Raw`: a file as it is (CSV, Parquet, `.npz`, a folder of images by class, a DataFrame), for the owner
only. `draft` proposes a schema from it, which a person confirms. `Data.of` codes the rows by a schema. Every value ends
within the limits that the schema declares; otherwise an error names the file, line and column of the value, but never
the value itself. Only with `show_values` errors show values, for the owner's own screen. `rows_digest` recognises the
same rows again.
"""

from privaware.data._arrays import from_array
from privaware.data._cells import Cells, uncoded_column
from privaware.data._code import coded, days_among
from privaware.data._data import Data, Rows, coded_targets, target_of
from privaware.data._digest import array_cells, array_hashes, row_hashes, rows_digest
from privaware.data._draft import draft, typed
from privaware.data._edges import FARTHEST, Edges
from privaware.data._hashing import hashed_grams
from privaware.data._images import as_bytes, from_bytes, with_images
from privaware.data._kinds import COUNTED, kind_counts, likeliest
from privaware.data._large import LargeRows, LargeTable, coded_rows, large_table
from privaware.data._large_csv import LargeCsv, large_csv
from privaware.data._names import is_identifier_name
from privaware.data._notices import notices, person_columns, repeated_identifiers, unused_columns, unused_index
from privaware.data._outside import Outside
from privaware.data._parts import ChangingParts, HeldParts, LocalParts, Parts, Sum, release
from privaware.data._raw import Raw, labelled, labelled_part, left_out
from privaware.data._read import read, read_names
from privaware.data._sketch import Sketch, cells_sketch, hashes_and_sketch
from privaware.data._streamed import Streamed, first_positions
from privaware.data._values import Spelt, Words, is_missing, numbers_of, show_values, words_of

__all__ = [
    "COUNTED",
    "FARTHEST",
    "Cells",
    "ChangingParts",
    "Data",
    "Edges",
    "HeldParts",
    "LargeCsv",
    "LargeRows",
    "LargeTable",
    "LocalParts",
    "Outside",
    "Parts",
    "Raw",
    "Rows",
    "Sketch",
    "Streamed",
    "Sum",
    "Spelt",
    "Words",
    "array_cells",
    "array_hashes",
    "as_bytes",
    "cells_sketch",
    "coded",
    "coded_rows",
    "coded_targets",
    "days_among",
    "draft",
    "first_positions",
    "from_array",
    "from_bytes",
    "hashed_grams",
    "hashes_and_sketch",
    "is_identifier_name",
    "is_missing",
    "kind_counts",
    "labelled",
    "labelled_part",
    "large_csv",
    "large_table",
    "left_out",
    "likeliest",
    "notices",
    "numbers_of",
    "person_columns",
    "read",
    "read_names",
    "release",
    "repeated_identifiers",
    "row_hashes",
    "rows_digest",
    "show_values",
    "target_of",
    "typed",
    "uncoded_column",
    "unused_columns",
    "unused_index",
    "with_images",
    "words_of",
]
