"""A look at quotation marks ends records where the pattern of a field does, or says that it cannot tell."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data._csv import LINE_END
from privaware.data._quotation import end_of_marked_records

FIELD = rb' *+(?:"(?:[^"]++|"")*+" *+|[^",\r\n ][^,\r\n]*+)?+'
RECORDS = re.compile(rb"(?:(?:%b,)*+%b%b)*+" % (FIELD, FIELD, LINE_END))
FIELDS = st.sampled_from(["", "a", '"a"', '"a\nb"', '"a""b"', ' "a"', 'a"b', '"', '"a,b"', '"a" '])
LINES = st.lists(st.lists(FIELDS, min_size=1, max_size=3).map(",".join), min_size=1, max_size=6).map("\n".join)


def ends_of_records(text: bytes) -> int:
    match = RECORDS.match(text)
    return match.end() if match else 0


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(0, 4))
def test_records_end_where_the_pattern_ends_them(lines: str, cut: int) -> None:
    text = lines.encode()[: len(lines) - cut]
    last = text.rfind(b"\n", 0, -1) + 1
    if last:
        end = end_of_marked_records(text, last, ",")
        assert end in (None, ends_of_records(text[:last]))


def test_usual_records_need_no_closer_look() -> None:
    text = b'"x","y"\n1,"a,\nb"\n2,"c"\n3,"d\n'
    assert end_of_marked_records(text, len(text), ",") == text.index(b"3")
    assert end_of_marked_records(text[:-5], len(text) - 5, ",") == len(text) - 5
    assert end_of_marked_records(b'"x"\n"a\nb","c\n', 13, ",") == 4
