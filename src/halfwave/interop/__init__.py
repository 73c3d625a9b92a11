"""Weights and models of other libraries."""

from halfwave.interop.convert import convert
from halfwave.interop.neuralop import from_neuralop, to_neuralop_state_dict

__all__ = ["convert", "from_neuralop", "to_neuralop_state_dict"]
