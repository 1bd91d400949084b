"""A run: every case asked of one gateway, all at once, and the verdict on it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio
import httpx2

from gateway.bench.messages_log import Log
from tests.conformance.judge import Finding, Wrong, judged, of_kind
from tests.conformance.mapping import Mapping
from tests.conformance.plan import Asked, waves
from tests.conformance.visit import Patience, Seen, of, visit


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, and how much there was to find: a gateway that never drafts before its verdict had no occasion to leak.

    `unknown` are names of events that the mapping does not know, with how often each came.
    """

    questions: int
    findings: tuple[Finding, ...]
    occasions: Counter[Wrong]
    unknown: Counter[str]

    @property
    def is_convicted(self) -> bool:
        return bool(self.findings)

    def of(self, wrong: Wrong) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.wrong is wrong)


async def run(
    base_url: str, mapping: Mapping, log: Log, *, patience: Patience | None = None, rounds: int = 1, at_once: int = 28
) -> Report:
    """Asks every case `rounds` times, `at_once` at a time. `log` is that of the upstream that the gateway asks."""
    patience, seen = patience or Patience(), list[Seen]()
    limits = httpx2.Limits(max_connections=None)
    limiter = anyio.CapacityLimiter(at_once)
    async with httpx2.AsyncClient(
        base_url=base_url, timeout=None, trust_env=False, verify=False, limits=limits
    ) as http:

        async def one(question: Asked) -> None:
            async with limiter:
                seen.append(await visit(http, mapping, log, question, patience))

        for wave in waves(rounds):
            async with anyio.create_task_group() as tasks:
                for question in wave:
                    tasks.start_soon(one, question)
    for each in seen:  # what began late, or is open still, is seen now
        each.exchanges = [replace(exchange) for exchange in of(log, each.asked)]
    findings = [finding for each in sorted(seen, key=number) for finding in judged(each, mapping, patience)]
    return Report(len(seen), tuple(findings), occasions(seen), unknown(seen, mapping))


def number(seen: Seen) -> int:
    return seen.asked.number


def occasions(seen: Sequence[Seen]) -> Counter[Wrong]:
    """How many questions could have gone wrong in each way."""
    found: Counter[Wrong] = Counter()
    for each in seen:
        drafts, grades = of_kind(each, "generator"), of_kind(each, "grader")
        first_verdict_s = min((grade.finished_s or each.ended_s for grade in grades), default=each.ended_s)
        is_early = any(draft.received_s < first_verdict_s for draft in drafts)
        found[Wrong.LEAKED] += is_early
        found[Wrong.UNCUT] += is_early and "insufficient" in each.asked.case.script
        found[Wrong.WAITED] += is_early and "fault=stall" in each.asked.case.script
        found[Wrong.OUTLIVED] += each.end == "left" and bool(each.exchanges)
        found[Wrong.UNENDED] += each.end not in ("left", "waited")
        found[Wrong.ALTERED] += any(each.pieces)
    return found


def unknown(seen: Sequence[Seen], mapping: Mapping) -> Counter[str]:
    return Counter(event.name for each in seen for event in each.events if not mapping.is_known(event))


def shown(report: Report) -> str:
    """The report, as a table and a line per finding."""
    lines = [f"{'':42}{'questions':>10}{'wrong':>8}"]
    for wrong in Wrong:
        bad = len({finding.number for finding in report.of(wrong)})
        lines.append(f"{wrong:42}{report.occasions[wrong]:>10}{bad:>8}")
    lines += [f"  {each.wrong}: question {each.number} ({each.case}): {each.said}" for each in report.findings]
    if not report.occasions[Wrong.LEAKED]:
        lines.append("  note: no draft was begun before its verdict, so that nothing could leak or had to be cut")
    if report.unknown:
        lines.append("  note: events that the mapping does not know: " + ", ".join(sorted(report.unknown)))
    lines.append(f"{report.questions} questions: " + ("convicted" if report.is_convicted else "acquitted"))
    return "\n".join(lines)
