"""Policy (role -> format), Schedule (progress -> policy), stabilizers, and the module that computes under a policy."""

from halfwave.precision.module import PolicyModule, warn_of
from halfwave.precision.policy import BLOCKS, NAMES, PRECISIONS, ROLES, SPECTRAL_ROLES, Policy, as_policy
from halfwave.precision.resolved import Resolved
from halfwave.precision.schedule import Schedule
from halfwave.precision.stabilizers import check_stabilizer, get_stabilizer, resolve_stabilizer

__all__ = [
    "BLOCKS",
    "NAMES",
    "PRECISIONS",
    "ROLES",
    "SPECTRAL_ROLES",
    "Policy",
    "PolicyModule",
    "Resolved",
    "Schedule",
    "as_policy",
    "check_stabilizer",
    "get_stabilizer",
    "resolve_stabilizer",
    "warn_of",
]
