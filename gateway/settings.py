"""Settings: from the environment and one TOML file into one frozen object. No other module reads the environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from gateway.access.hosts import is_loopback
from gateway.admission import Bounds
from gateway.graders import BY_A_SERVICE, ON_THE_MODELS_HERE, GraderName
from gateway.keeping.keeper import GRACE_S, KEEP_S
from gateway.observing.metric_names import Names
from gateway.observing.request_log import LogFormat
from gateway.policy_settings import policy_of, policy_rows
from gateway.profile_settings import ProfileTable, require_different_names
from gateway.providers.script import Script
from gateway.shedding import shedding
from gateway.source_settings import SourceTable, require_different, with_variables
from gateway.speculation import Speculate, Terms
from gateway.telemetry import exports_metrics, exports_traces
from gateway.unknown_settings import unknown
from gateway.uploads.upload import UPLOAD_BYTES
from grading.correct import Policy
from grading.routing import Router, adaptive, always
from retrieval.ports import SearchMode
from streaming.budget import MAX_RETRIES, Conflicts, Limits, Verify
from streaming.room import HOLD_LIMIT_BYTES
from streaming.speculate import Worth

PREFIX = "GATEWAY_"
CONFIG_VARIABLE = "GATEWAY_CONFIG"
CONFIG_DEFAULT = Path("gateway.toml")
DRAFTS_IN_ALL = 4  # three attempts at most, one of them drafted twice
AHEAD_BESIDE_A_RERANKER = max(1, (os.cpu_count() or 1) // 2)  # a wider search reranked here takes about 1 s of a core
SECOND_WORTH = 0.4  # docs/decisions/0017-what-a-second-is-worth.md
HOSTED_INPUT_PRICE, HOSTED_OUTPUT_PRICE, HOSTED_GRADER_PRICE = (
    3.0,
    15.0,
    1.0,
)  # per million tokens of the default models, in the currency of `second_worth`
HOLD_LEAST_BYTES = 32_768  # the longest sentence that a verifier is asked about, twice, and the longest token

Provider = Literal["anthropic", "local", "scripted"]
Cache = Literal["off", "verified"]
Origin = Annotated[str, Field(pattern=r"^https?://[a-z0-9._-]+(:[0-9]{1,5})?$")]  # as browsers write it
HostName = Annotated[str, Field(pattern=r"^(\*|[a-z0-9._-]+)$")]
FirstSearch = Literal["adaptive", "dense", "lexical", "hybrid", "hops"]


class SettingsInvalid(Exception):
    """Raised when a setting is missing, unknown or out of bounds; names each one and says why, never its value."""


class Settings(BaseSettings):
    """Everything that can be configured. Times in seconds (`_s`), sizes in bytes; see docs for the reasons of the defaults."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    database_url: SecretStr | None = None
    owner_url: SecretStr | None = None
    home: Path = Field(default_factory=lambda: default_home(os.environ))
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    allowed_hosts: Annotated[tuple[HostName, ...], NoDecode] = ()
    cors_origins: Annotated[tuple[Origin, ...], NoDecode] = ()

    provider: Literal["auto", "anthropic", "local", "scripted"] = "auto"
    generator_model: str = "claude-sonnet-5-5"
    grader_model: str = "claude-haiku-5-5"
    fallback_generator_model: str | None = None
    fallback_grader_model: str | None = None
    graders: Annotated[tuple[GraderName, ...], NoDecode] = ()
    anthropic_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("anthropic_api_key", "ANTHROPIC_API_KEY")
    )
    anthropic_base_url: str | None = Field(
        default=None, validation_alias=AliasChoices("anthropic_base_url", "ANTHROPIC_BASE_URL")
    )
    connect_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    read_s: Annotated[float, Field(gt=0, le=300)] = 20.0
    rest_s: Annotated[float, Field(ge=0, le=1)] = 0.08

    speculate: Speculate = "adaptive"
    second_worth: Annotated[float, Field(ge=0)] = SECOND_WORTH
    input_price: Annotated[float, Field(ge=0)] | None = None
    output_price: Annotated[float, Field(ge=0)] | None = None
    grader_price: Annotated[float, Field(ge=0)] | None = None
    prompt_cache: bool = False
    draft_lead_s: Annotated[float, Field(ge=0, le=5)] = 0.02
    waste_tokens: Annotated[int, Field(ge=0, le=1_000_000_000)] = 60_000
    busy_streams: Annotated[int, Field(ge=1)] | None = None
    look_ahead: bool = True
    look_ahead_streams: Annotated[int, Field(ge=1)] | None = None

    max_streams: Annotated[int, Field(ge=1)] = 256
    max_streams_per_key: Annotated[int, Field(ge=1)] = 64
    waiting_streams: Annotated[int, Field(ge=0)] = 32
    wait_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 1
    deadline_s: Annotated[float, Field(gt=0, le=300)] = 60.0
    grade_timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    k: Annotated[int, Field(ge=1, le=50)] = 5
    output_tokens: Annotated[int, Field(ge=1, le=64_000)] = 1024
    total_output_tokens: Annotated[int, Field(ge=1)] | None = None
    total_input_tokens: Annotated[int, Field(ge=1)] = 200_000
    external_searches: Annotated[int, Field(ge=0, le=10)] = 2
    hold_bytes: Annotated[int, Field(ge=HOLD_LEAST_BYTES)] = HOLD_LIMIT_BYTES
    strict_subset: bool = False
    verify: Literal["off", "annotate", "gate"] = "off"
    first_search: FirstSearch = "adaptive"
    conflicts: Literal["name", "refuse"] = "name"
    policy: Annotated[Mapping[str, Mapping[str, tuple[str, ...]]] | None, NoDecode] = None
    decision_rows: Annotated[int, Field(ge=0, le=10_000_000)] = 200_000

    pool_size: Annotated[int, Field(ge=1, le=100)] = 5
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_api_key: SecretStr | None = None
    embeddings_dimensions: Annotated[int, Field(ge=1, le=16_000)] | None = None

    sources: tuple[SourceTable, ...] = ()
    profiles: tuple[ProfileTable, ...] = ()
    cache: Cache = "off"

    upload_bytes: Annotated[int, Field(ge=1_048_576, le=1_073_741_824)] = UPLOAD_BYTES
    resume_grace_s: Annotated[float, Field(gt=0, le=600)] = GRACE_S
    resume_keep_s: Annotated[float, Field(ge=0, le=3600)] = KEEP_S
    resume_store: Literal["auto", "memory", "postgres"] = "auto"
    send_timeout_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    ping_s: Annotated[float, Field(gt=0, le=300)] = 15.0
    drain_grace_s: Annotated[float, Field(ge=0, le=3600)] = 20.0
    charset: bool = False

    retriever: Literal["postgres", "scripted"] = "postgres"
    script: str = ""
    export_traces: bool = Field(default_factory=lambda: exports_traces(os.environ))
    export_metrics: bool = Field(default_factory=lambda: exports_metrics(os.environ))
    metric_names: Names = "new"
    record_text: bool = False
    log_format: LogFormat = "auto"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file(os.environ))

    @field_validator("api_keys", "graders", "allowed_hosts", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(key.strip() for key in value.split(",") if key.strip()) if isinstance(value, str) else value

    @field_validator("api_keys")
    @classmethod
    def _can_be_sent(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for number, key in enumerate(value, 1):
            secret = key.get_secret_value()
            if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
                raise PydanticCustomError(
                    "key",
                    "key {number} has a character that no header brings whole: only visible ASCII",
                    {"number": number},
                )
        return value

    @field_validator("sources", mode="before")
    @classmethod
    def _with_variables(cls, value: object) -> object:
        return with_variables(value, os.environ)

    @field_validator("sources")
    @classmethod
    def _are_different(cls, value: tuple[SourceTable, ...]) -> tuple[SourceTable, ...]:
        return require_different(value)

    @field_validator("profiles")
    @classmethod
    def _are_named_apart(cls, value: tuple[ProfileTable, ...]) -> tuple[ProfileTable, ...]:
        return require_different_names(value)

    @field_validator("policy", mode="before")
    @classmethod
    def _in_rows(cls, value: object) -> object:
        return None if value is None else policy_rows(value)

    @field_validator("script")
    @classmethod
    def _is_a_script(cls, value: str) -> str:
        try:
            Script.parse(value)
        except ValueError as error:
            raise PydanticCustomError("script", "{reason}", {"reason": str(error)}) from None
        return value

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if not is_loopback(self.host) and not self.api_keys and self.retriever == "scripted":
            raise PydanticCustomError(
                "open", "GATEWAY_HOST is reachable from other machines: set GATEWAY_API_KEYS, or use 127.0.0.1"
            )
        if self.owner_url is not None and self.database_url is None:
            raise PydanticCustomError("owner", "GATEWAY_OWNER_URL needs GATEWAY_DATABASE_URL beside it")
        if self.provider == "anthropic" and self.anthropic_api_key is None:
            raise PydanticCustomError("key", "GATEWAY_PROVIDER is 'anthropic': set ANTHROPIC_API_KEY")
        if self.resume_store == "postgres" and self.retriever == "scripted":
            raise PydanticCustomError(
                "resume", "GATEWAY_RESUME_STORE is 'postgres', and a scripted search has no database"
            )
        if self.embeddings_url is not None and (self.embeddings_model is None or self.embeddings_dimensions is None):
            raise PydanticCustomError(
                "embeddings", "GATEWAY_EMBEDDINGS_URL needs GATEWAY_EMBEDDINGS_MODEL and GATEWAY_EMBEDDINGS_DIMENSIONS"
            )
        if any(profile.names_a_model for profile in self.profiles) and self.chosen_provider != "anthropic":
            raise PydanticCustomError("profiles", "GATEWAY_PROFILES names a model of Anthropic: set ANTHROPIC_API_KEY")
        for role in ("generator", "grader"):
            stands_in, variable = getattr(self, f"fallback_{role}_model"), f"GATEWAY_FALLBACK_{role.upper()}_MODEL"
            if stands_in is not None and self.chosen_provider != "anthropic":
                raise PydanticCustomError("fallback", f"{variable} names a model of Anthropic: set ANTHROPIC_API_KEY")
            if stands_in == getattr(self, f"{role}_model"):
                raise PydanticCustomError("fallback", f"{variable} is the model that it is to stand in for")
        if len(set(self.graders)) < len(self.graders):
            raise PydanticCustomError("graders", "GATEWAY_GRADERS names a grader twice")
        if BY_A_SERVICE.intersection(self.graders) and self.chosen_provider == "local":
            raise PydanticCustomError("graders", "GATEWAY_GRADERS asks a model of Anthropic: set ANTHROPIC_API_KEY")
        return self

    @property
    def chosen_graders(self) -> tuple[GraderName, ...]:
        """Who grades, in order: as set; else `calibrated` without a key, with one `calibrated` and then the model; with scripts these."""
        if self.graders:
            return self.graders
        match self.chosen_provider:
            case "local":
                return ("calibrated",)
            case "anthropic":
                return ("calibrated", "model")
            case "scripted":
                return ("model",)

    @property
    def grades_here(self) -> bool:
        """Whether a local model grades."""
        return not ON_THE_MODELS_HERE.isdisjoint(self.chosen_graders)

    @property
    def chosen_provider(self) -> Provider:
        """Who grades and generates: as set, or Claude when there is a key, else local models."""
        if self.provider == "auto":
            return "local" if self.anthropic_api_key is None else "anthropic"
        return self.provider

    @property
    def plays_scripts(self) -> bool:
        """Whether a question may hold the markers of a script."""
        return "scripted" in (self.chosen_provider, self.retriever)

    @property
    def shares_recordings(self) -> bool:
        """Whether resumable answers are kept in the database, where other gateways find them: by default where a server is named."""
        if self.resume_store == "auto":
            return self.database_url is not None and self.retriever != "scripted"
        return self.resume_store == "postgres"

    def limits(self) -> Limits:
        """The budget of an answer, before a request narrows it."""
        return Limits(
            max_retries=self.max_retries,
            deadline_s=self.deadline_s,
            grade_timeout_s=self.grade_timeout_s,
            silence_s=self.read_s,
            output_tokens=self.output_tokens,
            total_output_tokens=self.total_output_tokens or DRAFTS_IN_ALL * self.output_tokens,
            total_input_tokens=self.total_input_tokens,
            external_searches=self.external_searches,
            hold_bytes=self.hold_bytes,
            k=self.k,
            strict_subset=self.strict_subset,
            verify=Verify(self.verify),
            conflicts=Conflicts(self.conflicts),
        )

    def bounds(self) -> Bounds:
        """Who is let in."""
        return Bounds(
            self.max_streams,
            self.max_streams_per_key,
            self.waiting_streams,
            self.wait_s,
            self.requests_per_minute,
            self.tokens_per_minute,
        )

    def terms(self) -> Terms:
        """What speculation weighs: prices are per million tokens; models on this machine cost none."""
        hosted = self.chosen_provider == "anthropic"
        input_price = (HOSTED_INPUT_PRICE if hosted else 0.0) if self.input_price is None else self.input_price
        output_price = (HOSTED_OUTPUT_PRICE if hosted else 0.0) if self.output_price is None else self.output_price
        asks_a_model = hosted and not BY_A_SERVICE.isdisjoint(self.chosen_graders)
        grader_price = (
            (HOSTED_GRADER_PRICE if asks_a_model else 0.0) if self.grader_price is None else self.grader_price
        )
        worth = Worth(self.second_worth, input_price / 1e6, output_price / 1e6, self.draft_lead_s, grader_price / 1e6)
        order = shedding(self.max_streams, self.busy_streams)
        at_once = order.looking_ahead_above if self.retriever == "scripted" else AHEAD_BESIDE_A_RERANKER
        return Terms(worth, self.waste_tokens, (self.look_ahead_streams or at_once) if self.look_ahead else 0, order)

    def correction_policy(self) -> Policy:
        """What to try for each verdict and cause: the default, with the rows that are set in place of its own."""
        return policy_of(self.policy or {})

    def router(self) -> Router:
        """How a question is searched for first."""
        return adaptive if self.first_search == "adaptive" else always(SearchMode(self.first_search))


def read_settings(**overrides: object) -> Settings:
    """The settings of this process; `overrides` (None is none) come before the environment. Raises SettingsInvalid."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsInvalid("\n".join(said(detail) for detail in error.errors(include_input=False))) from None
    except SettingsError as error:
        raise SettingsInvalid(str(error)) from None
    except (OSError, ValueError) as error:  # of the file: unreadable, or not TOML
        raise SettingsInvalid(f"{config_file(os.environ)}: {error}") from None


def unknown_settings(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """A sentence for each variable (of this process) that looks like one of these settings and is none."""
    known = {CONFIG_VARIABLE, *(PREFIX + name.upper() for name in Settings.model_fields)}
    return unknown(os.environ if environ is None else environ, PREFIX, known)


def said(detail: ErrorDetails) -> str:
    """One thing that is wrong, as `GATEWAY_PORT: Input should be ...`."""
    name = ".".join(str(part) for part in detail["loc"])
    if not name:
        return detail["msg"]
    if detail["type"] == "extra_forbidden":
        return f"{name}: no setting has this name"
    setting, _, inside = name.partition(".")  # inside a table names are as they are written
    variable = setting if setting.isupper() else PREFIX + setting.upper()
    return f"{variable}{'.' if inside else ''}{inside}: {detail['msg']}"


def config_file(environ: Mapping[str, str]) -> Path | None:
    """The TOML file to read: the one named (it must exist), else ./gateway.toml where there is one."""
    named = environ.get(CONFIG_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise SettingsInvalid(f"{CONFIG_VARIABLE}: there is no file {named}")
        return path
    return CONFIG_DEFAULT if CONFIG_DEFAULT.is_file() else None


def environment_without_settings() -> dict[str, str]:
    """What a program that this one starts is told of the environment, when no setting is to reach it."""
    foreign = (PREFIX, "ANTHROPIC_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def default_home(environ: Mapping[str, str]) -> Path:
    """Where documents and answers are kept: the user's data folder."""
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "optimistic-gateway"
