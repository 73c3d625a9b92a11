"""Policy (role -> format), Schedule (progress -> policy), stabilizers."""

from halfwave.precision.policy import BLOCKS, NAMES, ROLES, Policy, as_policy
from halfwave.precision.schedule import Schedule
from halfwave.precision.stabilizers import get_stabilizer, resolve_stabilizer

__all__ = ["BLOCKS", "NAMES", "ROLES", "Policy", "Schedule", "as_policy", "get_stabilizer", "resolve_stabilizer"]
