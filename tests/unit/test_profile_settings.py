"""Profiles by setting: what chat clients see as models; what is wrong is named."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.chat.profiles import DEFAULT, Profile
from gateway.chat.profiles_of import profiles_of
from gateway.graders import Available, GraderName
from gateway.request import Options
from gateway.settings import SettingsInvalid, read_settings
from grading.ports import Grader
from tests.support.fakes import FakeGenerator, FakeGrader

TABLES = """
[[profiles]]
name = "handbook"
collection = "handbook"
verify = "gate"
speculate = "adaptive"
max_retries = 0
deadline_s = 30
"""
MODELS = """
[[profiles]]
name = "acme/deep"
generator_model = "deep"
grader_model = "strict"
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder and an environment that have nothing of ours."""
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Models:
    """Models that know their name."""

    def generator(self, model: str) -> FakeGenerator:
        return FakeGenerator([], name=model)

    def graders(self, model: str) -> Mapping[GraderName, Grader]:
        return {"model": FakeGrader([], name=model)}


def profiles() -> list[Profile]:
    return list(profiles_of(read_settings().profiles, Models(), ("model",), Available(), 10.0))


def refusal() -> str:
    with pytest.raises(SettingsInvalid) as caught:
        read_settings()
    return str(caught.value)


def test_without_a_setting_there_is_the_server_as_it_is() -> None:
    assert profiles() == [Profile(DEFAULT)]


def test_tables_of_a_file_are_profiles_in_their_order(folder: Path) -> None:
    (folder / "gateway.toml").write_text(TABLES)
    options = Options(speculate="adaptive", max_retries=0, deadline_s=30, verify="gate")
    assert profiles() == [Profile(DEFAULT), Profile("handbook", "handbook", options)]


def test_variable_holds_profiles_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PROFILES", '[{"name": "a"}, {"name": "b", "collection": "notes"}]')
    assert [(profile.name, profile.collection) for profile in profiles()[1:]] == [("a", "default"), ("b", "notes")]


def test_profile_may_have_models_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    (folder / "gateway.toml").write_text(TABLES + MODELS)
    _, handbook, deep = profiles()
    assert (handbook.options.generator, handbook.options.grader) == (None, None)
    assert deep.options.generator is not None
    assert deep.options.grader is not None
    assert (deep.options.generator.name, deep.options.grader.name) == ("deep", "strict")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (TABLES + TABLES, "two profiles are named handbook"),
        (MODELS, "GATEWAY_PROFILES names a model of Anthropic: set ANTHROPIC_API_KEY"),
        (TABLES + "colour = 1", "colour"),
        (TABLES.replace('"gate"', '"sometimes"'), "verify"),
        (TABLES.replace("= 0", "= 3"), "max_retries"),
        ('[[profiles]]\nname = "has space"', "name"),
        ("[[profiles]]\ncollection = 'x'", "name"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said(folder: Path, tables: str, said: str) -> None:
    (folder / "gateway.toml").write_text(tables)
    assert said in refusal()
