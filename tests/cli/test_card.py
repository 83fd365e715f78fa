"""`privaware card`: the card of a real model, in each format."""

from __future__ import annotations

from pathlib import Path

from tests.cli.people import Run


def test_card_is_written_in_each_format_and_says_what_is_missing(run: Run, model: Path) -> None:
    before = sorted(file.name for file in model.iterdir())
    Path("owner.toml").write_text('owner = "Town hospital"\nintended_use = "Screening."\ndata = "Visits"\n')
    for to in ("registry", "huggingface", "cyclonedx", "nist", "sacro"):
        result = run("card", model, "--to", to, "--out", f"card-{to}", "--describe", "owner.toml", "--json")
        assert result.json["out"] == f"card-{to}"
        assert Path(f"card-{to}").exists()
    assert "Town hospital" in Path("card-nist").read_text()
    assert result.json["missing"] == []
    assert run("card", model, "--to", "nist", "--out", "card-nist").code == 2
    assert run("card", model, "--to", "pdf").code == 2
    assert sorted(file.name for file in model.iterdir()) == before


def test_predictions_for_sacro_are_marked_and_kept_for_the_owner(run: Run, model: Path, people: Path) -> None:
    before = Path(f"{people}.ledger").read_bytes()
    rows = ["--members", people, "--non-members", people]
    result = run("card", model, "--to", "sacro", "--out", "target", *rows)
    assert result.code == 0
    assert "Internal, not for release" in result.err
    folder = Path("target")
    names = {"target.yaml", "proba_train.csv", "proba_test.csv", "OWNER_ONLY.txt"}
    assert {file.name for file in folder.iterdir()} == names
    assert {file.stat().st_mode & 0o077 for file in (folder, *folder.iterdir())} == {0}
    assert "covered by no epsilon" in (folder / "OWNER_ONLY.txt").read_text()
    lines = [[float(value) for value in line.split(",")] for line in (folder / "proba_train.csv").read_text().split()]
    assert len(lines) == len(people.read_text().split()) - 1
    assert all(abs(sum(line) - 1) < 1e-6 for line in lines)
    assert lines == sorted(lines)  # the order of the file is not that of the rows
    assert Path(f"{people}.ledger").read_bytes() == before
    assert "OWNER" not in run("card", model, "--to", "sacro", "--out", "public").out
    assert not Path("public", "proba_train.csv").exists()


def test_predictions_need_both_kinds_of_rows_and_sacro(run: Run, model: Path, people: Path) -> None:
    lonely = run("card", model, "--to", "sacro", "--out", "x", "--members", people)
    assert (lonely.code, "rows that trained the model and other rows" in lonely.err) == (2, True)
    other = run("card", model, "--to", "nist", "--out", "x", "--members", people, "--non-members", people)
    assert (other.code, "with sacro only" in other.err) == (2, True)
    assert not Path("x").exists()
