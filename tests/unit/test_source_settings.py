"""Sources by setting: tables of a file or one JSON variable; what is wrong is named, never shown."""

from pathlib import Path

import pytest

from gateway.settings import SettingsInvalid, read_settings
from gateway.source_settings import CollectionTable, HttpTable, PostgresTable, ServiceTable, ViewTable

SECRET = "sk-do-not-print"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder and an environment that have nothing of ours."""
    import os

    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "BRAVE_", "TAVILY_", "SERPER_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal() -> str:
    with pytest.raises(SettingsInvalid) as caught:
        read_settings()
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_without_a_setting_there_are_none() -> None:
    assert read_settings().sources == ()
    assert read_settings().cache == "off"


def test_tables_of_a_file_are_sources_in_their_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gateway.toml").write_text(
        """
        cache = "verified"
        [[sources]]
        kind = "collection"
        collection = "handbook"
        name = "handbook"
        [[sources]]
        kind = "postgres"
        url_env = "ARCHIVE_URL"
        parallel = true
        [[sources]]
        kind = "view"
        view = "shop.articles"
        [[sources]]
        kind = "http"
        url = "https://search.example/v1"
        key_env = "SEARCH_KEY"
        key_prefix = "Bearer "
        results = "data.items"
        external = false
        [[sources]]
        kind = "brave"
        """
    )
    monkeypatch.setenv("ARCHIVE_URL", f"postgresql://u:{SECRET}@h/d")
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    monkeypatch.setenv("BRAVE_API_KEY", f" {SECRET}\n")
    settings = read_settings()
    kinds = [type(table) for table in settings.sources]
    assert kinds == [CollectionTable, PostgresTable, ViewTable, HttpTable, ServiceTable]
    assert [table.name for table in settings.sources] == ["handbook", "postgres", "view", "http", "brave"]
    assert [table.external for table in settings.sources] == [False, False, False, False, True]
    assert [table.parallel for table in settings.sources] == [False, True, False, False, False]
    brave = settings.sources[4]
    assert isinstance(brave, ServiceTable)
    assert brave.key.get_secret_value() == SECRET
    assert SECRET not in f"{settings!r}{settings}"
    assert settings.cache == "verified"


def test_one_variable_holds_them_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_SOURCES", '[{"kind": "tavily", "key": "k", "name": "web", "parallel": true}]')
    (table,) = read_settings().sources
    assert isinstance(table, ServiceTable)
    assert (table.kind, table.name, table.parallel, table.external) == ("tavily", "web", True, True)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[", "sources"),
        ('{"kind": "brave"}', "GATEWAY_SOURCES"),
        ("[1]", "GATEWAY_SOURCES.0"),
        ('[{"kind": "bing"}]', "GATEWAY_SOURCES.0"),
        ('[{"collection": "a"}]', "GATEWAY_SOURCES.0"),
        ('[{"kind": "collection"}]', "GATEWAY_SOURCES.0.collection.collection: Field required"),
        ('[{"kind": "collection", "collection": "a", "x": 1}]', "sources.0.collection.x: no setting has this name"),
        ('[{"kind": "serper"}]', "the variable SERPER_API_KEY is not set"),
        ('[{"kind": "brave", "key_env": "NOWHERE"}]', "the variable NOWHERE is not set"),
        (f'[{{"kind": "brave", "key": "{SECRET}", "key_env": "HOME"}}]', "both key and key_env"),
        (f'[{{"kind": "brave", "key": "{SECRET}\\u00e9"}}]', "printable ASCII"),
        (f'[{{"kind": "brave", "key": "{SECRET}\\r\\nx: y"}}]', "printable ASCII"),
        ('[{"kind": "brave", "key": " "}]', "printable ASCII"),
        ('[{"kind": "brave", "key": "k", "name": "house"}]', "choose another one"),
        ('[{"kind": "brave", "key": "k", "name": "a b"}]', "GATEWAY_SOURCES.0.brave.name"),
        ('[{"kind": "brave", "key": "k"}, {"kind": "brave", "key": "k"}]', "two sources are named brave"),
        ('[{"kind": "http", "url": "ftp://x"}]', "http:// or https://"),
        ('[{"kind": "http", "url": "http://x", "results": "a..b"}]', "is not a path"),
        ('[{"kind": "http", "url": "http://x", "key_header": "a b"}]', "GATEWAY_SOURCES.0.http.key_header"),
        ('[{"kind": "http", "url": "http://x", "limit_s": 0}]', "GATEWAY_SOURCES.0.http.limit_s"),
    ],
)
def test_a_wrong_source_is_named(monkeypatch: pytest.MonkeyPatch, value: str, says: str) -> None:
    monkeypatch.setenv("GATEWAY_SOURCES", value)
    assert says in refusal()
