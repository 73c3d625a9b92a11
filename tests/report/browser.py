"""A page in a real browser, without a driver.

Chromium opens a test page that holds it in frames of several widths, writes down what it finds there, and prints it.
"""

import html
import json
import os
import re
import shutil
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "PAGE NOT LOOKED AT: no Chromium on PATH (Debian package `chromium`, see CONTRIBUTING)"
WIDTHS = (375, 1280)
_SCHEMES = {"dark": 0, "light": 1}

_CHECK = """
window.onload = () => {  // after the load of the frames and of all that is in them
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const inner = frame.contentDocument, width = frame.contentWindow.innerWidth;
    const style = frame.contentWindow.getComputedStyle(inner.body);
    const outside = [...inner.body.querySelectorAll("*")].filter(
      e => !e.parentElement.closest(".scroll") && e.getBoundingClientRect().right > width + 0.5);
    found[frame.width] = {
      overflow: inner.documentElement.scrollWidth - width,
      outside: outside.map(e => e.tagName + "." + e.className),
      tables: [...inner.querySelectorAll("table")].filter(t => t.rows.length > 1 && t.offsetHeight > 0).length,
      images: [...inner.images].map(image => image.naturalWidth),
      shown: [...inner.images].map(image => image.getBoundingClientRect().width),
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
      background: style.backgroundColor,
      ink: style.color,
    };
  }
  document.getElementById("found").textContent = JSON.stringify(found);
};
"""


def look_at(page, directory, scheme):
    """What Chromium finds in the HTML text `page` at each of `WIDTHS`, and its console messages."""
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{html.escape(page)}"></iframe>'
        for width in WIDTHS
    )
    harness = directory / f"harness-{scheme}.html"
    harness.write_text(
        f'<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>{_CHECK}</script>{frames}',
        encoding="utf-8",
    )
    command = [
        CHROMIUM,
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
        f"--user-data-dir={directory / 'profile'}",
        f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--dump-dom",
        harness.as_uri(),
    ]
    if os.geteuid() == 0:  # Chromium refuses to sandbox for root
        command.insert(1, "--no-sandbox")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    written = re.search(r'<pre id="found">(.*?)</pre>', answer.stdout, re.DOTALL)
    assert written is not None, answer.stderr[-2000:]
    assert written[1], f"Chromium found nothing: {answer.stderr[-2000:]}"
    console = [line for line in answer.stderr.splitlines() if "CONSOLE" in line]
    return {int(width): found for width, found in json.loads(html.unescape(written[1])).items()}, console
