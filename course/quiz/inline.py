"""Question text to HTML: `code`, $math$, *emphasis*; everything else is escaped."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_TOKEN = re.compile(
    r"\\(?P<escaped>[\\`$*])"
    r"|`(?P<code>[^`]+)`"
    r"|\$(?P<math>[^$\s](?:[^$]*[^$\s])?)\$"
    r"|\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*(?!\w)"
    r"|(?P<stray>[`$])"
)


def _math(source: str) -> str:
    """MathML of `source`. The converter guesses at an open brace and prints unknown commands; both are refused here."""
    bare = re.sub(r"\\[{}]", "", source)
    if bare.count("{") != bare.count("}"):
        raise ValueError(f"math ${source}$ cannot be read: its braces do not balance")
    try:
        result = convert(source)
    except Exception as error:
        raise ValueError(f"math ${source}$ cannot be read: {type(error).__name__} {error}") from error
    if unknown := re.search(r"\\\w+", result):
        raise ValueError(f"math ${source}$ cannot be read: unknown command {unknown.group()}")
    return result


def to_html(text: str) -> str:
    """`text` as one line of HTML. Raises ValueError for a lone ` or $ (write \\` or \\$) and for unreadable math."""
    text = " ".join(text.split())
    parts, end = [], 0
    for match in _TOKEN.finditer(text):
        parts.append(html.escape(text[end:match.start()]))
        end = match.end()
        kind, body = match.lastgroup, match.group(match.lastgroup)
        if kind == "escaped":
            parts.append(html.escape(body))
        elif kind == "code":
            parts.append(f"<code>{html.escape(body)}</code>")
        elif kind == "math":
            parts.append(_math(body))
        elif kind == "em":
            parts.append(f"<em>{to_html(body)}</em>")
        else:
            raise ValueError(f"lone {body!r} in {text!r}; close it, or write \\{body}")
    return "".join(parts) + html.escape(text[end:])


def plain_length(text: str) -> int:
    """Characters a reader sees, roughly: markup signs do not count."""
    return len(re.sub(r"[`$*\\]", "", " ".join(text.split())))
