"""The screen: what the commands show to a person. Text of documents and models is cleaned of what a terminal would obey."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from gateway.cleaning import clean
from streaming.events import (
    Citation,
    Done,
    Event,
    Failed,
    Path,
    Refusal,
    Retry,
    Sources,
    Status,
    Token,
)
from streaming.wire.native import named, snippet

if TYPE_CHECKING:
    from retrieval.ingest import Progress, Report
    from retrieval.store import StoredDocument

SAMPLE_QUESTION = "What happens to a draft when the verdict is insufficient?"
SAMPLE_SOURCE = "how-it-works.md"  # of this project's own documents, which answers it


class Screen:
    """Writes answers to `out`, everything about them to `err`."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr

    def say(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)

    def note(self, text: str) -> None:
        print(text, file=self.err, flush=True)

    @contextmanager
    def progress(self) -> "Iterator[Callable[[Progress], None]]":
        """A bar for an ingest; gone when it ends, and never there when nothing has to be read or nobody watches."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("Reading"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[name]}", markup=False),
        )
        console = Console(file=self.err)
        with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("ingest", total=None, name="")

            def show(progress: "Progress") -> None:
                bar.update(task, completed=progress.done, total=progress.total, name=one_line(progress.name))

            yield show

    def ingested(self, report: "Report") -> None:
        """What an ingest did, and each document that it could not read."""
        counts = (
            f"{report.added} added, {report.changed} changed, {report.unchanged} unchanged, {report.removed} removed"
        )
        self.note(f"Documents: {counts}; {report.passages} passages stored")
        if not (report.added or report.changed or report.unchanged or report.unreadable):
            self.note("  nothing to answer from: there is no Markdown, text, HTML or PDF file in it")
        for document in report.unreadable:
            self.note(f"  not read: {one_line(document.name)}: {one_line(document.why)}")

    def serving(
        self, address: str, models: Mapping[str, str], documents: int | None, question: str, needs_key: bool
    ) -> None:
        """The address, who answers, how much there is to ask about (None: nobody knows), and a line to paste that asks `question`."""
        who = ", ".join(f"{role} {name}" for role, name in models.items())
        self.say(f"Serving on {address}")
        self.say(f"  models      {who}")
        if documents is not None:
            self.say(f"  collection  default, {documents} document{'' if documents == 1 else 's'}")
        self.say("  try         " + curl_line(address, question, needs_key))

    def answer(self, as_json: bool) -> "JsonLines | Answer":
        """Where an answer's events are shown."""
        return JsonLines(self) if as_json else Answer(self)


class JsonLines:
    """Each event as one line of JSON, its name first."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.path: Path | None = None

    async def take(self, batch: tuple[Event, ...]) -> None:
        """Shows one batch (streaming.attempt.Emit)."""
        for event in batch:
            name, data = named(event)
            self._screen.say(json.dumps({"event": name} | data, ensure_ascii=True, allow_nan=False))
            if isinstance(event, Done):
                self.path = event.path


class Answer:
    """The text as it comes, with source numbers; stages and retries beside it; sources or the refusal after it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._sources: Sources | None = None
        self.path: Path | None = None

    async def take(self, batch: tuple[Event, ...]) -> None:
        """Shows one batch (streaming.attempt.Emit)."""
        for event in batch:
            self._show(event)
        self._screen.out.flush()

    def _show(self, event: Event) -> None:
        note = self._screen.note
        match event:
            case Status(attempt, stage, detail):
                note(
                    f"· {stage}" + (f" (attempt {attempt})" if attempt > 1 else "") + (f": {detail}" if detail else "")
                )
            case Retry(attempt, verdict, missing, correction, query):
                lacking = f", missing: {one_line(missing)}" if missing else ""
                note(f"↻ attempt {attempt} was {verdict}{lacking}; next: {correction}, searching: {one_line(query)}")
            case Sources():
                self._sources = event
            case Token(text):
                self._screen.out.write(clean(text))
            case Citation(n):
                self._screen.out.write(f"[{n}]")
            case Refusal():
                self._refused(event)
            case Failed(_, message):
                note(f"\nfailed: {one_line(message)}")
            case Done():
                self._done(event)
            case _:
                pass

    def _refused(self, refusal: Refusal) -> None:
        self._screen.say(clean(refusal.message))
        self._screen.note("searched: " + "; ".join(one_line(query) for query in refusal.searched))
        for passage in refusal.closest:
            self._screen.note(f"  closest, unconfirmed: {one_line(passage.title)}: {one_line(snippet(passage.text))}")
        if refusal.gap_id:
            self._screen.note(f"  recorded as gap {refusal.gap_id}")

    def _done(self, done: Done) -> None:
        self.path = done.path
        if done.path in (Path.CLEAN, Path.RECOVERED):
            self._screen.say()
            for n, passage in self._sources.passages if self._sources else ():
                where = f" ({one_line(passage.url)})" if passage.url else ""
                self._screen.say(f"  [{n}] {one_line(passage.title)}{where}")
        total_ms = done.timings_ms.get("total", 0.0)
        plural = "" if done.attempts == 1 else "s"
        self._screen.note(f"· {done.path}, {done.attempts} attempt{plural}, {total_ms:.0f} ms")


def one_line(text: str) -> str:
    """`text` cleaned, on one line."""
    return " ".join(clean(text).split())


def sample_question(documents: "Sequence[StoredDocument] | None") -> str:
    """A question to begin with, about one of the documents where there are any."""
    if documents is None or any(each.source == SAMPLE_SOURCE for each in documents):
        return SAMPLE_QUESTION
    return f"What does {one_line(documents[0].title)} say?" if documents else "What is in these documents?"


def curl_line(address: str, question: str, needs_key: bool) -> str:
    """A command to paste into a shell that streams the answer to `question`."""
    key = ' -H "Authorization: Bearer $GATEWAY_API_KEY"' if needs_key else ""
    body = shlex.quote(json.dumps({"question": question}))
    return f"curl -N {address}/v1/answers -H 'Content-Type: application/json'{key} -d {body}"
