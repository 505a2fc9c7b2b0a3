"""What the built pages must hold, as functions from pages to messages: an empty list is a pass."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import html5lib
from bs4 import BeautifulSoup

# Parse errors of html5lib that mean a tag that is not closed, or closed and never opened.
_UNBALANCED = re.compile(r"end-tag|unexpected-.*end|expected-closing|-got-start|adoption-agency|unexpected-cell|foster", re.IGNORECASE)
_LOADED = (("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"))
_IMAGE_NAME = re.compile(r"\S+\.(?:png|jpe?g|gif|svg|webp)$", re.IGNORECASE)


def soup(page: Path) -> BeautifulSoup:
    """The page, parsed as a browser does."""
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html5lib")


def is_foreign(address: str) -> bool:
    """True for an address on another host, protocol-relative ones included."""
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp", "ws", "wss")


def broken_links(page: Path, site: Path, parsed: dict[Path, BeautifulSoup]) -> list[str]:
    """Internal links and files of the page that lead nowhere, anchors included."""
    found = []
    tags = [(tag, tag.get("href")) for tag in parsed[page].find_all(["a", "link"])] + [(tag, tag.get("src")) for tag in parsed[page].find_all(src=True)]
    for tag, address in tags:
        if not address or is_foreign(address) or urlsplit(address).scheme in ("mailto", "data", "javascript"):
            continue
        parts = urlsplit(address)
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.is_relative_to(site) or not target.is_file():
            found.append(f"<{tag.name}> leads to {address!r}, which is no file of the site")
        elif parts.fragment and target.suffix == ".html":
            if target not in parsed:
                parsed[target] = soup(target)
            anchor = unquote(parts.fragment)
            if not parsed[target].find(id=anchor) and not parsed[target].find("a", attrs={"name": anchor}):
                found.append(f"<{tag.name}> leads to {address!r}: no element has that id")
    return found


def headings(tree: BeautifulSoup) -> list[str]:
    """One h1 a page."""
    count = len(tree.find_all("h1"))
    return [] if count == 1 else [f"{count} h1 headings, expected 1"]


def alt_texts(tree: BeautifulSoup) -> list[str]:
    """Each image says what it shows; a file name says nothing."""
    found = []
    for image in tree.find_all("img"):
        alt = (image.get("alt") or "").strip()
        if not alt:
            found.append(f"an image without alternative text: {image.get('src')!r}")
        elif _IMAGE_NAME.match(alt) or alt.endswith((".png", ".jpg", ".svg")):
            found.append(f"alternative text {alt!r} is a file name")
    return found


def unbalanced(text: str) -> list[str]:
    """Tags that are not closed, or closed and never opened."""
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    parser.parse(text)
    return [f"{place}: {code} {data.get('name', '')}".strip() for place, code, data in parser.errors if _UNBALANCED.search(code)]


def foreign_requests(tree: BeautifulSoup) -> list[str]:
    """Scripts, styles, fonts, images, frames and hints that a browser would fetch from another host."""
    found = [f"<{name} {key}> from {tag[key]!r}" for name, key in _LOADED for tag in tree.find_all(name) if is_foreign(tag.get(key, ""))]
    for link in tree.find_all("link"):
        if set(link.get("rel", [])) - {"canonical", "license", "author", "next", "prev", "search", "index", "help"} and is_foreign(link.get("href", "")):
            found.append(f"<link rel={' '.join(link.get('rel', []))}> to {link['href']!r}")
    for style in ["".join(tag.find_all(string=True)) for tag in tree.find_all("style")] + [tag["style"] for tag in tree.find_all(style=True)]:
        found += foreign_in_style(style)
    return found


def foreign_in_style(style: str) -> list[str]:
    """url(…) and @import of another host in a style sheet."""
    addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)", style) + re.findall(r"@import\s+['\"]([^'\"]+)", style)
    return [f"style sheet asks for {address!r}" for address in addresses if is_foreign(address)]
