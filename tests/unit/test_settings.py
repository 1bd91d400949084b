"""Settings: one reader, one frozen object, errors that name the setting and never show a value."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.access.keys import Keys, OpenToAll
from gateway.serve import require_keys
from gateway.settings import Settings, SettingsInvalid, read_settings, unknown_settings
from streaming.budget import Limits, Verify

SECRET = "sk-do-not-print"
ROOT = Path(__file__).resolve().parents[2]

Environ = Callable[..., None]


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environ:
    """Sets the variables given, in an environment and a folder that have nothing of ours."""
    import os

    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def set_all(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return set_all


def refusal(**overrides: object) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        read_settings(**overrides)
    return str(caught.value)


def test_defaults_serve_this_machine_alone_from_local_models() -> None:
    settings = read_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.chosen_provider == "local"
    assert (settings.speculate, settings.max_retries, settings.retriever) == ("adaptive", 1, "postgres")
    assert settings.export_traces is False
    assert settings.limits().max_retries == 1


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        read_settings().port = 1


def test_claude_is_chosen_when_there_is_a_key(environ: Environ) -> None:
    environ(ANTHROPIC_API_KEY=SECRET, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    settings = read_settings()
    assert settings.chosen_provider == "anthropic"
    assert settings.anthropic_base_url == "http://127.0.0.1:9"
    assert SECRET not in repr(settings)


def test_provider_that_is_named_wins_over_a_key(environ: Environ) -> None:
    environ(ANTHROPIC_API_KEY=SECRET, GATEWAY_PROVIDER="local")
    assert read_settings().chosen_provider == "local"


def test_arguments_come_before_the_environment_and_that_before_the_file(environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("port = 1\nk = 2\npool_size = 3\n")
    environ(GATEWAY_PORT="10", GATEWAY_K="20")
    settings = read_settings(port=100, host=None)
    assert (settings.port, settings.k, settings.pool_size) == (100, 20, 3)


def test_keys_are_split_at_commas_and_kept_secret(environ: Environ) -> None:
    environ(GATEWAY_API_KEYS=f"{SECRET}, other,")
    settings = read_settings()
    assert [key.get_secret_value() for key in settings.api_keys] == [SECRET, "other"]
    assert SECRET not in f"{settings!r}{settings}"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.test"])
def test_host_that_others_reach_needs_keys(environ: Environ, host: str) -> None:
    environ(GATEWAY_HOST=host, GATEWAY_RETRIEVER="scripted")
    assert "GATEWAY_API_KEYS" in refusal()
    environ(GATEWAY_API_KEYS="k")
    assert read_settings().host == host


def test_with_a_database_there_may_be_keys_in_it_and_without_any_nothing_is_served(environ: Environ) -> None:
    environ(GATEWAY_HOST="0.0.0.0")
    for keys in (Keys(always_needed=True), Keys()):
        with pytest.raises(OpenToAll, match="gateway keys create"):
            require_keys(read_settings(), keys)
    require_keys(read_settings(), Keys(["k"]))
    environ(GATEWAY_HOST="127.0.0.1")
    require_keys(read_settings(), Keys())


def test_an_owners_address_alone_is_refused(environ: Environ) -> None:
    environ(GATEWAY_OWNER_URL="postgresql://owner@db/x")
    assert "GATEWAY_OWNER_URL needs GATEWAY_DATABASE_URL" in refusal()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_host_needs_none(environ: Environ, host: str) -> None:
    environ(GATEWAY_HOST=host)
    assert read_settings().host == host


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("GATEWAY_PORT", "eighty", "GATEWAY_PORT: "),
        ("GATEWAY_PORT", "65536", "GATEWAY_PORT: "),
        ("GATEWAY_MAX_RETRIES", "3", "GATEWAY_MAX_RETRIES: "),
        ("GATEWAY_DEADLINE_S", "nan", "GATEWAY_DEADLINE_S: "),
        ("GATEWAY_PROVIDER", "openai", "GATEWAY_PROVIDER: "),
        ("GATEWAY_PROVIDER", "anthropic", "set ANTHROPIC_API_KEY"),
        ("GATEWAY_SPECULATE", "sometimes", "GATEWAY_SPECULATE: "),
        ("GATEWAY_EMBEDDINGS_URL", "http://x/v1", "GATEWAY_EMBEDDINGS_MODEL"),
        ("GATEWAY_CONFIG", "/nowhere/gateway.toml", "GATEWAY_CONFIG: there is no file"),
        ("GATEWAY_API_KEYS", "good,schlüssel", "GATEWAY_API_KEYS: key 2 has a character"),
        ("GATEWAY_API_KEYS", "one two", "GATEWAY_API_KEYS: key 1 has a character"),
        ("GATEWAY_ALLOWED_HOSTS", "http://gateway.example", "GATEWAY_ALLOWED_HOSTS"),
        ("GATEWAY_ALLOWED_HOSTS", "gateway.example:8080", "GATEWAY_ALLOWED_HOSTS"),
    ],
)
def test_wrong_setting_is_named(environ: Environ, variable: str, value: str, says: str) -> None:
    environ(**{variable: value})
    assert says in refusal()


def test_every_wrong_setting_is_named_at_once(environ: Environ) -> None:
    environ(GATEWAY_PORT="x", GATEWAY_K="y")
    assert len(refusal().splitlines()) == 2


def test_unknown_name_in_the_file_is_an_error(environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("prot = 1\n")
    environ(GATEWAY_CONFIG=str(tmp_path / "other.toml"))
    assert refusal() == "prot: no setting has this name"


def test_file_that_is_no_toml_is_an_error_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(f'anthropic_api_key = "{SECRET}\n')
    message = refusal()
    assert "gateway.toml" in message
    assert SECRET not in message


def test_error_shows_no_value(environ: Environ) -> None:
    environ(GATEWAY_PORT=SECRET, GATEWAY_DATABASE_URL=f"postgresql://u:{SECRET}@h/d", GATEWAY_K=SECRET)
    assert SECRET not in refusal()


def test_open_telemetry_decides_whether_spans_are_sent(environ: Environ) -> None:
    environ(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert read_settings().export_traces is True


def test_no_other_module_reads_the_environment() -> None:
    readers = []
    for package in ("gateway", "streaming", "grading", "retrieval"):
        for path in sorted((ROOT / package).rglob("*.py")):
            names = {
                ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
            }
            if names & {"os.environ", "os.getenv", "os.environb"}:
                readers.append(path.relative_to(ROOT).as_posix())
    assert readers == ["gateway/settings.py"]


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs" / "configuration.md").read_text()
    names = {f"GATEWAY_{name.upper()}" for name in Settings.model_fields if not name.startswith("anthropic_")}
    assert [name for name in sorted(names) if f"`{name}`" not in documented] == []


def test_who_grades_follows_from_the_provider(environ: Environ) -> None:
    assert read_settings().chosen_graders == ("calibrated",)
    assert read_settings(provider="scripted").chosen_graders == ("model",)
    environ(ANTHROPIC_API_KEY=SECRET)
    assert read_settings().chosen_graders == ("calibrated", "model")


def test_graders_are_named_in_their_order(environ: Environ) -> None:
    environ(ANTHROPIC_API_KEY=SECRET, GATEWAY_GRADERS="score, model")
    settings = read_settings()
    assert (settings.chosen_graders, settings.grades_here) == (("score", "model"), False)


@pytest.mark.parametrize(
    ("graders", "why"),
    [("model", "set ANTHROPIC_API_KEY"), ("score,score", "twice"), ("guess", "GATEWAY_GRADERS")],
)
def test_graders_that_cannot_be_are_refused_at_the_start(environ: Environ, graders: str, why: str) -> None:
    environ(GATEWAY_GRADERS=graders)
    assert why in refusal()


def test_the_budget_and_the_checking_of_an_answer_are_set(environ: Environ) -> None:
    assert read_settings().limits() == Limits()
    environ(
        GATEWAY_VERIFY="gate",
        GATEWAY_OUTPUT_TOKENS="2000",
        GATEWAY_TOTAL_INPUT_TOKENS="9000",
        GATEWAY_EXTERNAL_SEARCHES="0",
    )
    limits = read_settings().limits()
    assert (limits.verify, limits.total_output_tokens) == (Verify.GATE, 8_000)
    assert (limits.total_input_tokens, limits.external_searches) == (9_000, 0)
    environ(GATEWAY_TOTAL_OUTPUT_TOKENS="500")
    assert read_settings().limits().total_output_tokens == 500


def test_a_buffer_too_small_for_a_sentence_is_refused(environ: Environ) -> None:
    environ(GATEWAY_HOLD_BYTES="1000")
    assert "GATEWAY_HOLD_BYTES" in refusal()


def test_a_name_that_is_almost_a_setting_is_said_with_the_nearest_one() -> None:
    environ = {"GATEWAY_MAX_RETRYS": SECRET, "GATEWAY_PORT": "1", "GATEWAY_CONFIG": "a.toml", "OTHER": "x"}
    (sentence,) = unknown_settings(environ)
    assert sentence.startswith("GATEWAY_MAX_RETRYS: no setting has this name")
    assert sentence.endswith("did you mean GATEWAY_MAX_RETRIES?")
    assert SECRET not in sentence


def test_what_a_container_platform_sets_for_a_service_of_our_name_is_no_slip() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_8080_TCP", "PORT_8080_TCP_ADDR")
    assert unknown_settings({f"GATEWAY_{name}": "10.0.0.1" for name in names}) == ()
    assert len(unknown_settings({"GATEWAY_PORTS": "1", "GATEWAY_QQQQ": "1"})) == 2


@pytest.mark.parametrize("role", ["generator", "grader"])
def test_a_model_that_stands_in_is_another_one_and_needs_a_key(environ: Environ, role: str) -> None:
    assert f"GATEWAY_FALLBACK_{role.upper()}_MODEL names a model" in refusal(**{f"fallback_{role}_model": "other"})
    environ(ANTHROPIC_API_KEY=SECRET)
    same = getattr(read_settings(), f"{role}_model")
    assert "stand in for" in refusal(**{f"fallback_{role}_model": same})
    assert getattr(read_settings(**{f"fallback_{role}_model": "other"}), f"fallback_{role}_model") == "other"
