"""The card in other formats: valid where a schema can be had, the same facts everywhere, no score but a bought one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import report
from privaware.card import ModelCard, PricedEvent
from privaware.errors import WrongInput
from privaware.events import Unproven
from privaware.report._card_cyclonedx import cyclonedx_bom
from privaware.report._card_nist import nist_items
from privaware.report._card_sacro import sacro_report, sacro_target
from privaware.report._export import FORMATS
from privaware.report._risk import read_audit
from privaware.report._yaml import yaml as written_yaml
from tests.report.pages import card_entries
from tests.report.test_bought_score import SCORE
from tests.report.test_printable import HOSTILE, poisoned
from tests.report.test_risk import AUDIT

OWNER: dict[str, Any] = {
    "name": "Screening",
    "owner": "Town hospital",
    "owner_type": "Government",
    "contact": "x@hospital.example",
    "intended_use": "A second opinion.",
    "intended_users": ["physicians"],
    "not_intended_for": "Decisions alone.",
    "data": "Cells of patients",
    "region": "Wisconsin",
    "sector": "Healthcare",
    "licence": "apache-2.0",
    "limitations": ["only adults"],
}


def folder_of(path: Path, entries: dict[str, Any]) -> Path:
    folder = path / "model"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(entries))
    return folder


def exported(path: Path, to: str, entries: dict[str, Any], **options: Any) -> str:
    """Everything that an export wrote."""
    out = report.export(folder_of(path, entries), to, path / f"out-{to}", **options).out
    return "\n".join(file.read_text() for file in sorted(out.iterdir())) if out.is_dir() else out.read_text()


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_has_the_facts_and_no_score(tmp_path: Path, to: str) -> None:
    entries = card_entries() | {"internal": {"test_score": 0.8642}, "description": OWNER}
    entries["settings"]["accuracy"] = 0.8642
    text = exported(tmp_path, to, entries)
    assert "8642" not in text
    assert not re.search(r"accuracy 0\.|performanceMetrics|model-index", text)
    assert "Screening" in text
    assert "add" in text
    assert re.search(r"1e-0?5|1\.0e-05", text)


@pytest.mark.parametrize("to", ["registry", "huggingface", "cyclonedx", "nist"])
def test_bought_score_is_in_the_card(tmp_path: Path, to: str) -> None:
    assert "0.8712" in exported(tmp_path, to, card_entries() | {"score": SCORE})


@pytest.mark.parametrize("to", ["registry", "huggingface", "cyclonedx"])
def test_sum_of_scores_without_trees_is_not_called_trees(tmp_path: Path, to: str) -> None:
    shape = {"levels": [3], "outputs": 2, "trees": 0, "depth": 3, "waves": 1024, "bent": []}
    text = exported(tmp_path, to, card_entries() | {"architecture": {"name": "trees", **shape}})
    assert "a sum of scores" in text
    assert "trees" not in text


@pytest.mark.parametrize("to", FORMATS)
def test_hostile_text_gives_a_file_that_can_be_read(tmp_path: Path, to: str) -> None:
    yaml = pytest.importorskip("yaml")
    text = exported(tmp_path, to, poisoned(card_entries(), HOSTILE + "\x07\x9f\nend: |\n- x"))
    if to in ("registry", "sacro"):
        assert HOSTILE in json.dumps(yaml.safe_load(text), ensure_ascii=False).replace('\\"', '"')
    elif to == "cyclonedx":
        assert HOSTILE.split('"')[0] in json.loads(text)["metadata"]["component"]["description"]
    else:
        assert "<script>" not in re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)


def test_registry_record_has_the_sections_of_the_registry(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    record = yaml.safe_load(exported(tmp_path, "registry", card_entries(), describe=OWNER))
    assert list(record) == ["url_slug", "deployment"]
    assert re.fullmatch(r"[a-z0-9-]+", record["url_slug"])
    deployment = record["deployment"]
    assert {name: sorted(section) for name, section in deployment.items()} == {
        "basic": sorted(
            [
                "name",
                "data_curators",
                "description",
                "intended_use",
                "data_product_type",
                "data_product_region",
                "publication_date",
                "data_product_sector",
            ]
        ),
        "dp_variant": ["data_domain", "unprotected_quantities", "variant_name"],
        "privacy_loss": ["privacy_parameters", "privacy_parameters_details", "privacy_unit", "privacy_unit_details"],
        "deployment_model": sorted(
            [
                "model_name",
                "model_name_details",
                "actors",
                "release_type",
                "release_type_details",
                "data_source_type",
                "access_type",
                "access_type_details",
            ]
        ),
        "accounting": ["composition", "post_processing"],
        "implementation": ["justification", "mechanisms", "preprocessing_and_hyperparameter_tuning"],
        "administrative": ["registry_authors", "status", "tier"],
    }
    assert deployment["basic"]["data_curators"] == [
        {"data_curator_name": "Town hospital", "data_curator_type": "Government"}
    ]
    assert date.fromisoformat(deployment["basic"]["publication_date"])
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    choices = (deployment["dp_variant"]["variant_name"], deployment["deployment_model"]["model_name"])
    assert choices == ("Approximate DP", "Central")
    assert (deployment["administrative"]["status"], deployment["administrative"]["tier"]) == ("Draft", 3)
    assert not any(token.style in (">", ">-") for token in yaml.scan(written_yaml(record)) if hasattr(token, "style"))


def test_cyclonedx_is_valid_by_its_own_schema(tmp_path: Path) -> None:
    schema = pytest.importorskip("cyclonedx.schema")
    validation = pytest.importorskip("cyclonedx.validation.json")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_7)
    entries = card_entries() | {"score": SCORE, "tensors": "0" * 64, "created": "2026-02-03T10:11:12+00:00"}
    text = exported(tmp_path, "cyclonedx", entries, describe=OWNER)
    assert validator.validate_str(text) is None
    wrong = json.loads(text)
    wrong["metadata"]["component"]["modelCard"]["accuracy"] = "0.9"
    assert validator.validate_str(json.dumps(wrong)) is not None
    assert cyclonedx_bom(ModelCard.from_json(entries)) == cyclonedx_bom(ModelCard.from_json(entries))


def test_huggingface_card_is_read_by_the_hub_s_own_library(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    text = exported(tmp_path, "huggingface", card_entries() | {"score": SCORE}, describe=OWNER)
    card = hub.ModelCard(text)
    data = card.data.to_dict()
    assert (data["license"], data["library_name"], data["pipeline_tag"]) == (
        "apache-2.0",
        "privaware",
        "tabular-classification",
    )
    result = card.data.eval_results[0]
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("accuracy", 0.8712, "Cells of patients")
    assert "## Bias, risks and limitations" in card.text


def test_nist_checklist_names_the_hazards_that_the_card_shows() -> None:
    card = ModelCard.from_json(card_entries())

    def hazards(changed: ModelCard) -> dict[str, str]:
        return {item.factor: item.hazard for item in nist_items(changed)}

    plain = hazards(card)
    assert plain["Epsilon"] == plain["Delta"] == plain["Statement"] == plain["Algorithms and correctness"] == ""
    assert "several rows" in plain["Unit of privacy"]
    guarantee = card.guarantee
    changed = replace(
        card,
        guarantee=replace(guarantee, epsilon=30.0, delta=1e-3, seed=3, certified=False, unit="label"),
        schema=replace(card.schema, reviewed=False),
        events=(PricedEvent(what="draw", event=Unproven(reason="no proof"), epsilon=None),),
    )
    found = hazards(changed)
    assert "is a weak guarantee" in found["Epsilon"]
    assert "1 or more" in found["Delta"]
    assert "only labels" in found["Unit of privacy"]
    assert "not certified" in found["Statement"]
    assert found["Algorithms and correctness"] == "no proof"
    assert "read from the rows without noise" in found["Preprocessing and tuning"]
    assert "seed" in found["Randomness and floating point"]
    searched = replace(card, search={"workflow": "standard"})
    assert hazards(searched)["Preprocessing and tuning"] == "settings were chosen without noise."


def test_sacro_target_has_columns_and_claim_and_no_pickle(tmp_path: Path) -> None:
    target = sacro_target(ModelCard.from_json(card_entries()))
    assert target["features"] == {
        0: {"name": "age", "indices": [0], "encoding": "float"},
        1: {"name": "work", "indices": [1, 2, 3], "encoding": "onehot"},
    }
    assert target["safemodel"][0]["epsilon"] == 1.0
    assert not {"model_type", "model_path"} & set(target)
    assert not [name for name in target if name.endswith("_path") and target[name]]
    assert exported(tmp_path, "sacro", card_entries()).startswith("dataset_name")
    assert [file.name for file in (tmp_path / "out-sacro").iterdir()] == ["target.yaml"]


def test_sacro_report_has_the_audit_in_the_names_of_sacro(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({**AUDIT, "members": 500, "non_members": 480}))
    audit = read_audit(tmp_path)
    assert audit is not None
    card = ModelCard.from_json(card_entries())
    ((name, entry),) = sacro_report(card, audit).items()
    assert name == f"privaware audit one_run_{entry['log_id']}"
    assert entry["log_time"] == "03/02/2026 10:11:12"
    measured = entry["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
    assert measured["AUC"] == 0.61
    assert measured["P_HIGHER_AUC"] < 1e-8
    assert measured["TPR@0.1%"] == 0.2  # named by SACRO-ML after the fraction
    assert measured["Advantage"] == pytest.approx(0.1)
    assert measured["ACC"] == pytest.approx((0.2 * 500 + 0.9 * 480) / 980)
    claims = entry["metadata"]["global_metrics"]
    assert claims["epsilon_lower"] < claims["epsilon_claimed"]
    assert claims["largest_possible_tpr"]["TPR@0.1%"] > 0.1


def test_sacro_s_own_tool_reads_both_files(tmp_path: Path) -> None:
    target = pytest.importorskip("sacroml.attacks.target", reason="sacroml needs an older pandas than privaware")
    formatter = pytest.importorskip("sacroml.attacks.attack_report_formatter")
    folder = folder_of(tmp_path, card_entries())
    (folder / "audit.json").write_text(json.dumps({**AUDIT, "members": 500, "non_members": 480}))
    out = report.export(folder, "sacro", tmp_path / "sacro").out
    loaded = target.Target()
    loaded.load(str(out))
    assert loaded.n_features == 2
    assert loaded.safemodel[0]["delta"] == 1e-5
    reader = formatter.GenerateTextReport()
    reader.process_attack_target_json(str(out / "report.json"), str(out / "target.yaml"))
    reader.export_to_file(str(tmp_path / "summary.txt"))
    assert "linear for income" in (tmp_path / "summary.txt").read_text()


def test_sacro_s_own_attack_runs_on_the_predictions(tmp_path: Path) -> None:
    target = pytest.importorskip("sacroml.attacks.target", reason="sacroml needs an older pandas than privaware")
    worst_case = pytest.importorskip("sacroml.attacks.worst_case_attack")
    rng = np.random.default_rng(0)
    sure, unsure = (1 / (1 + np.exp(-rng.normal(middle, 1, 400))) for middle in (3.0, 0.0))
    predictions = tuple(np.stack([values, 1 - values], axis=1) for values in (sure, unsure))
    folder = folder_of(tmp_path, card_entries())
    out = report.export(folder, "sacro", tmp_path / "sacro", predictions=predictions).out  # type: ignore[arg-type]
    loaded = target.Target()
    loaded.load(str(out))
    assert loaded.has_probas()
    assert loaded.proba_train.shape == (400, 2)
    attack = worst_case.WorstCaseAttack(n_reps=2, n_dummy_reps=0, output_dir=str(tmp_path / "attack"))
    found = attack.attack(loaded)
    measured = found["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
    assert measured["AUC"] > 0.85


def test_export_overwrites_nothing_and_leaves_the_bound_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, card_entries())
    with pytest.raises(WrongInput, match="outside the model folder"):
        report.export(folder, "nist", folder / "nist.md")
    with pytest.raises(WrongInput, match="exists already"):
        report.export(folder, "nist", folder / "model.json")
    with pytest.raises(WrongInput, match="expected to= among registry, huggingface"):
        report.export(folder, "pdf", tmp_path / "x")
    with pytest.raises(WrongInput, match="cannot write the card"):
        report.export(folder, "nist", tmp_path / "nowhere" / "nist.md")
    (folder / "model.json").write_text(
        json.dumps(card_entries() | {"guarantee": card_entries()["guarantee"] | {"epsilon": None}})
    )
    with pytest.raises(WrongInput, match="finite epsilon"):
        report.export(folder, "nist", tmp_path / "nist.md")
    assert [file.name for file in folder.iterdir()] == ["model.json"]


def test_what_the_owner_has_not_stated_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, card_entries())
    assert report.export(folder, "nist", tmp_path / "a.md").missing == ["owner", "intended_use", "data"]
    assert report.export(folder, "nist", tmp_path / "b.md", describe=OWNER).missing == []
