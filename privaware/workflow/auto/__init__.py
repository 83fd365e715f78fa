"""How `auto` chooses a learner: by the rules in `policy.toml`, and a constant below a least signal (`Floor`)."""

from privaware.workflow.auto._choice import Choice, Stage, beside_columns, constant_choice, reads_texts
from privaware.workflow.auto._considered import CHECKED, SEARCHED, considered, settled
from privaware.workflow.auto._evidence import evidence
from privaware.workflow.auto._facts import FACTS, QUANTITIES
from privaware.workflow.auto._floor import Floor, share_for, strength
from privaware.workflow.auto._policy import Policy, Rule, choose, choose_with_texts, default_policy

__all__ = [
    "CHECKED",
    "FACTS",
    "QUANTITIES",
    "SEARCHED",
    "Choice",
    "Floor",
    "Policy",
    "Rule",
    "Stage",
    "beside_columns",
    "choose",
    "choose_with_texts",
    "considered",
    "constant_choice",
    "default_policy",
    "evidence",
    "reads_texts",
    "settled",
    "share_for",
    "strength",
]
