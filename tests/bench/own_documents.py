"""`make bench-docs`: questions about this project's own documents, asked of the local models: what is answered, from where, what refused.

A question counts as answered rightly when the answer cites a passage of a section that answers it. The questions are in questions.toml,
which also says, for each, what to look for in the documents, so that this bench fails when documents and questions have parted.
"""

import argparse
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from gateway.bench.figures import Json, Line, machine, report, spread
from tests.bench.stage import workshop
from tests.support.clients import Told, ask
from tests.support.gateway_process import ROOT, gateway_process

QUESTIONS = Path(__file__).with_name("questions.toml")
DOCUMENTS = ROOT / "docs"
RUN_LIMIT_S = 225.0

Outcome = Literal["right", "wrong", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Question:
    """`where` holds the headings of sections that answer it, `fact` what an answer says; both are empty for an unanswerable one."""

    question: str
    where: tuple[str, ...] = ()
    fact: tuple[str, ...] = ()
    absent: str = ""

    @property
    def is_answerable(self) -> bool:
        return bool(self.where)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a question. `cited` are the titles of the passages that the answer rests on.

    `retrieved` are those of the passages that it may cite, or of the three closest that a refusal offers; `found_it` says whether
    the right one is among them.
    """

    question: str
    outcome: Outcome
    path: str
    says_it: bool
    found_it: bool
    cited: tuple[str, ...]
    retrieved: tuple[str, ...]
    missing: str | None
    text: str
    total_ms: float


def questions(path: Path = QUESTIONS) -> list[Question]:
    """The questions, the answerable ones first."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        *(Question(each["question"], tuple(each["where"]), tuple(each["fact"])) for each in found["answerable"]),
        *(Question(each["question"], absent=each["absent"]) for each in found["unanswerable"]),
    ]


def parted(asked: Sequence[Question], folder: Path) -> list[str]:
    """Where questions and documents do not fit any more: a heading that is gone, a fact that is gone, a word that has come."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.md")))
    headings = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    found = []
    for each in asked:
        gone = [name for name in each.where if not any(heading.startswith(name) for heading in headings)]
        found += [f"{each.question} No heading {name!r}" for name in gone]
        if each.is_answerable and not any(fact in text for fact in each.fact):
            found.append(f"{each.question} Nobody says {each.fact[0]!r}")
        if each.absent and each.absent.lower() in text.lower():
            found.append(f"{each.question} The documents speak of {each.absent!r} now")
    return found


def judged(question: Question, told: Told) -> Answered:
    """What the stream of events says came of `question`."""
    done, sources = told.one("done"), told.data("sources")
    refusals = told.data("refusal")
    titles = {passage["n"]: str(passage["title"]) for source in sources for passage in source["passages"]}
    cited = tuple(dict.fromkeys(titles[each["n"]] for each in told.data("citation")))
    retrieved = tuple(titles.values()) or tuple(str(each["title"]) for each in closest(refusals))
    return Answered(
        question=question.question,
        outcome=outcome(question, done["path"], cited),
        path=done["path"],
        says_it=any(fact in told.text for fact in question.fact),
        found_it=holds(question, retrieved),
        cited=cited,
        retrieved=retrieved,
        missing=refusals[0]["missing"] if refusals else None,
        text=told.text,
        total_ms=done["timings_ms"]["total"],
    )


def closest(refusals: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The passages that a refusal offers."""
    return [each for refusal in refusals for each in refusal["closest"]]


def outcome(question: Question, path: str, cited: Sequence[str]) -> Outcome:
    """Right: the answer cites a section that answers the question. Wrong: it cites none of them, or there is none."""
    if path == "refused":
        return "refused"
    if path not in ("clean", "recovered"):
        return "failed"
    return "right" if holds(question, cited) else "wrong"


def holds(question: Question, titles: Sequence[str]) -> bool:
    """Whether one of the passages with these titles is of a section that answers the question."""
    sections = [part for title in titles for part in title.split(" › ")]
    return any(part.startswith(name) for part in sections for name in question.where)


async def measure(asked: Sequence[Question], folder: Path) -> list[Answered]:
    """Asks every question, one after another, of a gateway with a database of its own and no key."""
    with anyio.fail_after(RUN_LIMIT_S), workshop() as home:
        settings = {"GATEWAY_PROVIDER": "local", "GATEWAY_RETRIEVER": "postgres"}
        async with gateway_process(home, "--docs", str(folder), **settings) as gateway:
            return [judged(each, await ask(gateway.base_url, each.question)) for each in asked]


def figures_of(asked: Sequence[Question], answered: Sequence[Answered]) -> Json:
    """The counts, and every single answer."""
    pairs = list(zip(asked, answered, strict=True))
    known = [answer for question, answer in pairs if question.is_answerable]
    unknown = [answer for question, answer in pairs if not question.is_answerable]
    return {
        "machine": machine(),
        "answerable": {
            "asked": len(known),
            **{
                name: sum(answer.outcome == name for answer in known)
                for name in ("right", "wrong", "refused", "failed")
            },
            "found": sum(answer.found_it for answer in known),
            "says_the_fact": sum(answer.says_it for answer in known),
            "corrected": sum(answer.path == "recovered" for answer in known),
        },
        "unanswerable": {
            "asked": len(unknown),
            **{name: sum(answer.outcome == name for answer in unknown) for name in ("refused", "wrong", "failed")},
        },
        "total_ms": spread([answer.total_ms for answer in answered]),
        "answers": [asdict(answer) for answer in answered],
    }


def lines(figures: Json) -> list[Line]:
    """The table."""
    known, unknown, total = figures["answerable"], figures["unanswerable"], figures["total_ms"]
    return [
        Line("answered, the right passage cited", f"{known['right']} of {known['asked']}"),
        Line("  answers that hold the fact itself", f"{known['says_the_fact']} of {known['asked']}"),
        Line("  answered after a correction", f"{known['corrected']} of {known['asked']}"),
        Line("answered from other passages", f"{known['wrong']} of {known['asked']}"),
        Line("refused, although the documents hold it", f"{known['refused']} of {known['asked']}"),
        Line("the right passage found, answered or refused", f"{known['found']} of {known['asked']}"),
        Line("unanswerable, refused", f"{unknown['refused']} of {unknown['asked']}"),
        Line("unanswerable, answered", f"{unknown['wrong']} of {unknown['asked']}"),
        Line("failed", str(known["failed"] + unknown["failed"]), "0", known["failed"] + unknown["failed"] == 0),
        Line("whole answer, p50 / greatest", f"{total['p50']:.0f} / {total['max']:.0f} ms"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Asks about this project's own documents, without a key.")
    parser.add_argument("--json", type=Path, help="write every figure and every answer there")
    parser.add_argument("--show", action="store_true", help="print what came of each question")
    given = parser.parse_args()
    asked = questions()
    if found := parted(asked, DOCUMENTS):
        print("Questions and documents have parted:", *found, sep="\n  ")
        return 2
    answered = anyio.run(measure, asked, DOCUMENTS)
    if given.show:
        for each in answered:
            print(f"{each.outcome:8} {each.question}\n         {', '.join(each.cited or each.retrieved)}")
    return report(
        "Own documents: local models, no key",
        lines(figures_of(asked, answered)),
        figures_of(asked, answered),
        given.json,
    )


if __name__ == "__main__":
    raise SystemExit(main())
