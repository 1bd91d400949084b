"""Follow-ups made to stand alone, on made conversations."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.standalone import TOPIC_WORDS, is_refusal, standalone, weighty

REFUSED = "I'm sorry, I could not find any information about that in your documents."


@dataclass(frozen=True)
class Turn:
    role: str
    content: str


def talk(*contents: str) -> list[Turn]:
    """Turns in alternation, the user's first."""
    return [Turn("assistant" if number % 2 else "user", content) for number, content in enumerate(contents)]


WATSON = talk("What is Watson Assistant?", "It is a chatbot.")


def test_without_history_the_question_is_as_it_was() -> None:
    assert standalone("  Does it support SSO? ", []) == "Does it support SSO?"
    assert standalone("", WATSON) == ""


@pytest.mark.parametrize(
    ("question", "history", "made"),
    [
        ("Does it support SSO?", WATSON, "Does Watson Assistant support SSO?"),
        ("Where was she born?", talk("Who is Letitia James?", "An attorney."), "Where was Letitia James born?"),
        (
            "And in Spain?",
            talk("How long is annual leave in Germany?", "24 days."),
            "And in Spain? (about annual leave in Germany)",
        ),
        (
            "Which is more important?",
            talk("What's the difference between Market Cap and NAV?", "One is a price."),
            "Which is more important? (about the difference between Market Cap and NAV)",
        ),
    ],
)
def test_a_follow_up_says_what_it_is_about(question: str, history: list[Turn], made: str) -> None:
    if question.startswith("Which"):
        assert standalone(f"{question[:-1]} of these?", history).endswith("Market Cap and NAV)")
    else:
        assert standalone(question, history) == made


@pytest.mark.parametrize(
    "question",
    [
        "How do I plant tomatoes in winter?",
        "What is the capital of Iceland?",
        "Is there life beyond Earth?",
        "Are there serverless instances of the database?",
        "Who was the last Kolb to live in the house?",
    ],
)
def test_a_new_topic_is_left_alone(question: str) -> None:
    assert standalone(question, WATSON) == question


def test_a_pronoun_that_means_something_in_the_question_is_left_alone() -> None:
    question = "Does Watson Assistant say when it is wrong?"
    assert standalone(question, talk("What is tea?", "A drink.")) == question


@pytest.mark.parametrize("yes", ["yes", "Yes, please!", "ok", "sure, go ahead", "Please do."])
def test_yes_means_what_was_offered(yes: str) -> None:
    offered = talk("How do refunds work?", "They take five days. Would you like me to explain gift card refunds?")
    assert standalone(yes, offered) == "Explain gift card refunds"


@pytest.mark.parametrize(
    "yes", ["yes yes", "okay", "Okay, please do it.", "please do so", "Yes please, thank you!", "sure please yes"]
)
def test_yes_in_several_words_is_yes(yes: str) -> None:
    offered = talk("How do refunds work?", "They take five days. Would you like me to explain gift card refunds?")
    assert standalone(yes, offered) == "Explain gift card refunds"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("yes please " * 700 + "x", "They take five days. Shall I explain?"),
        ("please do it, " * 500 + "x", "They take five days. Shall I explain?"),
        ("yes" + " " * 7_000 + "x", "They take five days. Shall I explain?"),
        ("And its price?", "alpha beta gamma delta " + "it " * 30_000),
        ("alpha beta gamma delta " + "it " * 2_600, "roses"),
        ("And its price?", "Is there " * 10_000),
    ],
    ids=["yes please", "please do it", "blanks", "pronouns before", "pronouns", "existentials"],
)
def test_no_words_hold_up_everybody_else(question: str, said: str) -> None:
    """Every other answer waits meanwhile. The first took for ever, forty words of it too; the fourth a minute."""
    history = [Turn("user", "What of roses?"), Turn("assistant", said), Turn("user", said)]
    began_s = time.process_time()
    standalone(question, [*history, history[1]])
    assert time.process_time() - began_s < 1.0


def test_an_offer_to_tell_more_is_what_it_tells_of() -> None:
    offered = talk("What is Vasa?", "Vasa is a ship. Do you want to know where it was built?")
    assert standalone("yes", offered) == "Where Vasa was built"


def test_yes_and_more_is_the_more() -> None:
    assert standalone("Yes. What does it cost?", WATSON) == "What does Watson Assistant cost?"


@pytest.mark.parametrize("word", ["yes", "ok", "no", "No thanks."])
def test_yes_to_no_offer_and_no_are_left_alone(word: str) -> None:
    history = (
        talk("What is Vasa?", "A ship.") if word != "no" else talk("What is Vasa?", "A ship. Shall I tell you more?")
    )
    assert standalone(word, history) == word


def test_the_topic_outlives_a_chain_of_follow_ups() -> None:
    chain = talk("What is Watson Assistant?", "A chatbot.", "What does it cost?", "Nothing.", "Is it safe?", "Yes.")
    assert "Watson Assistant" in standalone("Who made it?", chain)


def test_blank_and_refused_turns_weigh_nothing() -> None:
    history = [*WATSON, *talk("What about Zork?", REFUSED), Turn("user", "  "), Turn("assistant", "")]
    assert weighty(history) == tuple(WATSON)
    assert standalone("Does it support SSO?", history) == standalone("Does it support SSO?", WATSON)
    assert standalone("Does it support SSO?", talk("What is Zork?", REFUSED)) == "Does it support SSO?"


@pytest.mark.parametrize(
    ("answer", "refuses"),
    [
        (REFUSED, True),
        ("Sorry, I do not have that information.", True),
        ("Nothing in the documents answers this.", True),
        ("I cannot find the pronunciation of Vallabhbhai.", True),
        ("Refunds take five days.", False),
        ("No, the warranty covers it.", False),
        ("There is no fee.", False),
    ],
)
def test_a_refusal_is_told_from_an_answer(answer: str, refuses: bool) -> None:
    assert is_refusal(answer) is refuses


WORDS = st.text(st.sampled_from("aeT? .,'()it\nyes"), max_size=60)


@given(WORDS, st.lists(st.tuples(st.sampled_from(["user", "assistant"]), WORDS), max_size=6))
def test_whatever_was_said_little_is_added(question: str, history: list[tuple[str, str]]) -> None:
    made = standalone(question, [Turn(*turn) for turn in history])
    assert len(made.split()) <= max(len(question.split()), 60) + TOPIC_WORDS + 2
    assert bool(made) is bool(question.strip())
