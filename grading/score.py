"""The free grader: retrieval's own scores and the words of the question, weighed by a threshold of the collection. No model runs."""

from anyio import to_thread

from grading.calibrate import Calibration
from grading.calibrated import judged, nothing_found
from grading.evidence import piece
from grading.grade import Grade
from grading.signals import Margins, Measured, signals
from retrieval.passage import Passage

FREE_SIGNALS = (
    "cover",
    "passage_cover",
    "sentence_cover",
    "names_found",
    "numbers_found",
    "top_cosine",
    "cosine_margin",
    "agreement",
)
_NOTHING_READ = Margins(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_RELEVANT_LOGIT = 0.0  # a passage that shares a word with the question is taken as relevant: nobody read it


class ScoreGrader:
    """grading.ports.Grader in a few milliseconds. It tells on-topic from off-topic, hardly ever an answer from a look-alike."""

    name = "score"

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port says; never fails."""
        if not passages:
            return nothing_found(self.name)
        measured = measured_freely(passages)
        return await to_thread.run_sync(judged, question, passages, measured, self.calibration, self.name)


def free_odds(question: str, passages: tuple[Passage, ...], calibration: Calibration) -> float:
    """p(sufficient) of a set that is not empty, before anyone has read it. Takes about a millisecond."""
    pieces = [piece(each.title, each.text) for each in passages]
    return calibration.estimate(signals(question, pieces, measured_freely(passages)).values(calibration.names)).p


def measured_freely(passages: tuple[Passage, ...]) -> Measured:
    """What is known of a set without reading it: retrieval's figures. Every passage counts as relevant."""
    cosines, lexical = found_by("cosine", passages), found_by("lexical", passages)
    return Measured(_NOTHING_READ, (_RELEVANT_LOGIT,) * len(passages), cosines=cosines, lexical=lexical)


def found_by(stage: str, passages: tuple[Passage, ...]) -> tuple[float, ...]:
    """The figures that a stage of retrieval gave, of the passages that have one."""
    return tuple(each.scores[stage] for each in passages if stage in each.scores)
