"""Domains: where a field lives, and what follows from it. Box, Torus, Sphere, Cloud."""

from halfwave.domains.box import Box
from halfwave.domains.cloud import Cloud
from halfwave.domains.domain import Domain
from halfwave.domains.naming import NAMES, default_domain, domain_from_dict, domain_named, name_of, read_name
from halfwave.domains.sphere import Sphere
from halfwave.domains.sphere_grids import SPHERE_GRIDS, SphereGrid, latitudes
from halfwave.domains.symmetry import SYMMETRIES, check_symmetries, moved
from halfwave.domains.torus import Torus

__all__ = [
    "NAMES",
    "SPHERE_GRIDS",
    "SYMMETRIES",
    "Box",
    "Cloud",
    "Domain",
    "Sphere",
    "SphereGrid",
    "Torus",
    "check_symmetries",
    "default_domain",
    "domain_from_dict",
    "domain_named",
    "latitudes",
    "moved",
    "name_of",
    "read_name",
]
