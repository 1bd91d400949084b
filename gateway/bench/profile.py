"""The profile of a bench: how long searches, verdicts and first tokens take, how questions turn out, and what tokens cost."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gateway.settings import SECOND_WORTH

Kind = Literal["clean", "partial", "insufficient", "refused"]
"""How a question turns out."""
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]
Price = Annotated[float, Field(ge=0)]


class ProfileUnreadable(Exception):
    """Raised when a profile file is missing, no TOML, or says something that a profile cannot; the message says what."""


class Part(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Delays(Part):
    """Medians in milliseconds; `sigma` is that of the lognormal factor on each."""

    retrieve: Milliseconds = 40.0
    grade: Milliseconds = 250.0
    first_token: Milliseconds = 400.0
    rewrite: Milliseconds = 250.0
    sigma: Annotated[float, Field(ge=0, le=2)] = 0.35


class Answer(Part):
    """An answer's length and pace, and how many words each of the five passages has."""

    tokens: Annotated[int, Field(ge=1, le=4_000)] = 40
    tokens_per_s: Annotated[float, Field(gt=0, le=10_000)] = 80.0
    passage_words: Annotated[int, Field(ge=0, le=2_000)] = 150


class Mix(Part):
    """How questions turn out, in parts: the first set holds the answer, the second one does (the first in part, or not), none does.

    `widened` is the share of the failing ones, which are all but `clean`, whose answer is in the set of a wider search. All `insufficient`
    ones are among them; of the `partial` ones those that are not have it in the set of their gap alone.
    """

    clean: Annotated[float, Field(ge=0)] = 85.0
    partial: Annotated[float, Field(ge=0)] = 7.0
    insufficient: Annotated[float, Field(ge=0)] = 5.0
    refused: Annotated[float, Field(ge=0)] = 3.0
    widened: Annotated[float, Field(ge=0, le=1)] = 0.6
    auc: Annotated[float, Field(ge=0.5, le=0.999)] = 0.75
    """Of p(sufficient), as known before the verdict: how often it is higher for a set that holds the answer than for one that does not."""

    @model_validator(mode="after")
    def _is_something(self) -> Self:
        if not sum(self.parts.values()):
            raise ValueError("the parts of the mix are all 0")
        return self

    @property
    def parts(self) -> dict[Kind, float]:
        return {
            "clean": self.clean,
            "partial": self.partial,
            "insufficient": self.insufficient,
            "refused": self.refused,
        }


class Prices(Part):
    """Per million tokens; the defaults are those of the default models, in dollars. `second` is what a second of waiting is worth."""

    generator_input: Price = 3.0
    generator_output: Price = 15.0
    grader_input: Price = 1.0
    grader_output: Price = 5.0
    second: Price = SECOND_WORTH


class Sample(Part):
    """What one logged attempt took, in milliseconds."""

    retrieve: Milliseconds
    grade: Milliseconds
    first_token: Milliseconds


class Profile(Part):
    """Everything that the scripted side of a bench needs to know. With `samples` delays are drawn from them in place of `delays`."""

    name: str = "scripted"
    delays: Delays = Delays()
    answer: Answer = Answer()
    mix: Mix = Mix()
    prices: Prices = Prices()
    samples: tuple[Sample, ...] = ()


def read_profile(path: Path) -> Profile:
    """The profile in a TOML file; what it does not say is as in the built-in one. Raises ProfileUnreadable."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
        return Profile.model_validate({"name": path.stem, **said})
    except OSError as error:
        raise ProfileUnreadable(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileUnreadable(f"{path}: {error}") from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ProfileUnreadable(f"{path}: {wrong}") from None


DOUBTFUL = Profile(
    name="small bucket",
    delays=Delays(grade=600.0, first_token=100.0),
    mix=Mix(clean=1.0, partial=1.0, insufficient=1.0, refused=1.0, auc=0.5),
)
"""Every other question fails, and nothing says which: what is discarded of its drafts fills a small bucket at once."""
SMALL_BUCKET_TOKENS = 600
SLOW_GRADER = Profile(name="slow grader", delays=Delays(grade=800.0, first_token=300.0, sigma=0.0))
"""Where the grader is slower than the model a draft can wait. Nothing varies, so that it is seen how well it is timed."""
