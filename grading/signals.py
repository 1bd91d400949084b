"""The cheap signals of a passage set for a question: what the local models measured and what the words alone say. Pure.

Each signal is a number that rises or falls with "this set answers this question"; none of them decides alone. grading/calibrate.py
weighs them. A signal that could not be had (no retrieval scores, one passage) has its neutral value, never NaN.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from math import exp, fsum, log, prod, sqrt

from grading.evidence import Piece
from grading.words import STOP_WORDS, content_words, sentences, stem, words

LOWEST_LOGIT = -11.5  # of the packaged cross-encoder: a passage that was not read counts as this

_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:\s+(?:(?:of|the|de|and|von|van)\s+)?[A-Z][\w'’-]*)*")
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_CLAUSE_END = re.compile(
    r"[;?]\s+|,\s+(?:and|but|or)\s+|\s+and\s+(?=(?:what|who|when|where|which|why|how|is|are|was|were|do|does|did|can)\b)",
    re.IGNORECASE,
)
MOST_CLAUSES = 3
MOST_NAMES = 3
UNDECIDED = 0.5  # agreement of what was not compared


@dataclass(frozen=True, slots=True)
class Margins:
    """The reader's logits for a question and a packed set."""

    relevance: float
    insufficient: float
    partial: float
    sufficient: float
    support: float
    span: float

    @property
    def lead(self) -> float:
        """How far `sufficient` leads over the two other verdicts together."""
        return self.sufficient - _log_sum(self.insufficient, self.partial)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the models said of one set.

    `whole` is the reader on the packed set; `logits` the cross-encoder's for each passage (None: not read), `clause_logits` for each clause
    of a question of several against the whole set; `similar` the late-interaction model's best match of each token of the question
    (token, cosine), empty when it was not asked; `cosines` and `lexical` (BM25) retrieval's own, empty when it gave none. `alone` is the
    reader on single passages, by their numbers from 1: on the likeliest of a set that did not convince it as a whole.
    """

    whole: Margins
    logits: Sequence[float | None]
    clause_logits: Sequence[float] = ()
    similar: Sequence[tuple[str, float]] = ()
    cosines: Sequence[float] = ()
    alone: Sequence[tuple[int, Margins]] = ()
    lexical: Sequence[float] = ()

    @property
    def best_alone(self) -> tuple[int, Margins] | None:
        """The passage that says most by itself, where it says more than the whole set."""
        best = max(self.alone, key=lambda each: each[1].lead, default=None)
        return best if best is not None and best[1].lead > self.whole.lead else None


@dataclass(frozen=True, slots=True)
class Signals:
    """Shares are 0..1, logits as they are; of words and lengths the logarithm. `best_lead` is the lead of the set or of one passage.

    `low_logit` and `high_logit` are the best logit below and above 0: how far off the subject a set is says something, how much on
    it says nearly nothing about a look-alike.
    """

    lead: float
    best_lead: float
    span: float
    relevance: float
    best_logit: float
    low_logit: float
    high_logit: float
    weakest_clause: float
    cover: float
    passage_cover: float
    sentence_cover: float
    names_found: float
    numbers_found: float
    names_near: float
    title_match: float
    late_mean: float
    late_low: float
    top_cosine: float
    cosine_margin: float
    agreement: float
    alone: float
    named: float
    question_words: float
    passage_length: float

    def value(self, name: str) -> float:
        """The signal called `name`; `a*b` is the product of two, each less its usual value. Raises KeyError for a name that is none."""
        parts = name.split("*")
        if not SIGNAL_NAMES.issuperset(parts):
            raise KeyError(name)
        if len(parts) == 1:
            return float(getattr(self, name))
        return float(prod(getattr(self, part) - USUAL.get(part, 0.0) for part in parts))

    def values(self, names: Sequence[str]) -> tuple[float, ...]:
        """The signals called `names`, in that order. Raises KeyError for a name that is none."""
        return tuple(self.value(name) for name in names)


SIGNAL_NAMES = frozenset(field.name for field in fields(Signals))
USUAL = {"passage_length": 4.8, "question_words": 2.4, "late_mean": 0.78}
"""About the median over the labelled sets: a product of two signals is then little correlated with either."""

# What the reader, the cross-encoder, the late-interaction model and the words say: each may only speak for a set. Of the reader only its
# lead (over the whole set, or one passage of it): it has learnt on a part of the labelled cases, and its other logits, which fit that
# part too, would be given weights that new questions do not bear out. The signals that are not here raised no figure out of fold.
EVIDENCE_SIGNALS = ("best_lead", "low_logit", "late_mean", "weakest_clause", "sentence_cover", "title_match")
# What kind of set and question it is, and how far that changes what the reader's lead means: without them a model over several
# collections is off by .10 on each on average, with them by .06 (expected calibration error, out of fold).
KIND_SIGNALS = ("alone", "passage_length", "question_words", "named")
ALL_SIGNALS = (*EVIDENCE_SIGNALS, *KIND_SIGNALS, *(f"{kind}*best_lead" for kind in KIND_SIGNALS))


def signals(question: str, pieces: Sequence[Piece], measured: Measured) -> Signals:
    """The signals of a set that is not empty."""
    logits = sorted((LOWEST_LOGIT if each is None else each for each in measured.logits), reverse=True)
    said = Said(question, pieces)
    best = measured.best_alone
    late = _late(measured.similar)
    return Signals(
        lead=measured.whole.lead,
        best_lead=measured.whole.lead if best is None else best[1].lead,
        span=measured.whole.span,
        relevance=measured.whole.relevance,
        best_logit=logits[0],
        low_logit=min(logits[0], 0.0),
        high_logit=max(logits[0], 0.0),
        weakest_clause=min(measured.clause_logits, default=logits[0]),
        cover=said.cover(),
        passage_cover=said.best_passage_cover(),
        sentence_cover=said.best_sentence_cover(),
        names_found=said.names_found(),
        numbers_found=said.numbers_found(),
        names_near=said.names_near(),
        title_match=said.title_match(),
        late_mean=late[0],
        late_low=late[1],
        top_cosine=max(measured.cosines, default=0.0),
        cosine_margin=_margin(measured.cosines),
        agreement=_agreement(measured.cosines, measured.lexical),
        alone=float(len(pieces) == 1),
        named=min(len(said.asked_names), MOST_NAMES) / MOST_NAMES,
        question_words=log(1 + len(words(question))),
        passage_length=log(1 + fsum(len(words(each.text)) for each in pieces) / len(pieces)),
    )


def clauses(question: str) -> tuple[str, ...]:
    """The parts of a question that asks several things, at most three; none for a question of one part."""
    parts = [part.strip() for part in _CLAUSE_END.split(" ".join(question.split())) if len(content_words(part)) > 1]
    return tuple(parts[:MOST_CLAUSES]) if len(parts) > 1 else ()


def names(text: str) -> tuple[str, ...]:
    """Runs of capitalised words, without a first word that is one only because it begins a sentence."""
    found = []
    for match in _NAME.finditer(text):
        run = match.group().split()
        while run and run[0].lower() in STOP_WORDS:
            run = run[1:]
        if run:
            found.append(" ".join(run))
    return tuple(dict.fromkeys(found))


class Said:
    """A question beside a set, word by word. A word weighs by how few of the set's sentences hold its stem."""

    def __init__(self, question: str, pieces: Sequence[Piece]) -> None:
        self.question = question
        self.pieces = pieces
        self.asked = {stem(word) for word in content_words(question)}
        self.asked_names = names(question)
        self.asked_numbers = frozenset(each.strip(".,:/-") for each in _NUMBER.findall(question))
        self.sentences = [(n, line) for n, each in enumerate(pieces) for line in sentences(each.text) or [each.text]]
        self.stems = [{stem(word) for word in words(line)} for _, line in self.sentences]
        self.titles = [{stem(word) for word in words(each.title)} for each in pieces]
        self.by_piece = [set(title) for title in self.titles]
        for (n, _), stems in zip(self.sentences, self.stems, strict=True):
            self.by_piece[n] |= stems
        self.frequency = Counter(found for stems in self.stems for found in stems & self.asked)
        self.everything: set[str] = set().union(*self.by_piece)

    def cover(self) -> float:
        return self._share(self.everything)

    def best_passage_cover(self) -> float:
        return max(map(self._share, self.by_piece))

    def best_sentence_cover(self) -> float:
        """Of the question's words in one sentence and the title above it."""
        return max(
            self._share(stems | self.titles[n]) for (n, _), stems in zip(self.sentences, self.stems, strict=True)
        )

    def names_found(self) -> float:
        """The share of the question's names of which every word is somewhere in the set; 1 without names."""
        return _mean([self._stems(name) <= self.everything for name in self.asked_names], empty=1.0)

    def names_near(self) -> float:
        """The largest share of the question's names in one passage; 1 without names."""
        if not self.asked_names:
            return 1.0
        return max(_mean([self._stems(name) <= piece for name in self.asked_names], 1.0) for piece in self.by_piece)

    def numbers_found(self) -> float:
        text = " ".join(each.full for each in self.pieces)
        known = {each.strip(".,:/-") for each in _NUMBER.findall(text)}
        return _mean([number in known for number in self.asked_numbers], empty=1.0)

    def title_match(self) -> float:
        """The share of the question's names that are the title of a passage, or hold it, or are held by it; 0 without names."""
        titles = [each.title.lower() for each in self.pieces if each.title]
        return _mean([any(_holds(name.lower(), title) for title in titles) for name in self.asked_names], empty=0.0)

    def _share(self, stems: set[str]) -> float:
        total = fsum(map(self._weight, sorted(self.asked)))
        return fsum(map(self._weight, sorted(self.asked & stems))) / total if total else 1.0

    def _weight(self, asked: str) -> float:
        return 1 / sqrt(1 + self.frequency[asked])

    def _stems(self, name: str) -> set[str]:
        return {stem(word) for word in words(name)}


def _late(similar: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """Mean and the mean of the lowest quarter: over the question's word pieces that are no stop words."""
    found = sorted(value for token, value in similar if token.isalnum() or token.startswith("##"))
    content = sorted(
        value for token, value in similar if token not in STOP_WORDS and (token.isalnum() or token.startswith("##"))
    )
    content = content or found
    if not content:
        return 0.0, 0.0
    quarter = content[: max(1, len(content) // 4)]
    return fsum(content) / len(content), fsum(quarter) / len(quarter)


def _margin(values: Sequence[float]) -> float:
    ordered = sorted(values, reverse=True)
    return ordered[0] - ordered[1] if len(ordered) > 1 else 0.0


def _agreement(cosines: Sequence[float], lexical: Sequence[float]) -> float:
    """The share of pairs of passages that vectors and words put in the same order; ties, and what was not compared, count as a half."""
    if len(cosines) != len(lexical) or len(cosines) < 2:
        return UNDECIDED
    signs = [
        (near - other_near) * (said - other_said)
        for (near, said), (other_near, other_said) in combinations(zip(cosines, lexical, strict=True), 2)
    ]
    return fsum(float(sign > 0) if sign else UNDECIDED for sign in signs) / len(signs)


def _mean(found: Sequence[bool], empty: float) -> float:
    return sum(found) / len(found) if found else empty


def _holds(name: str, title: str) -> bool:
    bare = title.split(" (")[0].strip()
    return bool(bare) and (bare in name or name in bare)


def _log_sum(a: float, b: float) -> float:
    """log(e^a + e^b), for any size of a and b."""
    most = max(a, b)
    return most + log(exp(a - most) + exp(b - most))
