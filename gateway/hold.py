"""A hold: something that is given back when the last of those who hold it has let go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Hold:
    """Held once from the start, by whoever made it. `end` is called once, when nobody holds it any more."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._holders = 1

    def let_go(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._end()

    @contextmanager
    def held(self) -> Iterator[None]:
        """It is held also inside the block. Entered while somebody else holds it."""
        self._holders += 1
        try:
            yield
        finally:
            self.let_go()
