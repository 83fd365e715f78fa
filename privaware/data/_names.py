"""What the name of a column says about it, which is public whatever the rows are."""

from __future__ import annotations

import re

__all__ = ["is_identifier_name", "is_person_name", "words_of_name"]

IDENTIFIERS = frozenset(("id", "ids", "uuid", "guid", "rowid", "unnamed"))
"""Words that mark the name of an identifier."""
PERSONS = frozenset(
    ("account", "client", "customer", "employee", "member", "owner", "patient", "person", "student", "subject", "user")
)
"""Words for a person: alone, or before a word such as `name`, `number`, `id` or `code`, they name persons."""
ROLES = frozenset(("member", "owner"))
"""Words for a person that alone often say whether someone has this role."""
NUMBERED = frozenset(("card", "credit", "invoice", "order", "passport", "policy", "record", "serial", "ticket"))
"""Words for things with a unique number."""
CONTACTS = frozenset(
    ("email", "mail", "phone", "telephone", "mobile", "fax", "ssn", "passport", "iban", "surname", "lastname")
)
"""Last words of the names of columns that identify persons."""
BEFORE_NAME = PERSONS | {"name", "first", "last", "full", "given", "family", "middle", "maiden", "nick"}
"""Words that together with `name` identify a person."""
NUMBERS = frozenset(("number", "no", "nr"))
UNNAMED = re.compile(r"column_\d+")
"""Pattern of the name of a column without a name, usually an index that was written with the table."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def words_of_name(name: str) -> list[str]:
    """Return the words of a name in lower case; capitals separate words too.

    >>> words_of_name("customerID_no"), words_of_name("E-Mail")
    (['customer', 'id', 'no'], ['e', 'mail'])
    """
    return [word.lower() for word in WORD.findall(name)]


def is_identifier_name(name: str) -> bool:
    """Return whether `name` names identifiers of rows or persons.

    >>> [is_identifier_name(name) for name in ("patientId", "row id", "paid", "email", "product_name", "card number")]
    [True, True, False, True, False, True]
    """
    words = words_of_name(name)
    numbered = len(words) > 1 and words[-1] in NUMBERS and words[-2] in NUMBERED
    return bool(IDENTIFIERS & set(words)) or numbered or is_person_name(name)


def is_person_name(name: str) -> bool:
    """Return whether `name` names persons, or something that only one person has.

    >>> [is_person_name(name) for name in ("customer", "customer_type", "user_id", "full name", "phone", "member")]
    [True, False, True, True, True, False]
    """
    words = words_of_name(name)
    if not words:
        return False
    *before, last = words
    if last in CONTACTS or (last in PERSONS - ROLES and not before):
        return True
    if last == "name":
        return set(before) <= BEFORE_NAME
    return last in IDENTIFIERS | NUMBERS | {"key", "code"} and bool(PERSONS & set(before))
