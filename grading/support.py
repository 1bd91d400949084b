"""Whether an answer rests on its passages: its sentences as claims, the cheap signals of each, one probability for the whole. Pure.

An answer is judged by its worst claim and by its claims on average: a single invented sentence makes an answer unsupported, and an
answer of many weak ones is more often invented than one of a weak one.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log
from typing import Any

from grading.calibrate import Calibration, CalibrationInvalid
from grading.logistic import logit
from grading.signals import Margins
from grading.words import STOP_WORDS, content_words, sentences, stem, words

FEWEST_WORDS = 3  # "1." or "Yes." is no claim by itself: it goes with what follows
MOST_CLAIMS = 20
FAR = 0.7  # cosine below which a word piece of a claim has no counterpart in the passages

_NUMBER = re.compile(r"\d[\d.,:/-]*")
_ITEM = re.compile(r"\s*(?:\d+[.)]|[-*•])")
_INNER_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")
_ABOUT_THE_PASSAGES = re.compile(
    r"\b(?:passages?|documents?|context|provided (?:text|information)|based on|unable to answer|"
    r"(?:not|n['’]t) (?:explicitly )?(?:provide|mention|specif|contain|include))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters of an answer."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ClaimMeasured:
    """What the models said of one claim: the reader on it and the passages packed for it, the late-interaction model on its word pieces."""

    margins: Margins
    similar: Sequence[tuple[str, float]]


CLAIM_SIGNALS = (
    "support",
    "lead",
    "relevance",
    "span",
    "cover",
    "sentence_cover",
    "two_sentences_cover",
    "pairs",
    "triples",
    "numbers_new",
    "names_new",
    "words_new",
    "late_mean",
    "late_low",
    "late_far",
    "late_lowest",
    "length",
    "place",
    "about_the_passages",
    "is_item",
    "is_heading",
)
ANSWER_SIGNALS = ("worst", "mean")


def claims(answer: str) -> list[Span]:
    """The sentences of an answer, in order, none of them without content; at most twenty, the rest with the last."""
    found: list[Span] = []
    place, start = 0, None
    for sentence in sentences(answer):
        begins = answer.index(sentence, place)
        place = begins + len(sentence)
        start = begins if start is None else start
        if len(words(answer[start:place])) >= FEWEST_WORDS:
            found.append(Span(start, place))
            start = None
    if start is not None and found:
        found[-1] = Span(found[-1].start, place)
    if len(found) > MOST_CLAIMS:
        found[MOST_CLAIMS - 1 :] = [Span(found[MOST_CLAIMS - 1].start, found[-1].end)]
    return found or [Span(0, len(answer))]


class Source:
    """The passages of an answer, word by word, for all of its claims."""

    def __init__(self, question: str, texts: Sequence[str]) -> None:
        text = " ".join(texts)
        in_order = words(text)
        self.asked = {stem(word) for word in content_words(question)}
        self.text = text.lower()
        self.stems = {stem(word) for word in in_order}
        self.pairs = set(pairwise(in_order))
        self.triples = set(zip(in_order, in_order[1:], in_order[2:], strict=False))
        self.numbers = {each.strip(".,:/-") for each in _NUMBER.findall(text)}
        self.sentences = [{stem(word) for word in words(line)} for each in texts for line in sentences(each)]
        joined = [a | b for a, b in pairwise(self.sentences)]
        self.two_sentences = joined or self.sentences


def claim_values(claim: str, number: int, of: int, source: Source, measured: ClaimMeasured) -> tuple[float, ...]:
    """The signals called CLAIM_SIGNALS of claim `number` (from 0) of `of`."""
    said = words(claim)
    asked = {stem(word) for word in content_words(claim)}
    late = _late(measured.similar)
    numbers = [each.strip(".,:/-") for each in _NUMBER.findall(_ITEM.sub("", claim, count=1))]
    return (
        measured.margins.support,
        measured.margins.lead,
        measured.margins.relevance,
        measured.margins.span,
        _share(len(asked & source.stems), len(asked)),
        max((_share(len(asked & stems), len(asked)) for stems in source.sentences), default=0.0),
        max((_share(len(asked & stems), len(asked)) for stems in source.two_sentences), default=0.0),
        _known(list(pairwise(said)), source.pairs),
        _known(list(zip(said, said[1:], said[2:], strict=False)), source.triples),
        float(min(sum(bool(each) and each not in source.numbers for each in numbers), 2)),
        float(min(sum(name.lower() not in source.text for name in _INNER_NAME.findall(claim)), 2)),
        float(min(len(asked - source.stems - source.asked), 6)),
        *late,
        log(1 + len(said)),
        number / of,
        float(_ABOUT_THE_PASSAGES.search(claim) is not None),
        float(_ITEM.match(claim) is not None),
        float(claim.rstrip().endswith(":")),
    )


def answer_values(logits: Sequence[float]) -> tuple[float, ...]:
    """The signals called ANSWER_SIGNALS, from the logit that each claim is supported (one at least)."""
    return (min(logits), fsum(logits) / len(logits))


@dataclass(frozen=True, slots=True)
class SupportModel:
    """How claims are weighed, and how an answer follows from its claims. From `answer.threshold` on an answer counts as supported."""

    claim: Calibration
    answer: Calibration

    def claim_p(self, values: Sequence[float]) -> float:
        """The probability that a claim is supported."""
        return self.claim.estimate(values).p

    def answer_p(self, claim_probabilities: Sequence[float]) -> float:
        """The probability that the whole answer is supported."""
        return self.answer.estimate(answer_values([logit(p) for p in claim_probabilities])).p

    def to_json(self) -> str:
        return (
            json.dumps({"claim": self.claim.to_json_object(), "answer": self.answer.to_json_object()}, indent=1) + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> "SupportModel":
        """Raises CalibrationInvalid."""
        try:
            value: dict[str, Any] = json.loads(text)
            return cls(*(Calibration.from_json(json.dumps(value[name])) for name in ("claim", "answer")))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise CalibrationInvalid(
                "this is no model of support, as `gateway eval grounding --fit` writes it"
            ) from error


def _late(similar: Sequence[tuple[str, float]]) -> tuple[float, float, float, float]:
    """Mean, mean of the lowest quarter, share that is far, lowest: over the word pieces that carry content."""
    found = sorted(
        value for piece, value in similar if piece not in STOP_WORDS and (piece.isalnum() or piece.startswith("##"))
    ) or [FAR]
    quarter = found[: max(1, len(found) // 4)]
    far = sum(value < FAR for value in found) / len(found)
    return fsum(found) / len(found), fsum(quarter) / len(quarter), far, found[0]


def _known(found: Sequence[tuple[str, ...]], known: set[Any]) -> float:
    return _share(sum(each in known for each in found), len(found))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
