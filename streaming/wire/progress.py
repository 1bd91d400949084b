"""Progress: what is being done, in words for a person, for clients that show a line of status. Pure."""

from dataclasses import dataclass
from typing import Literal

from streaming.events import Event, Failed, Refusal, Retry, Stage, Status, Verification


@dataclass(frozen=True, slots=True)
class Step:
    """One line of status; `is_over` when nothing is being waited for any more. `missing` and `query` say why and what is searched again."""

    attempt: int
    stage: Stage | Literal["ended"]
    description: str
    is_over: bool = False
    missing: str | None = None
    query: str | None = None


class Progress:
    """Follows one answer's events."""

    def __init__(self) -> None:
        self._attempt = 1
        self._retry: Retry | None = None

    def step(self, event: Event) -> Step | None:
        """The line that `event` is worth, or None. A correction is announced by the retry that leads to it, not a second time."""
        match event:
            case Retry():
                self._retry = event
                self._attempt = event.attempt + 1
                return self._again("correcting", f"{found_too_little(event.missing)}; searching again")
            case Status(attempt, stage):
                self._attempt = attempt
                return self._status(stage)
            case Verification():
                return Step(self._attempt, "ended", checked(event), is_over=True)
            case Refusal():
                return Step(self._attempt, "ended", "Not answered", is_over=True)
            case Failed():
                return Step(self._attempt, "ended", "Failed", is_over=True)
            case _:
                return None

    def _status(self, stage: Stage) -> Step | None:
        match stage:
            case "correcting":
                return None
            case "retrieving" if self._retry is not None:
                return self._again(stage, f"Searching again: {self._retry.query}")
            case "retrieving":
                return Step(self._attempt, stage, "Searching")
            case "grading":
                return Step(self._attempt, stage, "Checking whether what was found is enough")
            case "generating":
                return Step(self._attempt, stage, "Answering", is_over=True)
            case "verifying":
                return Step(self._attempt, stage, "Checking the answer against its sources")

    def _again(self, stage: Stage, description: str) -> Step:
        assert self._retry is not None
        return Step(self._attempt, stage, description, missing=self._retry.missing, query=self._retry.query)


def found_too_little(missing: str | None) -> str:
    return f"Found nothing on {missing}" if missing else "Found too little"


def checked(verification: Verification) -> str:
    """What the check of an answer came to."""
    claims = verification.claims
    unsupported = sum(not claim.supported for claim in claims)
    if verification.grounded:
        return "Every sentence is supported by the sources"
    if not claims:
        return "The answer could not be checked"
    return f"Not supported by the sources: {unsupported} of {len(claims)} sentences"
