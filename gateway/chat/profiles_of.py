"""From settings to profiles: each table's options, and the models that it names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.chat.profiles import Profile, Profiles
from gateway.graders import Available, GraderName, grader_of
from gateway.profile_settings import ProfileTable
from gateway.request import Options
from grading.ports import Grader
from streaming.ports import Generator


class Models(Protocol):
    """The models of a service, by name."""

    def generator(self, model: str) -> Generator: ...

    def graders(self, model: str) -> Mapping[GraderName, Grader]: ...


def profiles_of(
    tables: Sequence[ProfileTable],
    models: Models | None,
    graders: Sequence[GraderName],
    available: Available,
    limit_s: float,
) -> Profiles:
    """The profiles in the order of `tables`. `models` may be None where no table names one, which the settings see to.

    A profile's grader is made as the server's is: `graders` by name, out of what is `available`, within `limit_s`.
    """

    def grader(table: ProfileTable) -> Grader | None:
        if table.grader_model is None or models is None:
            return None
        own = replace(available, by_service=models.graders(table.grader_model))
        return grader_of(graders, own, limit_s, table.collection)

    def generator(table: ProfileTable) -> Generator | None:
        return None if table.generator_model is None or models is None else models.generator(table.generator_model)

    return Profiles(
        tuple(
            Profile(
                table.name,
                table.collection,
                Options(
                    speculate=table.speculate,
                    max_retries=table.max_retries,
                    deadline_s=table.deadline_s,
                    verify=table.verify,
                    generator=generator(table),
                    grader=grader(table),
                ),
            )
            for table in tables
        )
    )
