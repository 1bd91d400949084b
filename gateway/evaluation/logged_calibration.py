"""A calibration from logged verdicts: what the graders of a server said of its own questions, weighed by the free signals."""

from datetime import UTC, datetime

from gateway.evaluation.calibration import Fit, Options, with_figures
from gateway.evaluation.judging import RISING_SIGNALS
from gateway.evaluation.sufficiency import Judged
from gateway.problems import InvalidRequest
from gateway.settings import Settings
from grading.calibrate import Calibration, Example, TooFewCases, cross_validated, fit
from grading.grade import Verdict
from grading.score import FREE_SIGNALS


async def logged_examples(settings: Settings, collection: str) -> tuple[Example, ...]:
    """The logged verdicts of a collection. Raises RetrievalUnavailable or what a database that cannot start raises."""
    from gateway.decision_log import DecisionReader
    from gateway.wiring import database_url
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with database_url(settings) as url:
        await migrate(url)
        async with open_pool(url, size=1) as pool:
            return await DecisionReader(pool).verdicts(collection)


def fitted_on_verdicts(examples: tuple[Example, ...], options: Options) -> Fit:
    """The model of these verdicts, and what models like it say of the questions they have not seen. Raises TooFewCases."""
    if not examples:
        raise TooFewCases(f"no verdict of another grader is logged for the collection {options.collection}")
    model = fit(
        examples,
        FREE_SIGNALS,
        rising=RISING_SIGNALS,
        cost_ratio=options.cost_ratio,
        data=f"{len(examples)} logged verdicts of the collection {options.collection}",
        made=datetime.now(UTC).date().isoformat(),
        seed=options.seed,
    )
    held_out = held_out_of(examples, model)
    return Fit(with_figures(model, held_out, options.seed), held_out)


def held_out_of(examples: tuple[Example, ...], model: Calibration) -> list[Judged]:
    """Each verdict with what a model fitted on the other questions says of it."""
    probabilities = cross_validated(examples, FREE_SIGNALS, rising=RISING_SIGNALS)
    return [
        Judged(each.origin, each.group, p, _said(each.sufficient), _said(p >= model.threshold))
        for each, p in zip(examples, probabilities, strict=True)
    ]


async def fitted_from_log(settings: Settings, options: Options) -> Fit:
    """The model of a collection's logged verdicts. Raises InvalidRequest for another grader than `score`, otherwise as its parts."""
    if options.grader != "score":
        raise InvalidRequest(
            "--from-log fits the grader `score`: the log holds the free signals alone. Add --grader score"
        )
    return fitted_on_verdicts(await logged_examples(settings, options.collection), options)


def _said(sufficient: bool) -> str:
    return (Verdict.SUFFICIENT if sufficient else Verdict.INSUFFICIENT).value
