"""`privaware account`: DP-SGD priced and calibrated."""

from __future__ import annotations

import pytest

from tests.cli.people import Run


def test_account_prices_a_run_and_calibrates_it(run: Run) -> None:
    sizes = ("--rows", 60000, "--batch", 256, "--epochs", 1.5, "--delta", "1e-5")
    priced = run("account", "dpsgd", *sizes, "--noise", 1.1, "--json").json
    assert priced["rate"] == 256 / 60000
    assert priced["steps"] == 352  # 1.5 x 60000 / 256 = 351.6, rounded up
    assert priced["epsilon"]["pld"] < priced["epsilon"]["rdp"] < priced["epsilon"]["rdp_classic"]
    aimed = run("account", "dpsgd", *sizes, "--epsilon", priced["epsilon"]["pld"], "--json").json
    assert aimed["noise"] == pytest.approx(1.1, rel=1e-3)
    assert aimed["epsilon"]["pld"] <= priced["epsilon"]["pld"]


def test_account_takes_the_delta_of_fit(run: Run) -> None:
    sizes = ("--batch", 256, "--epochs", 1, "--noise", 1.1)
    assert run("account", "dpsgd", "--rows", 50_000, *sizes, "--json").json["delta"] == 1e-5
    assert run("account", "dpsgd", "--rows", 1_000_000, *sizes, "--json").json["delta"] == 1e-7
    refused = run("account", "dpsgd", "--rows", 1000, *sizes, "--delta", 0.1)
    assert (refused.code, "expected delta well below 1 / rows" in refused.err) == (2, True)
