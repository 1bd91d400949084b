"""Voices: who writes, rewords, checks and grades for a provider; each vendor is imported here, when it is used."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gateway.chat.profiles_of import Models
from gateway.graders import GraderName, service_limit_s
from gateway.settings import Settings
from gateway.upstreams.breaker import Breakers, Role
from gateway.upstreams.guarded import GuardedRewriter, GuardedVerifier
from gateway.upstreams.models import GuardedModels
from grading.calibrate import default_calibration
from grading.ports import Grader, Rewriter, Verifier
from streaming.ports import Generator

if TYPE_CHECKING:
    from gateway.providers.local.models import LocalModels


@dataclass(frozen=True, slots=True)
class Voices:
    """Who writes, says a question in other words and checks what is written; the graders that ask a service, by name.

    `fallback` and `standby` are who stands in for generator and graders.
    """

    generator: Generator
    rewriter: Rewriter
    verifier: Verifier
    graders: Mapping[GraderName, Grader] = field(default_factory=dict)
    models: Models | None = None
    fallback: Generator | None = None
    standby: Mapping[GraderName, Grader] = field(default_factory=dict)


async def open_voices(
    settings: Settings, local: "LocalModels | None", breakers: Breakers, stack: AsyncExitStack
) -> Voices:
    """Those of the provider that is set; what they hold is closed with `stack`. `local` is there where the models here are to speak."""
    match settings.chosen_provider:
        case "local":
            assert local is not None
            return _local_voices(local)
        case "scripted":
            return _scripted(settings)
        case "anthropic":
            return await _claude(settings, breakers, stack)


def _local_voices(local: "LocalModels") -> Voices:
    from gateway.providers.local.rewriter import LocalRewriter
    from gateway.providers.local.verifier import LocalVerifier, ReaderMeasure

    verifier = LocalVerifier(ReaderMeasure(local.grader), default_calibration("sentence"))
    return Voices(local.generator, LocalRewriter(), verifier)


async def _claude(settings: Settings, breakers: Breakers, stack: AsyncExitStack) -> Voices:
    from gateway.providers.claude.client import open_client
    from gateway.providers.claude.models import ClaudeModels
    from gateway.providers.claude.rest import Rest
    from gateway.providers.claude.rewriter import AnthropicRewriter
    from gateway.providers.claude.verifier import AnthropicVerifier

    assert settings.anthropic_api_key is not None
    client = open_client(
        settings.anthropic_api_key.get_secret_value(),
        settings.anthropic_base_url,
        connect_s=settings.connect_s,
        read_s=settings.read_s,
    )
    stack.push_async_callback(client.close)
    judge = settings.grader_model
    drafts_for, grades_for = settings.fallback_generator_model, settings.fallback_grader_model
    grade_s = service_limit_s(settings.grade_timeout_s, stands_by=grades_for is not None)
    claude = ClaudeModels(client, keeps=settings.prompt_cache, rest=Rest(settings.rest_s))
    models = GuardedModels(claude, breakers, settings.read_s, grade_s, asks_again=grades_for is None)
    standby = replace(models, generates=Role.FALLBACK_GENERATOR, grades=Role.FALLBACK_GRADER)
    judges_breaker = breakers.of(Role.GRADER, judge)
    return Voices(
        models.generator(settings.generator_model),
        GuardedRewriter(AnthropicRewriter(client, judge), judges_breaker, settings.read_s),
        GuardedVerifier(AnthropicVerifier(client, judge), judges_breaker, settings.grade_timeout_s),
        models.graders(judge),
        models,
        None if drafts_for is None else standby.generator(drafts_for),
        {} if grades_for is None else standby.graders(grades_for),
    )


def _scripted(settings: Settings) -> Voices:
    from gateway.providers.script import Script
    from gateway.providers.scripted import ScriptedGenerator, ScriptedGrader, ScriptedRewriter, ScriptedVerifier

    script = Script.parse(settings.script)
    grader = ScriptedGrader(script)
    return Voices(
        ScriptedGenerator(script),
        ScriptedRewriter(script),
        ScriptedVerifier(script),
        {"model": grader, "model-passages": grader},
    )
