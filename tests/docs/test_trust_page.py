"""docs/trust.md says what the last torture and soak runs found, and they were of a release's size and found nothing."""

import sys
from pathlib import Path

from halfwave.files import read_json

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import trust


def test_the_page_is_what_the_results_say():
    text = trust.PAGE.read_text(encoding="utf-8")
    assert trust.page(text) == text, "python docs/trust.py"


def test_the_runs_were_of_a_releases_size_and_found_nothing():
    found = read_json(trust.TORTURE)
    assert {name: section["bad"] for name, section in found.items() if section["bad"]} == {}
    tried = {name: [row["tried"] for row in found[name]["rows"]] for name in ("mutations", "crafted", "full disks")}
    assert len(tried["mutations"]) >= 23
    assert min(tried["mutations"]) >= 2000
    assert sum(tried["crafted"]) >= 100
    assert sum(tried["full disks"]) >= 10
    kills = {row["name"]: row for row in found["kills"]["rows"]}
    assert set(kills) == {"train", "data", "reproduce", "rollout"}
    assert sum(row["kills"] for row in kills.values()) >= 50
    assert all(row["equal"] == row["rounds"] and not row["failed"] + row["leftovers"] for row in kills.values())
    assert found["few samples"]["sizes"]["samples"] >= 5


def test_no_heap_grows_and_no_file_stays_open():
    soak = read_json(trust.SOAK)
    assert [int(soak[name]) for name in ("steps", "cycles")] == [10_000, 1000]
    for looks in (soak["training"], *soak["readers"].values()):
        assert trust._growth(looks, "heap") < 0.01
        assert looks[-1]["files"] <= looks[0]["files"]
