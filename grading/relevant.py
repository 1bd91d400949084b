"""Which passages of a set bear on a question, and what of the question the set does not speak of. Pure."""

from collections.abc import Sequence

from grading.words import uncovered

# The packaged cross-encoder's logit from which a passage counts as relevant: keeps .80 of the evidence in the labelled development sets
# and .55 of the other passages. Low on purpose: a citation to a passage that is not relevant is dropped, and evidence of a second hop
# scores low.
RELEVANT_LOGIT = -5.0


def relevant_numbers(logits: Sequence[float], *, at_least_one: bool) -> tuple[int, ...]:
    """The numbers (from 1) of the passages whose logit says relevant; with `at_least_one` the best where none does."""
    found = tuple(n for n, logit in enumerate(logits, 1) if logit >= RELEVANT_LOGIT)
    if found or not at_least_one or not logits:
        return found
    return (max(range(1, len(logits) + 1), key=lambda n: logits[n - 1]),)


def lacking(question: str, texts: Sequence[str]) -> str:
    """What of the question `texts` do not speak of, in its own words; never empty.

    When they mention every word of it, what is missing is a passage that says so in so many words, and that is said.
    """
    words = ", ".join(uncovered(question, texts))
    return words or f"a direct answer to: {' '.join(question.split()) or 'the question'}"
