"""Markdown as it streams: drawn safely whatever a document made the model say, and with its citations where they belong."""

from typing import Any

import pytest
from playwright.async_api import Browser

from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Usage
from tests.support.browser import Visit, visit
from tests.support.fakes import DraftScript, FakeGenerator
from tests.support.gateway_app import running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

HOSTILE = """
<script>window.pwned = 1</script>

<img src="https://evil.example/a.png" onerror="window.pwned = 2">

![a picture](https://evil.example/b.png) ![another][ref] <svg onload="window.pwned = 3"></svg>

[press](javascript:window.pwned=4) [or](JaVaScRiPt&colon;window.pwned=5) [this](data:text/html,<script>window.pwned=6</script>)
[that](vbscript:x) [there](//evil.example) [fine](https://fine.example/a?b=c&d="e") <https://also.example> <javascript:window.pwned=7>

<a href="https://evil.example" onclick="window.pwned = 8" id="said">x</a>
<form action="https://evil.example"><input name="attributes"></form>

<iframe srcdoc="<script>parent.pwned = 9</script>"></iframe> <style>*{display:none}</style> <base href="https://evil.example">

<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.pwned=10&gt;">

```html"><img src=x onerror=window.pwned=11>
<b>code</b>
```

| <img src=x onerror=window.pwned=12> | b |
|---|---|
| [c](javascript:alert) | &lt;script&gt;window.pwned = 13&lt;/script&gt; |

[ref]: https://evil.example/c.png "t"
"""

NICE = """## Prices

**A draft costs nothing.** A *held* one costs `0`, see [the list](https://list.example/p).

- one
  1. first
  2. ~~second~~

> quoted

1. last

```python
price = 0
```

| what | price |
|---|---|
| draft | 0 |

Done."""


def saying(*pieces: Piece, batch: int = 1) -> FakeGenerator:
    """A generator that says `pieces`, so many at once."""
    said = [*pieces, Stopped(StopReason.END, Usage(10, 10))]
    batches = tuple((0.001, tuple(said[at : at + batch])) for at in range(0, len(said), batch))
    return FakeGenerator([DraftScript(batches)])


def in_pieces(text: str, size: int) -> list[Piece]:
    return [Text(text[at : at + size]) for at in range(0, len(text), size)]


async def shown(visitor: Visit, script: str) -> Any:
    """What `script` finds, given the answer's element."""
    await visitor.asked("Where is it?")
    return await visitor.run(f"() => ({script})(document.querySelector('.turn:last-child .answer'))")


@pytest.mark.parametrize("size", [7, 4000])
async def test_hostile_markdown_does_nothing_and_fetches_nothing(browser: Browser, size: int) -> None:
    house = with_parts(scripted_house(), generator=saying(*in_pieces(HOSTILE, size)))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        found = await shown(
            visitor,
            """(answer) => ({
                pwned: window.pwned ?? null,
                tags: [...new Set([...answer.querySelectorAll("*")].map((one) => one.tagName))].sort(),
                attributes: [...new Set([...answer.querySelectorAll("*")].flatMap((one) => one.getAttributeNames()))].sort(),
                links: [...answer.querySelectorAll("a")].map((one) => [one.href, one.rel, one.target]),
                text: answer.innerText,
            })""",
        )
        assert found["pwned"] is None
        assert set(found["tags"]) <= {"P", "A", "EM", "PRE", "CODE", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "BR"}
        assert set(found["attributes"]) <= {"href", "rel", "target", "tabindex"}
        assert {href for href, _, _ in found["links"]} == {
            "https://fine.example/a?b=c&d=%22e%22",
            "https://also.example/",
        }
        assert {(rel, target) for _, rel, target in found["links"]} == {("noopener noreferrer nofollow", "_blank")}
        assert "<script>window.pwned = 1</script>" in found["text"]  # shown as what it is, not swallowed
        assert [one.url for one in visitor.requests if "evil" in one.url] == []


async def test_hostile_titles_snippets_and_refusals_are_text(browser: Browser) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    question = f'{bad} [[verdict=insufficient missing="{bad}"]]'
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        turn = await visitor.asked(question)
        assert bad in await turn.inner_text()
        assert await visitor.run("() => [window.pwned ?? null, document.images.length]") == [None, 0]


async def test_the_policy_itself_stops_markup_that_does_not_come_from_the_sanitiser(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        refused = await visitor.run(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return ''; } catch (error) { return error.name; } }"
        )
        assert refused == "TypeError"
        visitor.faults.clear()  # the console's word on it


async def test_markdown_becomes_what_it_says_and_each_citation_stands_behind_its_words(browser: Browser) -> None:
    ends = [
        NICE.index("nothing.**") + 10,
        NICE.index("/p).") + 4,
        NICE.index("```\n\n|") + 4,
        NICE.index("| 0 |") + 5,
        len(NICE),
    ]
    starts = [0, *ends[:-1]]
    cited = [Cited(n % 2 + 1, start, end) for n, (start, end) in enumerate(zip(starts, ends, strict=True))]
    house = with_parts(scripted_house(), generator=saying(*in_pieces(NICE, 9), *cited))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        found = await shown(
            visitor,
            """(answer) => ({
                tags: [...answer.children].map((one) => one.tagName),
                before: [...answer.querySelectorAll(".cite")].map(
                    (one) => (one.closest(".stay") ?? one.previousSibling ?? one).textContent),
                inside: answer.querySelectorAll("a .cite, code .cite, pre .cite").length,
                text: answer.innerText,
                href: answer.querySelector("a").href,
                within: [...answer.querySelectorAll("ul li ol li")].map((one) => one.firstElementChild?.tagName ?? one.textContent),
                strong: answer.querySelector("strong").textContent,
            })""",
        )
        assert found["tags"] == ["H4", "P", "UL", "BLOCKQUOTE", "OL", "PRE", "P", "TABLE", "P"]
        assert found["within"] == ["first", "DEL"]
        assert found["strong"] == "A draft costs nothing."
        assert found["href"] == "https://list.example/p"
        assert found["inside"] == 0
        assert found["before"] == ["A draft costs nothing.", ".2", "1", "02", "Done.1"]
        assert "\u2e28" not in found["text"]


async def test_offsets_count_characters_also_beyond_the_basic_plane(browser: Browser) -> None:
    text = "𝄞𝄞 é 𝄞. Next."
    house = with_parts(scripted_house(), generator=saying(Text(text), Cited(1, 0, 7), Cited(2, 8, 13)))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        told = await shown(visitor, "(answer) => answer.textContent")
        assert told.strip() == "𝄞𝄞 é 𝄞.1 Next.2"


FORGED = "Not so. &#11816;c1&#11817; &#x2E28;c1&#X2e29; &#x002e28;e&#x2e29; &#011816;u&#11817; `&#11816;c1&#11817;`"


async def test_a_text_cannot_write_marks_of_its_own_not_even_as_entities(browser: Browser) -> None:
    house = with_parts(scripted_house(), generator=saying(Text(FORGED)))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        forged = await shown(visitor, "(answer) => answer.querySelectorAll('button, mark, .doubt').length")
        assert forged == 0


CASES = [  # text, citations, unsupported, and the text with c, u and e where the marks stand
    ("Held.", [(1, 0, 5)], [], "Held.{c1}"),
    ("Held. Next", [(1, 0, 6)], [], "Held.{c1} Next"),
    ("**Held.** Next", [(2, 0, 9)], [], "**Held.**{c2} Next"),
    ("- Held.\n- Next.", [], [(0, 8)], "- {u}Held.{e}\n- Next."),
    ("a\n\n1. One. Two.", [], [(3, 11)], "a\n\n1. {u}One.{e} Two."),
    ("| a |\n|---|\n| b |\n", [(1, 0, 18)], [], "| a |\n|---|\n| b{c1} |\n"),
    ("```\nx\n```\n\nEnd.", [(1, 0, 9)], [], "```\nx\n```\n\n{c1}\n\nEnd."),
    ("⸨c9⸩ x", [(1, 0, 6)], [], "(c9) x{c1}"),
    ("One. Two.", [(1, 0, 4), (2, 5, 9)], [(5, 9)], "One.{c1} {u}Two.{e}{c2}"),
    ("x", [(1, 0, 99)], [], "x{c1}"),
]


async def test_marks_are_written_where_markdown_does_not_break_on_them(browser: Browser) -> None:
    script = """async (cases) => {
        const { withMarks } = await import("/web/marks.js");
        const range = ([start, end]) => ({start, end});
        return cases.map(([text, cited, not]) => withMarks(text, cited.map(([n, start, end]) => ({n, start, end})), not.map(range)));
    }"""
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        found = await visitor.run(script, [case[:3] for case in CASES])
    wanted = [case[3].replace("{", "\u2e28").replace("}", "\u2e29") for case in CASES]
    assert found == wanted


STREAMS = [
    ("id: a.1\nevent: token\ndata: {}\n\n", [["a.1", "token", "{}"]]),
    ("id: a.1\r\nevent: x\r\ndata: 1\r\n\r\nid: a.2\rdata: 2\r\r\n", [["a.1", "x", "1"], ["a.2", "message", "2"]]),
    (": ping\nid: a.1\n: ping\ndata: a\ndata: b\n\n: ping\n\n", [["a.1", "message", "a\nb"]]),
    ("data:x\nevent\n\ndata: unfinished", [["", "message", "x"]]),
]


async def test_events_are_read_however_the_bytes_are_cut(browser: Browser) -> None:
    script = """async (streams) => {
        const { EventReader } = await import("/web/events.js");
        const read = (pieces) => { const reader = new EventReader(); return pieces.flatMap((one) => reader.feed(one)); };
        const told = (events) => JSON.stringify(events.map(({id, name, data}) => [id, name, data]));
        return streams.map((text) => {
            const ways = [[text], [...text]];
            for (let at = 0; at <= text.length; at += 1) ways.push([text.slice(0, at), text.slice(at)]);
            return [...new Set(ways.map((way) => told(read(way))))].map(JSON.parse);
        });
    }"""
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        assert await visitor.run(script, [text for text, _ in STREAMS]) == [[wanted] for _, wanted in STREAMS]
