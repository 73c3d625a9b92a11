"""Weights and models of other libraries."""

from halfwave.interop.neuralop import from_neuralop, to_neuralop_state_dict

__all__ = ["from_neuralop", "to_neuralop_state_dict"]
