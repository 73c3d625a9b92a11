"""Checks the built site without a network: every link, picture and anchor in it is there, and nothing is fetched.

    python docs/check_links.py build/site

Links to other sites are not followed; a script, style, font or picture from another site is an error, because the
pages must work offline.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
NAMED_ONLY = {"canonical", "alternate"}
"""Relations of a <link> that a browser does not fetch."""


@dataclass
class Page(HTMLParser):
    """What a page has and what it points to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "link" and values.get("rel") in NAMED_ONLY:
            return
        for name in ("href", "src"):
            if name in values:
                target = self.fetched if (tag, name) in FETCHED else self.links
                target.append(values[name])


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(site: Path) -> list[str]:
    """One line for each link that leads nowhere, and for each thing that would be fetched from another site."""
    pages = {path.resolve(): read_page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        found += [f"{here} fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        for url in page.links + [url for url in page.fetched if not urlsplit(url).netloc]:
            reason = _broken(url, path, pages)
            if reason:
                found.append(f"{here}: {url} {reason}")
    return found


def _broken(url: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "is not there"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return "has no such anchor"
    return None


def main() -> None:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")
    if not (site / "index.html").exists():
        raise SystemExit(f"{site} holds no site: run make docs")
    found = problems(site)
    print("\n".join(found) or f"{site}: {len(list(site.rglob('*.html')))} pages, every link holds, nothing is fetched")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
