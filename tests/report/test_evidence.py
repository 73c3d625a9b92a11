"""The evidence as page, Markdown and CSV."""

import csv
import re
from html.parser import HTMLParser

import pytest
from made_up import comparison, evidence, panels

from halfwave.report.evidence import Evidence, span
from halfwave.report.evidence_files import EvidenceFiles, evidence_page
from halfwave.report.figures import describe

VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Follows the tags of a page: what is open, which ids there are, where links go, texts of badges and captions."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.images, self.counts = [], [], [], [], {}

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "img":
            self.images.append(found)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    files = EvidenceFiles(tmp_path_factory.mktemp("evidence") / "page.html")
    files.write(evidence())
    return files


@pytest.fixture(scope="module")
def html(files):
    return files.page.read_text(encoding="utf-8")


def test_tags_are_balanced_links_lead_somewhere_and_nothing_is_outside_the_file(html):
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert {"#overview", "#memory", "#tf32", "#unet", "#peer"} <= set(reader.links)
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert all(image["src"].startswith("data:image/png;base64,") for image in reader.images)
    assert [image["alt"] for image in reader.images] == [describe(panel) for panel in panels()]
    assert reader.counts["table"] == reader.counts["caption"] == 3
    assert "script" not in reader.counts
    assert "http" not in html


def test_the_paper_stands_beside_ours_and_names_are_escaped(html):
    assert '<th colspan="2" scope="colgroup" class="group gap">relative L2 on the test split</th>' in html
    assert '<td class="paper gap">0.03</td><td class="ours">3.333</td>' in html
    assert "method | &lt;precision&gt;" in html
    assert "<precision>" not in html


def test_the_overview_counts_every_status(html):
    assert evidence().counts == {
        "confirmed": 1,
        "not confirmed": 1,
        "not measured": 1,
        "changed by hand": 1,
        "missing": 1,
    }
    for status in evidence().counts:
        assert f"<b>1</b>{status}" in html


def test_a_file_that_was_changed_comes_first_and_has_no_table(html):
    assert html.index("results/small/unet.csv was changed by hand") < html.index("<h2>Overview")
    section = html[html.index('<section id="unet"') : html.index('<section id="peer"')]
    assert "changed by hand" in section
    assert "<table" not in section


def test_question_claim_verdict_command_setting_and_machine_are_there(html):
    section = html[html.index('<section id="memory"') : html.index('<section id="tf32"')]
    for text in (
        "Is memory &lt; anything &amp; everything?",
        "The paper: It is.",
        "Not confirmed at this scale: the error rose by 9% (what held: memory fell by 40%).",
        "halfwave reproduce memory --scale small",
        "2 measured points: seed=0|1",
        "A processor, 2 cores",
        "2026-01-02 03:04 UTC to 2026-01-03 03:04 UTC, 12 s",
    ):
        assert text in section


def test_the_same_evidence_gives_the_same_page(html):
    assert evidence_page(evidence()) == html


def test_markdown_has_the_same_tables_and_its_pictures_exist(files):
    text = files.markdown.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert pictures == ["plots/overview.png"]
    assert (files.page.parent / pictures[0]).read_bytes().startswith(b"\x89PNG")
    tables = [line for line in text.splitlines() if line.startswith("| Navier-Stokes | half |")]
    assert tables == ["| Navier-Stokes | half | diverged | 0.02 | 2.333 |"] * 3
    assert "method \\| <precision>" in text
    assert "A note with \\<b\\>" in text


def test_the_csv_has_each_figure_once_and_unrounded(files):
    with open(files.table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * len(comparison().lines)
    assert rows[1] == {
        "experiment": "overview",
        "scale": "small",
        "status": "confirmed",
        "row": "dataset=Navier-Stokes; method | <precision>=full",
        "figure": "relative L2 on the test split",
        "paper": "0.0",
        "ours": "0.3333333333333333",
    }


def test_a_picture_goes_with_its_result(tmp_path):
    stale = tmp_path / "plots" / "unet.png"
    stale.parent.mkdir()
    stale.write_bytes(b"old")
    gone = [finding for finding in evidence().findings if finding.name == "unet"]
    files = EvidenceFiles(tmp_path / "page.html")
    for _ in range(2):
        files.write(Evidence("small", tuple(gone)))
        assert stale.exists(), "no report has shown it: it is somebody else's"
    files.markdown.write_text("![unet](plots/unet.png)")
    files.write(Evidence("small", tuple(gone)))
    assert not stale.exists()


def test_dates_are_a_span():
    assert span(()) == "no date"
    assert span(("b", "a", "c")) == "a to c"
    assert span(("a", "a")) == "a"
