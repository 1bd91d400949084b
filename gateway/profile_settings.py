"""The settings of profiles: one table per model that a chat client can choose."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from streaming.budget import MAX_RETRIES

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class ProfileTable(BaseModel):
    """`name` is what clients call a model; what is left out is as on the server."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    name: Name
    collection: Annotated[str, Field(min_length=1, max_length=100)] = "default"
    speculate: Literal["never", "always", "adaptive"] | None = None
    verify: Literal["off", "annotate", "gate"] | None = None
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    deadline_s: Annotated[float, Field(gt=0, le=300)] | None = None
    generator_model: ModelName | None = None
    grader_model: ModelName | None = None

    @property
    def names_a_model(self) -> bool:
        return self.generator_model is not None or self.grader_model is not None


def require_different_names(tables: tuple[ProfileTable, ...]) -> tuple[ProfileTable, ...]:
    """The tables. Raises PydanticCustomError when two profiles have one name."""
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PydanticCustomError("twice", "two profiles are named {name}: give one another name", {"name": twice})
    return tables
