"""Each sentence that `fit` and `verify` print is printed where it is true, and not where it is false."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privaware
from privaware.errors import WrongInput
from tests.cli.people import Run, write_people

FIT = ("fit", "people.csv", "--target", "y", "--learner", "majority", "--out", "m")
DECLARED = ("fit", "people.csv", "--schema", "people.toml", "--learner", "linear", "--out", "m")
BUILT_IN = ("fit", "wisconsin", "--learner", "majority", "--out", "m")


@pytest.mark.parametrize(
    ("words", "where", "nowhere"),
    [
        ("This is a strong guarantee", FIT, (*FIT, "--epsilon", "3")),
        ("This is a moderate guarantee", (*FIT, "--epsilon", "3"), FIT),
        ("This is a weak guarantee", (*FIT, "--epsilon", "30"), FIT),
        ("is right at most", FIT, (*FIT, "--epsilon", "100")),
        ("does not exclude that an attacker", (*FIT, "--epsilon", "100"), FIT),
        ("SEEDED, NOT FOR RELEASE", (*FIT, "--seed", "1"), FIT),
        ("This bound is not certified.", (*FIT, "--seed", "1"), FIT),
        ("although its ranges and categories were read from the rows", (*FIT, "--accept-schema"), FIT),
        ("Not reviewed: this schema was read from the rows", (*FIT, "--accept-schema"), FIT),
        ("Dry run: nothing was charged", (*FIT, "--dry-run"), FIT),
        ("Model folder: m", FIT, (*FIT, "--dry-run")),
        ("Charged to the ledger as entry 1.", FIT, (*FIT, "--dry-run")),
        ("Internal, not for release: test accuracy", (*FIT, "--test", "test.csv"), FIT),
        ("Part of the budget (epsilon", ("fit", "people.csv", "--target", "y", "--dry-run"), DECLARED),
        ("Assumed to be public: the number of rows", FIT, DECLARED),
        ("Data: people.csv, 300 rows", FIT, BUILT_IN),
        ("Protected: the label of one row.", (*DECLARED, "--unit", "label"), DECLARED),
        ("Learner: majority, as requested.", FIT, DECLARED),
    ],
)
def test_fit_prints_each_sentence_only_where_it_is_true(
    run: Run, people: Path, words: str, where: tuple[str, ...], nowhere: tuple[str, ...]
) -> None:
    write_people(people.with_name("test.csv"), rows=50, seed=5)
    printed = []
    for at, command in enumerate((where, nowhere)):
        result = run(*("m" + str(at) if word == "m" else word for word in command), "--ledger", f"{at}.ledger")
        assert result.code == 0, result.err
        printed.append(words.replace("folder: m", f"folder: m{at}") in result.out + result.err)
    assert printed == [True, False]


def test_both_accountants_and_guarantee_print_one_epsilon(run: Run, people: Path) -> None:
    """One epsilon is rounded one way: up, to four digits."""
    fitted = run("fit", people, "--schema", "people.toml", "--learner", "linear", "--out", "m")
    verified = run("verify", "m")
    report = Path("m/report.html").read_text()
    shown = fitted.out.split("(epsilon ")[1].split(")")[0]
    assert f"Cost: epsilon {shown} at delta 1e-5" in fitted.err
    assert f"epsilon by pld {shown}," in verified.out
    assert "Each of these epsilons is an upper bound for the same delta" in verified.out
    assert f"<dt>epsilon</dt><dd>{shown}</dd>" in report
    assert f"total epsilon {shown} at delta 1e-5" in report


@pytest.mark.parametrize(
    ("options", "keywords", "words", "python"),
    [
        (("--encoding", "klingon"), {"encoding": "klingon"}, "expected --encoding as", "expected encoding= as"),
        (("--sep", ",", "--decimal", ","), {"sep": ",", "decimal": ","}, "--sep and --decimal", "sep= and decimal="),
        (("--unit", "twon"), {"unit": "twon"}, "expected --unit among", "expected unit= among"),
        (("--target", "twon"), {"target": "twon"}, "did you mean 'town'", "did you mean 'town'"),
    ],
)
def test_settings_are_named_as_the_caller_writes_them(
    run: Run, people: Path, options: tuple[str, ...], keywords: dict[str, str], words: str, python: str
) -> None:
    refused = run("fit", people, "--target", "y", *options)
    assert (refused.code, words in refused.err, "=" in refused.err) == (2, True, False)
    with pytest.raises(WrongInput) as problem:
        privaware.fit(people, epsilon=1.0, **{"target": "y", **keywords})
    assert python in str(problem.value)
    assert "--" not in str(problem.value)


def test_verbose_plan_names_the_kinds_known_before_the_charge(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = ["late", "fine", "wrong", "item", "very", "quick"]
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 90, 300),
            "note": [" ".join(draw.choice(words, 4)) for _ in range(300)],
            "town": draw.choice(["Ulm", "Bonn"], 300),
            "when": pd.date_range("2024-01-01", periods=300),
            "y": draw.choice(["no", "yes"], 300),
        }
    )
    frame.to_parquet("typed.parquet")
    frame.to_csv("text.csv", index=False)
    known = ["Columns read as numbers: 'age'.", "Columns read as dates: 'when'.", "Columns read as free text: 'note'."]
    plan = ("--target", "y", "--learner", "linear", "--dry-run")
    said = run("fit", "typed.parquet", *plan, "--verbose").err
    assert all(sentence in said for sentence in (*known, "part of the budget estimates: 'town'."))
    assert "read as numbers" not in run("fit", "typed.parquet", *plan).err
    said = run("fit", "text.csv", *plan, "--verbose").err
    assert "Columns read as free text: 'note'." in said
    assert "part of the budget estimates: 'age', 'town', 'when'." in said
    Path("kinds.toml").write_text('age = "number"\ntown = "category"\nwhen = "date"\nnote = "text"\n')
    said = run("fit", "text.csv", *plan, "--verbose", "--kinds", "kinds.toml").err
    assert all(sentence in said for sentence in (*known, "Columns read as categories: 'town'."))
    assert "part of the budget estimates:" not in said
