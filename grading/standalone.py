"""A follow-up made to stand alone: history + the user's words -> one question. Pure; a model may do it instead."""

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from grading.words import content_words

# Measured on the 842 + 507 turns of the four mtrag sets (dev side): fewer words lose names, more drown the question.
TOPIC_WORDS = 10
SHORT_WORDS = (
    1  # so short a question leans on what was said before, unless it names something; nDCG@10 1: .502, 2: .500, 3: .497
)
INNER_WORDS = 3  # after so many content words a pronoun more likely means something in the question itself
LONGEST_READ = (
    600  # characters of an earlier turn: its topic is in its first words, and every other answer waits meanwhile
)
EXISTENTIAL_REACH = 12  # characters from the beginning of "is there" to its pronoun, at most


class Said(Protocol):
    """One earlier turn; `role` is `user` or `assistant`."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


S = TypeVar("S", bound=Said)


def standalone(question: str, history: Sequence[Said]) -> str:
    """The question as it would be put without its conversation, on one line; at most TOPIC_WORDS words are added.

    Unchanged (but for outer white space) when there is no history of weight, or when it is complete in itself, as a new topic is. A pronoun
    becomes the name last spoken of where there is one; else the topic follows in brackets. "Yes" becomes what was offered.
    Turns that are blank, and questions that were refused, with their refusals, weigh nothing.
    """
    asked = question.strip()
    turns = weighty(history)
    if not asked or not turns or _ONLY_NO.match(asked):
        return asked
    if _ONLY_YES.match(asked):
        offered = _offered(turns[-1])
        return _joined(offered, _topic(turns[:-1])) if offered else asked
    asked = _YES_AND_MORE.sub("", asked) or asked
    return _joined(asked, _topic(turns))


def weighty(history: Sequence[S]) -> tuple[S, ...]:
    """The turns that count, in order: no blank ones, no refusals, and not the questions that were refused."""
    kept: list[S] = []
    for turn in history:
        if not turn.content.strip():
            continue
        if turn.role == "assistant" and is_refusal(turn.content):
            while kept and kept[-1].role == "user":
                kept.pop()
            continue
        kept.append(turn)
    return tuple(kept)


def is_refusal(answer: str) -> bool:
    """Whether an answer says that it has none. One that goes on to say something else is an answer."""
    return len(answer) <= _LONGEST_REFUSAL and _REFUSAL.search(answer) is not None


def is_dependent(question: str) -> bool:
    """Whether the question leans on what was said before: a pronoun from outside, a connecting beginning, or too few words."""
    if _CONNECTING.match(question) or _outer_pronoun(question) is not None:
        return True
    is_short = len(set(content_words(question))) <= SHORT_WORDS
    return is_short and not _names(question) and not _DEFINING.match(question)


_LONGEST_REFUSAL = 220  # characters
_REFUSAL = re.compile(
    r"\b(?:(?:do|does|did|could|can)(?: not|n['’]t)|cannot|no|not|unable to|nothing)\b[^.?!]{0,40}"
    r"\b(?:information|answer|find|found|contain|provide|know|knowledge|documents?|sources?|passages?|understand|clear)\b"
    r"|\bdeclined? to answer\b|\bran out of (?:the )?(?:time|tokens)\b",
    re.IGNORECASE,
)
_YES = (
    r"(?:yes|yeah|yep|yup|sure|ok|okay|alright|of course|absolutely|definitely|certainly|go ahead|"
    r"(?:yes )?please(?: do)?|do it|do so|sounds good|why not)"
)
# Each text in one way alone, and none given back: "yes please" as one word or two, twenty times over, was tried in a million ways.
_ONE_YES = (
    r"(?:yes|yeah|yep|yup|sure|ok(?:ay)?|alright|of course|absolutely|definitely|certainly|go ahead|"
    r"please(?: do(?! (?:it|so)))?|do it|do so|sounds good|why not)"
)
_ONLY_YES = re.compile(rf"(?:{_ONE_YES}[\s,.!]*+)++(?:thanks|thank you)?[\s.!]*+$", re.IGNORECASE)
_YES_AND_MORE = re.compile(rf"^(?:{_YES}[,.!]+\s+)+(?=\w+\W+\w)", re.IGNORECASE)
_OFFER = re.compile(
    r"(?:(?:would you like|do you want|shall i|should i|may i|can i|let me know if you(?: would|'d|’d)? (?:like|want)|"
    r"i can(?: also)?|if you(?: would|'d|’d)? like, i can)(?: me)?(?: to)?)\s+(?P<what>[^.?!\n]{3,200})",
    re.IGNORECASE,
)
_TO_KNOW = re.compile(
    r"^(?:know|learn|hear|see|tell you|show you)\s+(?:(?:more|something)\s+)?(?:about\s+)?(?=\S)", re.IGNORECASE
)
_ONLY_NO = re.compile(r"(?:no|nope|no thanks|no thank you|never mind|not really)[\s.!]*$", re.IGNORECASE)
_DEFINING = re.compile(
    r"\W*(?:what|who)(?:['’]s| is| are| was| were)\s+(?!the\b)", re.IGNORECASE
)  # complete, however short
_CONNECTING = re.compile(
    r"\W*(?:and|but|so|also|or|then|otherwise|what about|how about|what if|how so|how come|why not|why\W*$|which one|which of|"
    r"what else|who else|where else|anything else|any other|any more|another|tell me more|more about|more on|in that case|other than)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|these|those|there|such|ones?|same|former|latter|both|"
    r"that(?=\s*(?:[?.,!]|$|is\b|was\b|mean|one\b|would\b|work|time\b|case\b|case,)))\b",
    re.IGNORECASE,
)
_EXISTENTIAL = re.compile(
    r"(?:\b(?:is|are|was|were|will|can|does|do)\s+there\b|\bthere\s+(?:is|are|was|were)\b)", re.IGNORECASE
)
_SUBJECT = re.compile(r"\b(?:it|they|them|he|him|she)\b", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z][\w.&'’-]*(?:\s+(?:(?:of|the|and|for|de|von)\s+)?(?:[A-Z][\w.&'’-]*|\d[\w.]*))*")
_SCAFFOLD = re.compile(
    r"^(?:(?:please|so|and|but|also|ok|okay|well|hi|hello|hey|i see|in that case|then)\b[,.!]?\s*)*"
    r"(?:(?:can|could|would|will) you (?:please |also )?(?:tell|show|give|explain|describe|list|help)"
    r"(?: to)?(?: me| us)?(?: with| about| on| of)?\s*|"
    r"(?:tell|show|give) me (?:more |some )?(?:information )?(?:about |on |of )?|"
    r"(?:i want|i need|i would like|i'd like) to (?:know|learn)(?: more)?(?: about)?\s*|"
    r"do you know\s*)?"
    r"(?:(?:what|which|who|where|when|why|how)(?:['’]s|['’]re)?\b\s*(?:(?:much|many|long|often|far)\b\s*)?)?"
    r"(?:(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had)(?:n['’]t)?\b\s*)?"
    r"(?:(?:it possible to|i|you|we|there|it)\b\s*)?",
    re.IGNORECASE,
)
_ADDED = re.compile(r"\s*\(about (?P<topic>[^()]*)\)$")


def _offered(last: Said) -> str | None:
    """What the last turn offered, when it is an answer that ends in an offer."""
    offers = list(_OFFER.finditer(last.content)) if last.role == "assistant" else []
    if not offers:
        return None
    what = _TO_KNOW.sub("", offers[-1]["what"].strip().rstrip(",;:"), count=1)
    return f"{what[0].upper()}{what[1:]}"


def _topic(turns: Sequence[Said]) -> str:
    """What the conversation is about after `turns`: a phrase in the words of the user's questions, empty when there is none."""
    topic = ""
    for turn in turns:
        if turn.role == "user":
            topic = _phrase(_joined(turn.content[:LONGEST_READ].strip(), topic)) or topic
    return topic


def _joined(question: str, topic: str) -> str:
    line = " ".join(question.split())
    if not topic or not is_dependent(line):
        return line
    return _named(line, topic) or f"{line} (about {_unsaid(line, topic)})" if _unsaid(line, topic) else line


def _named(question: str, topic: str) -> str | None:
    """The question with its pronoun replaced, where the topic is one name and nothing else."""
    pronoun = _outer_pronoun(question)
    if pronoun is None or not _SUBJECT.fullmatch(pronoun.group()) or not _NAME.fullmatch(topic):
        return None
    return question[: pronoun.start()] + topic + question[pronoun.end() :]


def _unsaid(question: str, topic: str) -> str:
    """The topic, unless the question says all of it already."""
    said = set(content_words(question))
    return topic if any(word not in said for word in content_words(topic)) else ""


def _phrase(question: str) -> str:
    """The topic of a stand-alone question: its words without the asking, at most TOPIC_WORDS; what it had been about comes last."""
    added = _ADDED.search(question)
    core = _SCAFFOLD.sub("", question[: added.start()] if added else question, count=1).strip(" \t?.!,;:\"'")
    words = core.split() if content_words(core) else []
    older = added["topic"].split() if added else []
    room = TOPIC_WORDS - len(older) if added else TOPIC_WORDS
    return " ".join((*words[: max(room, TOPIC_WORDS // 2)], *older)[:TOPIC_WORDS])


def _outer_pronoun(question: str) -> re.Match[str] | None:
    """The first pronoun that can only mean something outside the question."""
    spared = {match.start() for match in _EXISTENTIAL.finditer(question)}
    for match in _PRONOUN.finditer(question):
        at = match.start()
        if match.group().lower() == "there" and any(at - back in spared for back in range(EXISTENTIAL_REACH + 1)):
            continue
        before = question[:at]
        is_outer = len(content_words(before)) < INNER_WORDS and not _names(before)
        return match if is_outer else None  # before a later one stands all of that too
    return None


def _names(text: str) -> list[str]:
    """Capitalised runs that do not only begin the sentence."""
    return [
        found.group()
        for found in _NAME.finditer(text)
        if found.start() > 0 or " " in found.group() or not found.group().istitle()
    ]
