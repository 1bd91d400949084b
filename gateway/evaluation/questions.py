"""A set of questions over a corpus: corpus.jsonl and questions.jsonl in the schema of the evaluation data, or anyone's in the same."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.evaluation.cases import Turn, turns_of
from gateway.evaluation.rows import LabelsUnreadable, Row, rows
from grading.standalone import standalone
from retrieval.passage import Scalar

CORPUS_FILE, QUESTIONS_FILE = "corpus.jsonl", "questions.jsonl"
_TITLE_PREFIX = 40  # characters; a title may be the cut first line of its text


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage of the corpus."""

    id: str
    title: str
    text: str
    metadata: Mapping[str, Scalar]

    @property
    def embedded(self) -> str:
        """What its vector is made of: title and text, or the text alone where that begins with its title."""
        repeated = self.text.lower().startswith(self.title.lower()[:_TITLE_PREFIX])
        return self.text if repeated else f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the ids of its evidence (empty: not answerable, or not marked). `published` is a rewrite that came with the set."""

    id: str
    group: str
    words: str
    history: tuple[Turn, ...]
    evidence: tuple[str, ...]
    answerable: bool | None
    published: str | None
    answers: tuple[str, ...] = ()

    @property
    def standalone(self) -> str:
        """Made to stand alone here, from the history."""
        return standalone(self.words, self.history)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A corpus and the questions over it. `version` changes with the corpus."""

    name: str
    version: str
    corpus: tuple[Entry, ...]
    questions: tuple[Asked, ...]

    @property
    def with_evidence(self) -> tuple[Asked, ...]:
        return tuple(each for each in self.questions if each.evidence)


def read_set(folder: Path) -> QuestionSet:
    """The set in `folder`, some of whose questions have evidence. Raises LabelsUnreadable as `read_folder`."""
    found = read_folder(folder)
    if not found.with_evidence:
        raise LabelsUnreadable(f"{folder}: no question has evidence")
    return found


def read_questions(path: Path) -> tuple[Asked, ...]:
    """The questions of a file, or of the questions.jsonl in a folder. Raises LabelsUnreadable."""
    return tuple(map(_asked, rows(path, QUESTIONS_FILE)))


def read_folder(folder: Path) -> QuestionSet:
    """The set in `folder`. Raises LabelsUnreadable, also when a question's evidence is not in the corpus."""
    if not folder.is_dir():
        raise LabelsUnreadable(f"{folder}: not a folder with {CORPUS_FILE} and {QUESTIONS_FILE}")
    corpus = tuple(map(_entry, rows(folder, CORPUS_FILE)))
    if not corpus:
        raise LabelsUnreadable(f"{folder}: {CORPUS_FILE} holds no passage")
    questions = read_questions(folder)
    known = {each.id for each in corpus}
    for each in questions:
        if not known.issuperset(each.evidence):
            raise LabelsUnreadable(f"{folder}: evidence of question {each.id} is not in {CORPUS_FILE}")
    digest = hashlib.sha256("\0".join(part for each in corpus for part in (each.id, each.title, each.text)).encode())
    return QuestionSet(folder.resolve().name, digest.hexdigest()[:12], corpus, questions)


def _entry(row: Row) -> Entry:
    metadata = {name: value for name, value in row.row("metadata").values.items() if isinstance(value, Scalar)}
    return Entry(row.text("id"), row.text_or("title", "").strip(), row.text("text").strip(), metadata)


def _asked(row: Row) -> Asked:
    return Asked(
        id=row.text("id"),
        group=row.text_or("conversation", "") or row.text("id"),
        words=row.text("question"),
        history=turns_of(row),
        evidence=row.texts("evidence"),
        answerable=None if row.values.get("answerable") is None else row.truth("answerable"),
        published=row.text_or("standalone_question", "") or None,
        answers=row.texts("answers"),
    )
