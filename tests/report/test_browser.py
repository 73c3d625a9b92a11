"""The page in a real headless Chromium: tables, pictures, no console messages, no overflow, light and dark."""

import pytest
from browser import CHROMIUM, MISSING, WIDTHS, look_at
from made_up import evidence, panels

from halfwave.report.evidence_files import evidence_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_a_desk_in_light_and_dark(tmp_path, scheme):
    found, console = look_at(evidence_page(evidence()), tmp_path, scheme)
    assert console == []
    for width in WIDTHS:
        at = found[width]
        assert at["overflow"] <= 0, at
        assert at["outside"] == []
        assert at["tables"] == 6
        assert len(at["images"]) == len(panels())
        assert min(at["images"]) > 0
        assert 320 <= min(at["shown"]) <= max(at["shown"]) < width
        assert at["dark"] == (scheme == "dark")
        dark_paper, dark_ink = (sum(_channels(at[name])) < 380 for name in ("background", "ink"))
        assert (dark_paper, dark_ink) == ((True, False) if scheme == "dark" else (False, True))


def test_the_browser_sees_what_is_wrong(tmp_path):
    broken = (
        '<!doctype html><div style="width:2000px">wide</div><img alt="" src="data:image/png;base64,AAAA">'
        "<script>console.error('a made-up error')</script>"
    )
    found, console = look_at(broken, tmp_path, "light")
    assert "a made-up error" in console[0]
    for width in WIDTHS:
        assert found[width]["overflow"] > 0
        assert "DIV." in found[width]["outside"]
        assert found[width]["images"] == [0]
        assert found[width]["tables"] == 0


def _channels(colour):
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
