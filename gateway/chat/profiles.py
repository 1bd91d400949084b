"""Profiles: the models that a chat client can choose from; each is a collection, and what is otherwise than on the server."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.problems import ModelNotFound
from gateway.request import Options, shown

DEFAULT = "gateway"


@dataclass(frozen=True, slots=True)
class Profile:
    """`name` is what clients call a model."""

    name: str
    collection: str = "default"
    options: Options = field(default_factory=Options)


class Profiles:
    """The profiles of a server, in the order of its settings. `gateway`, the server as it is set, is always one, by default the first."""

    def __init__(self, profiles: tuple[Profile, ...] = ()) -> None:
        named = {profile.name: profile for profile in profiles}
        self._profiles = named if DEFAULT in named else {DEFAULT: Profile(DEFAULT)} | named
        self.created_s = int(time.time())

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._profiles.values())

    def of(self, name: str | None) -> Profile:
        """The profile of this name; without a name `gateway`. Raises ModelNotFound."""
        found = self._profiles.get(DEFAULT if name is None else name)
        if found is None:
            raise ModelNotFound(f"there is no model {shown(name or '')!r}; GET /v1/models lists them")
        return found
