"""Hashed n-grams of text."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privaware.features.hashed import Hashed


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_hashed_rows_are_bounded_and_independent_of_others(texts: list[str]) -> None:
    hashed = Hashed(slots=64)(np.array(texts, dtype=object))
    assert np.linalg.norm(hashed, axis=1).max() <= 1 + 1e-5
    alone = np.concatenate([Hashed(slots=64)(np.array([text], dtype=object)) for text in texts])
    assert np.array_equal(hashed, alone)


def test_stems_join_forms_of_a_word_and_marks_are_words() -> None:
    stems = Hashed(slots=2**15, words=1, letters=0, stems=4)
    plain = Hashed(slots=2**15, words=1, letters=0)
    letters = Hashed(slots=2**15, words=1, letters=3, stems=4)

    def alike(hashed: Hashed, one: str, other: str) -> float:
        rows = hashed(np.array([one, other], dtype=object))
        return float(rows[0] @ rows[1])

    assert abs(alike(stems, "connect", "connection") - 0.5) < 1e-6
    assert alike(plain, "connect", "connection") == 0.0
    assert alike(stems, "great", "great!") > 0.8 > alike(plain, "great", "great!")
    assert alike(letters, "the", "these") == 0.0  # words of fewer letters have neither stems nor runs


def test_rows_of_older_models_stay_as_they_were() -> None:
    rows = Hashed(slots=16, words=2, letters=3)(np.array(["##tag a b"], dtype=object))
    signs = [0, 0, -1, -2, 0, 2, 0, 0, 1, 2, -2, 0, 0, 1, 1, -2]
    assert np.allclose(rows[0], np.array(signs) / np.sqrt(24), atol=1e-6)
