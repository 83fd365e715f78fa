"""A SACRO-ML target and attack report, for the tool of an output checker; it contains no row and no pickle.

`target.yaml` describes the model and its columns. If the model folder has an audit, `report.json` holds it in the form
of an attack report: the claimed epsilon, and what was measured on crafted canaries. With predictions for members and
non-members, SACRO-ML can attack the model again. Such predictions are for the owner of the rows only.
"""

from __future__ import annotations

import json
import uuid
from statistics import NormalDist
from typing import Any

import numpy as np

from privaware.card import ModelCard
from privaware.report._card_facts import architecture_name, model_name, stated
from privaware.report._risk import FPRS, AuditRecord, largest_rates
from privaware.report._sentences import data_name, guarantee_words
from privaware.report._yaml import yaml

Predictions = tuple[np.ndarray, np.ndarray]
"""Class probabilities of members and of non-members, each of shape (rows, classes)."""
OWNER_ONLY = "OWNER_ONLY.txt"
WARNING = (
    "For the owner of the rows only: the predictions in this folder were computed from private rows and are covered by "
    "no epsilon. Do not publish them, nor what an attack on them finds.\n"
)


def sacro_files(card: ModelCard, audit: AuditRecord | None, predictions: Predictions | None = None) -> dict[str, str]:
    """Return the texts of the files for SACRO-ML, by name of the file; nothing is written.

    `target.yaml` is always there, `report.json` only with an `audit`. With `predictions` there are also
    `proba_train.csv` (members) and `proba_test.csv` (non-members), which `target.yaml` then names, and a warning in
    `OWNER_ONLY.txt`.
    """
    target, files = sacro_target(card), {}
    if predictions is not None:
        names = ("proba_train", "proba_test")
        files = {f"{name}.csv": _lines(rows) for name, rows in zip(names, predictions, strict=True)}
        files[OWNER_ONLY] = WARNING
        target |= {f"{name}_path": f"{name}.csv" for name in names} | {"owner_only": True}
    if audit is not None:
        files["report.json"] = json.dumps(sacro_report(card, audit), indent=4, allow_nan=False) + "\n"
    return {"target.yaml": yaml(target), **files}


def _lines(rows: np.ndarray) -> str:
    """Return `rows`, an array of shape (rows, classes), as comma-separated lines without a header.

    Lines are sorted by the first value, then by the second and so on, so that their order reveals nothing about a row.
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    return "".join(",".join(repr(float(value)) for value in row) + "\n" for row in ordered)


def sacro_target(card: ModelCard) -> dict[str, Any]:
    """Return the content of `target.yaml`: the names of data and model, the columns, and the claimed guarantee.

    It names no type of model, so SACRO-ML does not unpickle any file.
    """
    guarantee = card.guarantee
    claim = {
        "attack": "differential privacy",
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "unit": guarantee.unit,
        "relation": guarantee.relation,
        "certified": guarantee.certified,
        "sentence": guarantee_words(card),
    }
    return {
        "dataset_name": stated(card, "data", data_name(card) or card.schema.target),
        "dataset_module_path": "",
        "features": _features(card),
        "safemodel": [claim],
        "model_name": model_name(card),
        "model_params": {"learner": card.learner, "architecture": architecture_name(card)},
        "n_samples": card.schema.rows,
    }


def _features(card: ModelCard) -> dict[int, dict[str, Any]]:
    """Return the columns of a table as its learner sees them, by their number from 0; empty for images and texts.

    Each has `name`, `encoding` ("onehot" or "float") and `indices`, the positions of its inputs in a row whose
    categories are one-hot encoded: a category has one input for each of its categories, any other column has one.
    """
    shown: dict[int, dict[str, Any]] = {}
    start = 0
    for at, column in enumerate(card.schema.used if card.schema.form == "table" else ()):
        several = column.kind == "category"
        width = max(len(column.categories), 1) if several else 1
        encoding = "onehot" if several else "float"
        shown[at] = {"name": column.name, "indices": list(range(start, start + width)), "encoding": encoding}
        start += width
    return shown


def sacro_report(card: ModelCard, audit: AuditRecord) -> dict[str, Any]:
    """Return the content of `report.json`: the `audit` of the model as an attack report of SACRO-ML.

    It is a dict with one entry, from the name of the report to the report. The name and the entry `log_id` are
    functions of `audit` and of the hash of the model's tensors. So the same audit of the same model always has the same
    name.
    """
    name = f"privaware audit {audit.attack}"
    identity = str(uuid.uuid5(uuid.NAMESPACE_OID, f"privaware {card.tensors} {audit!r}"))
    day, clock = card.created[:10], card.created[11:19]
    report = {
        "log_id": identity,
        "log_time": f"{day[8:10]}/{day[5:7]}/{day[:4]} {clock}",
        "metadata": {
            "attack_name": name,
            "attack_params": {"attack": audit.attack, "canaries": "crafted rows, none of the data"},
            "global_metrics": {
                "epsilon_claimed": audit.epsilon_claimed,
                "epsilon_lower": audit.epsilon_lower,
                "delta": audit.delta,
                "confidence": audit.confidence,
                "refuted": audit.refuted,
                "assumes": audit.assumes,
                "largest_possible_tpr": _largest(card),
            },
            "target_model": model_name(card),
        },
        "attack_experiment_logger": {"attack_instance_logger": {"instance_0": _instance(audit)}},
    }
    return {f"{name}_{identity}": report}


def _largest(card: ModelCard) -> dict[str, float]:
    rates = largest_rates(card).trade_off
    return {f"TPR@{fpr:g}%": rates.power(fpr) for fpr in FPRS}


def _instance(audit: AuditRecord) -> dict[str, Any]:
    """Return the measured rates of `audit` under the names that SACRO-ML uses.

    `TPR` and `FPR` are the rates of the measured point with the largest difference `TPR - FPR`. `TPR@0.1%` and so on
    name a fraction, not a percentage: the largest true positive rate at a false positive rate of at most 0.1. The
    accuracy and the p-value of the AUC are left out if the audit does not record the numbers of members and
    non-members.
    """
    members, others = audit.members, audit.non_members
    corner = max(audit.roc, key=lambda point: point[1] - point[0], default=(0.0, 0.0))
    fprs, tprs = zip(*((0.0, 0.0), *audit.roc), strict=True)
    metrics: dict[str, Any] = {
        "AUC": audit.auc,
        "Advantage": max(corner[1] - corner[0], 0.0),
        "TPR": corner[1],
        "FPR": corner[0],
        "fpr": list(fprs),
        "tpr": list(tprs),
        **{f"TPR@{fpr:g}%": max((tpr for at, tpr in audit.roc if at <= fpr), default=0.0) for fpr in FPRS},
    }
    if members and others:
        deviation = ((members + others + 1) / (12 * members * others)) ** 0.5
        metrics |= {
            "ACC": (corner[1] * members + (1 - corner[0]) * others) / (members + others),
            "P_HIGHER_AUC": NormalDist().cdf((0.5 - audit.auc) / deviation),
            "n_pos_test_examples": members,
            "n_neg_test_examples": others,
        }
    return metrics
