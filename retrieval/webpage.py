"""HTML -> a page."""

import re
import warnings
from contextlib import suppress

from bs4 import BeautifulSoup, Tag, UnicodeDammit
from bs4.element import NavigableString
from bs4.exceptions import ParserRejectedMarkup

from retrieval.page import Page


def html_page(data: bytes) -> Page | None:
    """The text of an HTML document, without scripts, styles, navigation and forms; None when it cannot be decoded or parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what looks like XML or like a file name is read as HTML all the same
        decoded = UnicodeDammit(data, is_html=True)
        if decoded.contains_replacement_characters or decoded.unicode_markup is None:
            return None
        soup = _parsed(decoded.unicode_markup)
    if soup is None:
        return None
    page = Page(" ".join(soup.title.get_text().split()) if soup.title else "")
    for unwanted in soup(["script", "style", "noscript", "template", "nav", "head", "svg", "form", "iframe"]):
        unwanted.decompose()
    _Html(page).read(soup.body or soup)
    return page


def _parsed(markup: str) -> BeautifulSoup | None:
    """None where the parser gives up. It does on `<![` without a name, which is then taken for text."""
    for text in (markup, markup.replace("<![", "&lt;![")):
        with suppress(ParserRejectedMarkup):
            return BeautifulSoup(text, "html.parser")
    return None


_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "br",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "figcaption",
            "figure",
        ),
        *(
            "footer",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "header",
            "hr",
            "html",
            "li",
            "main",
            "ol",
            "p",
            "pre",
            "section",
        ),
        *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    )
)


class _Html:
    """Gathers inline text until a block begins or ends."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._words: list[str] = []

    def read(self, tag: Tag) -> None:
        self._walk(tag, gap="\n\n")
        self._flush()

    def _walk(self, tag: Tag, gap: str) -> None:
        for child in tag.children:
            if type(child) is NavigableString:
                self._words.append(str(child) if tag.name == "pre" else " ".join(str(child).split("\n")))
            elif isinstance(child, Tag):
                self._enter(child, gap)

    def _enter(self, tag: Tag, gap: str) -> None:
        if tag.name not in _BLOCKS:
            self._walk(tag, gap)
        elif tag.name in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self._flush(gap)
            self._page.add(tag.get_text(), level=int(tag.name[1]))
        elif tag.name == "tr":
            self._flush(gap)
            cells = (" ".join(cell.get_text(" ").split()) for cell in tag.find_all(["td", "th"], recursive=False))
            self._page.add(" | ".join(cells), gap="\n")
        else:
            self._flush(gap)
            self._words.append("- " if tag.name == "li" else "")
            self._walk(tag, "\n" if tag.name in {"li", "ul", "ol"} else gap)
            self._flush("\n" if tag.name in {"li", "br"} else gap)

    def _flush(self, gap: str = "\n\n") -> None:
        words = "".join(self._words)
        self._words.clear()
        if words.strip() not in {"", "-"}:
            self._page.add(re.sub(r"[ \t]+", " ", words), gap=gap)
