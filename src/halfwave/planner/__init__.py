"""What a model will cost, and whether its precision is safe."""

from halfwave.planner.certificate import BlockCertificate, Certificate
from halfwave.planner.certify import certify

__all__ = ["BlockCertificate", "Certificate", "certify"]
