"""What `auto` chooses: `policy.toml`, its interpreter, and the floor below which a constant is trained."""

from privaware.workflow.auto._choice import Choice, Stage, constant_choice
from privaware.workflow.auto._evidence import evidence
from privaware.workflow.auto._facts import FACTS, QUANTITIES
from privaware.workflow.auto._floor import Floor, share_for, strength
from privaware.workflow.auto._policy import Policy, Rule, choose, default_policy

__all__ = [
    "FACTS",
    "QUANTITIES",
    "Choice",
    "Floor",
    "Policy",
    "Rule",
    "Stage",
    "choose",
    "constant_choice",
    "default_policy",
    "evidence",
    "share_for",
    "strength",
]
