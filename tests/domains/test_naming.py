"""Domains by name, as JSON, and what they say about themselves."""

import json

import pytest

from halfwave.domains import NAMES, Box, Cloud, Sphere, Torus, default_domain, domain_from_dict, domain_named, name_of
from halfwave.errors import InputError

DOMAINS = [Box((1.0, 2.0)), Box((3.0,), "cells"), Torus((1, 2, 3)), Torus((1,), "difference"), Sphere(), Cloud()]


@pytest.mark.parametrize("domain", [*DOMAINS, Sphere("legendre-gauss")], ids=str)
def test_json_gives_back_the_same_domain(domain):
    assert domain_from_dict(json.loads(json.dumps(domain.to_dict()))) == domain


@pytest.mark.parametrize("name", NAMES)
def test_every_name_gives_the_domain_of_that_name(name):
    axes = 0 if name == "cloud" else 2
    domain = domain_named(name, axes)
    assert domain.name == name
    assert len(domain.axes) == len(domain.periodic) == axes
    assert domain.has_grid == (name != "cloud")


@pytest.mark.parametrize("domain", [Box((1.0, 1 / 3)), Torus((2e-7,)), Sphere("legendre-gauss"), Cloud()], ids=str)
def test_a_name_with_sides_says_all(domain):
    assert domain_named(name_of(domain), len(domain.axes)) == domain


def test_sides_are_in_the_name_or_the_files_or_one():
    assert domain_named("torus", 2) == Torus((1.0, 1.0))
    assert domain_named("torus:6.5", 2) == Torus((6.5, 6.5))
    assert domain_named("box-cells:1x2x3", 3) == Box((1.0, 2.0, 3.0), "cells")
    assert domain_named("torus", 2, (4.0, 5.0)) == Torus((4.0, 5.0))
    assert default_domain(1) == Box((1.0,), "cells")


def test_what_follows_from_a_domain():
    assert Sphere().grid(8) == (8, 16)
    assert Torus((1, 1, 1)).grid(8) == (8, 8, 8)
    assert (Sphere().periodic, Sphere().axes) == ((False, True), ("latitude", "longitude"))
    assert Torus((1, 1)).periodic == (True, True)
    assert Box((1, 1)).axes == ("x", "y")
    assert [d.plot for d in (Box((1,)), Torus((1,)), Sphere(), Cloud())] == ["plane", "plane", "map", "points"]
    assert [d.transform for d in (Torus((1,)), Sphere(), Cloud())] == ["fourier", "harmonics", None]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: domain_named("tours", 2), "unknown domain 'tours'; accepted: torus, box, box-cells, sphere"),
        (lambda: domain_named("torus:a", 2), "unknown sides of domain 'torus:a'"),
        (lambda: domain_named("sphere:2", 2), "unknown domain 'sphere:2'"),
        (lambda: domain_named("sphere", 3), "'sphere' does not fit a grid of 3 axes"),
        (lambda: domain_named("torus", 0), "'torus' does not fit point clouds"),
        (lambda: domain_named("box:1x2", 3), "'box:1x2' does not fit a grid of 3 axes"),
        (lambda: Torus((0.0,)), r"lengths are \[0.0\]; 1 to 3 positive numbers"),
        (lambda: Box((1,), "faces"), "points is 'faces'; accepted: nodes, cells"),
        (lambda: Torus((1,), "exact"), "derivative is 'exact'"),
        (lambda: Sphere("healpix"), "points is 'healpix'"),
        (lambda: domain_from_dict({"kind": "disc"}), "a 'kind' is expected, one of box, torus, sphere, cloud"),
        (lambda: domain_from_dict({"kind": "box", "side": 1}), "not the settings of a box"),
        (lambda: domain_from_dict([1]), "not a domain"),
    ],
)
def test_bad_domains_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
