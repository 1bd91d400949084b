"""The settings of further sources: one table per source, in the order in which they are tried."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.providers.search.generic import path
from retrieval.sources import HOUSE

KEY_VARIABLES = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY", "serper": "SERPER_API_KEY"}


def _usable_key(key: SecretStr) -> SecretStr:
    """The key, if a header can carry it. Its characters are never shown."""
    value = key.get_secret_value().strip()
    if not value or not value.isascii() or not value.isprintable():
        raise PydanticCustomError("key", "must be printable ASCII characters")
    return SecretStr(value)


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise PydanticCustomError("url", "must begin with http:// or https://")
    return url


def _path(written: str) -> str:
    try:
        path(written)
    except ValueError as error:
        raise PydanticCustomError("path", "{reason}", {"reason": str(error)}) from None
    return written


Key = Annotated[SecretStr, AfterValidator(_usable_key)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
JsonPath = Annotated[str, AfterValidator(_path)]
Limit = Annotated[float, Field(gt=0, le=60)]
Name = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class _Table(BaseModel):
    """What every source has. `external`: nobody here vouches for its text. `parallel`: searched while the first set is graded."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    kind: str
    name: Name = ""
    external: bool = False
    parallel: bool = False

    @model_validator(mode="before")
    @classmethod
    def _named_after_its_kind(cls, value: Any) -> Any:
        return {"name": value.get("kind"), **value} if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _is_not_the_house(self) -> Self:
        if self.name == HOUSE:
            raise PydanticCustomError("house", "the house's own documents have this name; choose another one")
        return self


class CollectionTable(_Table):
    """Another collection of the same database."""

    kind: Literal["collection"]
    collection: Annotated[str, Field(min_length=1, max_length=100)]


class PostgresTable(_Table):
    """A second gateway database; `collection`: one of its own, else the one that is asked."""

    kind: Literal["postgres"]
    limit_s: Limit = 5.0
    url: SecretStr
    collection: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    pool_size: Annotated[int, Field(ge=1, le=20)] = 2


class ViewTable(_Table):
    """A read-only view, in the gateway's database or (with `url`) in another one."""

    kind: Literal["view"]
    limit_s: Limit = 5.0
    view: Annotated[str, Field(min_length=1, max_length=130)]
    url: SecretStr | None = None
    language: Annotated[str, Field(min_length=1, max_length=63)] = "english"
    words_column: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    tenant_column: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    pool_size: Annotated[int, Field(ge=1, le=20)] = 2


class ServiceTable(_Table):
    """A search service that is known by name; `url`: another address of the same protocol."""

    kind: Literal["brave", "tavily", "serper"]
    limit_s: Limit = 5.0
    key: Key
    url: WebAddress | None = None
    external: bool = True


class HttpTable(_Table):
    """Any search service that answers with JSON."""

    kind: Literal["http"]
    limit_s: Limit = 5.0
    url: WebAddress
    method: Literal["GET", "POST"] = "GET"
    query: Annotated[str, Field(min_length=1, max_length=100)] = "q"
    count: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    parameters: dict[str, str | int | bool] = {}
    key: Key | None = None
    key_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = "authorization"
    key_prefix: str = ""
    results: JsonPath = "results"
    title: JsonPath = "title"
    text: JsonPath = "text"
    link: JsonPath = "url"
    external: bool = True


SourceTable = Annotated[
    CollectionTable | PostgresTable | ViewTable | ServiceTable | HttpTable, Field(discriminator="kind")
]


def with_variables(value: Any, environ: Mapping[str, str]) -> Any:
    """Tables in which `key_env` and `url_env` have become the `key` and `url` that these variables hold.

    A service that is known by name and has neither takes its usual variable. Raises PydanticCustomError for one that is not set.
    """
    if not isinstance(value, list | tuple):
        return value
    return [_with_variables(dict(table), environ) if isinstance(table, Mapping) else table for table in value]


def _with_variables(table: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    usual = KEY_VARIABLES.get(str(table.get("kind")))
    if usual is not None and "key" not in table:
        table.setdefault("key_env", usual)
    for name in ("key", "url"):
        variable = table.pop(f"{name}_env", None)
        if variable is None:
            continue
        if name in table:
            raise PydanticCustomError("twice", "a source has both {name} and {name}_env", {"name": name})
        if not environ.get(str(variable)):
            raise PydanticCustomError("unset", "the variable {variable} is not set", {"variable": str(variable)})
        table[name] = environ[str(variable)]
    return table


def require_different(tables: tuple[SourceTable, ...]) -> tuple[SourceTable, ...]:
    """The tables. Raises PydanticCustomError when two sources have one name."""
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PydanticCustomError("twice", "two sources are named {name}: give one another name", {"name": twice})
    return tables
