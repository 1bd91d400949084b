"""Markdown -> a page."""

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval.page import Page


def markdown_page(text: str) -> Page:
    """Markdown (CommonMark and tables) as plain text, titled by its front matter where that has a title."""
    title, body = _front_matter(text.replace("\r\n", "\n"))
    page = Page(title)
    _Markdown(page).read(MarkdownIt("commonmark").enable("table").parse(body))
    return page


def _front_matter(text: str) -> tuple[str, str]:
    """The title in a YAML block at the top, and the text after the block."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return "", text
    title = _TITLE.search(found.group(1))
    return title.group(1).strip("\"' ") if title else "", text[found.end() :]


_FRONT_MATTER = re.compile(r"\A---\n((?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE)


class _Markdown:
    """Walks markdown-it's flat list of tokens."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._level = 0
        self._item = ""  # what marks the block that comes next as an item of a list
        self._depth = 0
        self._cells: list[str] | None = None
        self._gap = "\n\n"

    def read(self, tokens: list[Token]) -> None:
        for token in tokens:
            self._take(token)

    def _take(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._level = int(token.tag[1])
            case "heading_close":
                self._level = 0
            case "bullet_list_open" | "ordered_list_open":
                self._depth += 1
            case "bullet_list_close" | "ordered_list_close":
                self._depth -= 1
            case "list_item_open":
                self._item = f"{token.info}{token.markup} " if token.info else "- "
            case "tr_open":
                self._cells = []
            case "tr_close":
                self._page.add(" | ".join(self._cells or ()), gap="\n")
                self._cells = None
            case "fence" | "code_block":
                self._page.add(token.content)
            case "html_block":
                self._page.add(_stripped(token.content))
            case "inline":
                self._inline(_inline_text(token.children or []))
            case _:
                pass  # the rest opens and closes what carries no text

    def _inline(self, words: str) -> None:
        if self._cells is not None:
            self._cells.append(" ".join(words.split()))
            return
        gap = "\n" if self._depth else "\n\n"
        self._page.add(self._item + words if words.strip() else "", level=self._level, gap=gap)
        self._item = ""


def _inline_text(children: list[Token]) -> str:
    words: list[str] = []
    for child in children:
        match child.type:
            case "text" | "code_inline" | "image":
                words.append(child.content)
            case "softbreak":
                words.append(" ")
            case "hardbreak":
                words.append("\n")
            case _:
                pass  # emphasis, links and tags: their text comes as its own token
    return "".join(words)


class _Stripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _stripped(html: str) -> str:
    stripper = _Stripper()
    stripper.feed(html)
    stripper.close()
    return "".join(stripper.words)
