"""Writes sbom.json: what a user of the library gets with it, as a CycloneDX bill of materials, from what is installed.

    python benchmarks/bill_of_materials.py            # the product and its extras export and hub
    python benchmarks/bill_of_materials.py --check    # exit code 1 where versions of constraints.txt differ

Tests, the documentation and the peers (neuraloperator, and what it brings: wandb) are not in it: no user gets them.
Hashes of the files that CI installs are in ci-requirements.txt; those of them that are here are taken over.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from halfwave.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "sbom.json"
EXTRAS = ("export", "hub")


def main() -> int:
    if "--check" not in sys.argv:
        write_json(OUT, bill())
        print(f"{OUT.name}: {len(bill()['components'])} components")
        return 0
    pinned, differ = versions(), []
    for part in read_json(OUT)["components"]:
        wanted = pinned.get(normal(part["name"]))
        if wanted is not None and wanted != part["version"].split("+")[0]:
            differ.append(f"{part['name']} {part['version']} is pinned at {wanted}")
    print("\n".join(differ) or "the bill has the pinned versions")
    return int(bool(differ))


def bill() -> dict[str, Any]:
    """The document; without a date or a serial number, so that the same parts give the same bytes."""
    found = closure()
    refs = {name: f"pkg:pypi/{name}@{each.version}" for name, each in found.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component("halfwave", distribution("halfwave"), "application")},
        "components": [component(name, each) for name, each in found.items() if name != "halfwave"],
        "dependencies": [
            {"ref": refs[name], "dependsOn": sorted(refs[part] for part in needs(name, each) if part in refs)}
            for name, each in found.items()
        ],
    }


def closure() -> dict[str, Distribution]:
    """The product and all that it needs, by name."""
    found: dict[str, Distribution] = {}
    waiting = ["halfwave"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += needs(name, found[name])
    return dict(sorted(found.items()))


def needs(name: str, of: Distribution) -> list[str]:
    """Names of the requirements that hold on this machine; of the product with its extras."""
    extras = EXTRAS if name == "halfwave" else ("",)
    asked = [Requirement(text) for text in of.requires or ()]
    return [
        normal(each.name)
        for each in asked
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def component(name: str, of: Distribution, kind: str = "library") -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{of.version}"
    found: dict[str, Any] = {"type": kind, "bom-ref": purl, "name": name, "version": of.version, "purl": purl}
    licence = of.metadata.get("License-Expression") or of.metadata.get("License")
    if licence:
        found["licenses"] = [{"license": {"name": licence.splitlines()[0][:80]}}]
    digest = hashes().get(name)
    return {**found, "hashes": [{"alg": "SHA-256", "content": digest}]} if digest else found


def hashes() -> dict[str, str]:
    """Of the files that CI installs, by name."""
    pattern = re.compile(r"^([\w.-]+)==\S+ --hash=sha256:([0-9a-f]{64})", re.MULTILINE)
    return {normal(name): digest for name, digest in pattern.findall((ROOT / "ci-requirements.txt").read_text())}


def versions() -> dict[str, str]:
    pattern = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
    return {normal(name): version for name, version in pattern.findall((ROOT / "constraints.txt").read_text())}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
