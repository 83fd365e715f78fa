"""The evidence for images is measured, and the stored file has what a measurement gives."""

from __future__ import annotations

import json

from privaware.papers._image_evidence import EPSILONS, measured
from privaware.workflow._image_choice import EVIDENCE


def test_scattering_is_measured_against_pixels_on_the_same_rows() -> None:
    records = measured("digits", rows=150, seeds=1)
    assert [record["epsilon"] for record in records] == list(EPSILONS)
    assert all(record["rows"] == 150 and 0.05 < record["constant"] < 0.3 for record in records)
    assert records[-1]["scores"]["scattering"] > records[-1]["constant"]
    stored = json.loads(EVIDENCE.read_text())
    assert {tuple(record) for record in stored} == {tuple(records[0])}
    assert {tuple(record["scores"]) for record in stored} == {tuple(records[0]["scores"])}
