"""Files of Stata, SPSS and SAS read as the tables that were written."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import fit, load
from privaware.data import draft, read, typed
from privaware.errors import WrongInput

FRAME = pd.DataFrame(
    {
        "price": [1.5, np.nan, 20.25],
        "town": pd.Categorical(["Köln", "Bonn", "Köln"], categories=["Aachen", "Bonn", "Köln"]),
        "day": pd.to_datetime(["2020-02-01", "2021-12-31", None]),
        "note": ["all fine", "", "late"],
        "y": ["no", "yes", "yes"],
    }
)


def test_stata_labels_are_categories_and_none_is_public(tmp_path: Path) -> None:
    FRAME.to_stata(tmp_path / "d.dta", write_index=False, version=118)
    raw = read(tmp_path / "d.dta")
    frame = raw.frame
    assert frame is not None
    assert np.array_equal(frame["price"], FRAME["price"], equal_nan=True)
    assert frame["town"].tolist() == FRAME["town"].tolist()
    assert frame["day"].tolist()[:2] == FRAME["day"].tolist()[:2]
    columns = {column.name: column for column in typed(raw, target="y").bare().columns}
    kinds = {name: column.kind for name, column in columns.items()}
    assert kinds == {"price": "number", "town": "category", "day": "date", "note": "undecided"}
    assert columns["town"].categories == ()
    assert draft(raw, target="y").columns[1].categories == ("Bonn", "Köln")


def test_a_model_is_fitted_on_and_predicts_a_stata_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=400)
    pd.DataFrame({"x": x, "y": np.where(x > 0, "yes", "no")}).to_stata(tmp_path / "d.dta", write_index=False)
    fit(tmp_path / "d.dta", target="y", epsilon=8.0, out=tmp_path / "model", seed=1)
    pd.DataFrame({"x": [-2.0, 2.0]}).to_stata(tmp_path / "new.dta", write_index=False)
    assert load(tmp_path / "model").predict(tmp_path / "new.dta").tolist() == ["no", "yes"]


def ibm(number: float) -> bytes:
    """Eight bytes of a transport file: a sign, an exponent of 16 and a fraction."""
    if np.isnan(number):
        return b"." + bytes(7)
    if number == 0:
        return bytes(8)
    sign, fraction, exponent = (0x80 if number < 0 else 0), abs(number), 64
    while fraction >= 1:
        fraction, exponent = fraction / 16, exponent + 1
    while fraction < 1 / 16:
        fraction, exponent = fraction * 16, exponent - 1
    return bytes([sign | exponent]) + int(fraction * 2**56).to_bytes(7, "big")


def transport(rows: list[tuple[float, str]]) -> bytes:
    """A transport file of SAS with a number x and a text y of eight letters."""

    def line(text: str) -> bytes:
        return text.encode().ljust(80)

    def variable(kind: int, number: int, name: str, at: int) -> bytes:
        head = struct.pack(">hhhh8s40s8shhh2s8shhl", kind, 0, 8, number, name.ljust(8).encode(), b" " * 40, b" " * 8,
                           0, 0, 0, b"  ", b" " * 8, 0, 0, at)  # fmt: skip
        return head.ljust(140, b"\0")

    stamp, zeros = "01JAN24:00:00:00", "0" * 30
    body = b"".join(ibm(x) + y.encode().ljust(8) for x, y in rows)
    variables = (variable(1, 1, "X", 0) + variable(2, 2, "Y", 8)).ljust(320)
    return b"".join(
        [
            line(f"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!{zeros}  "),
            line(f"SAS     SAS     SASLIB  9.4     X64{' ' * 29}{stamp}"),
            line(stamp),
            line("HEADER RECORD*******MEMBER  HEADER RECORD!!!!!!!000000000000000001600000000140  "),
            line(f"HEADER RECORD*******DSCRPTR HEADER RECORD!!!!!!!{zeros}  "),
            line(f"SAS     D       SASDATA 9.4     X64{' ' * 29}{stamp}"),
            line(stamp),
            line("HEADER RECORD*******NAMESTR HEADER RECORD!!!!!!!000000000200000000000000000000  "),
            variables,
            line(f"HEADER RECORD*******OBS     HEADER RECORD!!!!!!!{zeros}  "),
            body.ljust(-(-len(body) // 80) * 80),
        ]
    )


def test_a_transport_file_of_sas_keeps_its_zeros(tmp_path: Path) -> None:
    (tmp_path / "d.xpt").write_bytes(transport([(0.0, "no"), (-2.5, "yes"), (float("nan"), "no"), (1e6, "yes")]))
    frame = read(tmp_path / "d.xpt").frame
    assert frame is not None
    assert np.array_equal(frame["X"], [0.0, -2.5, np.nan, 1e6], equal_nan=True)
    assert frame["Y"].tolist() == ["no", "yes", "no", "yes"]
    assert typed(read(tmp_path / "d.xpt"), target="Y").columns[0].kind == "number"


def test_an_spss_file_reads_as_it_was_written(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat", reason="pyreadstat is not installed")
    coded = FRAME.assign(town=FRAME["town"].cat.codes.astype(float)).drop(columns="day")
    labels = {"town": {0.0: "Aachen", 1.0: "Bonn", 2.0: "Köln"}}
    pyreadstat.write_sav(coded, str(tmp_path / "d.sav"), variable_value_labels=labels)
    raw = read(tmp_path / "d.sav")
    frame = raw.frame
    assert frame is not None
    assert frame["town"].tolist() == ["Köln", "Bonn", "Köln"]
    assert np.array_equal(frame["price"], FRAME["price"], equal_nan=True)
    kinds = {column.name: column.kind for column in typed(raw, target="y").columns}
    assert kinds == {"price": "number", "town": "category", "note": "undecided"}


def test_spss_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.sav").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(WrongInput, match=r"privaware\[spss\]"):
        read(tmp_path / "d.sav")


@pytest.mark.parametrize(("name", "kind"), [("d.dta", "a Stata file"), ("d.xpt", "a SAS"), ("d.sas7bdat", "a SAS")])
def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"Qcanary, nothing of the kind" * 40)
    with pytest.raises(WrongInput, match=f"expected '{name}' as {kind}") as refused:
        read(tmp_path / name)
    assert "Qcanary" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
