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
