"""Stopping an answer from outside: with a fault that its client is told, or because there is none any more."""

from collections.abc import Callable

from anyio import CancelScope

from retrieval.faults import GatewayFault


class Halt:
    """Held by whoever may have to stop an answer (the server that drains). One answer, one halt."""

    def __init__(self) -> None:
        self.fault: GatewayFault | None = None
        self._scope: CancelScope | None = None
        self._cut: Callable[[], None] | None = None

    def bind(self, scope: CancelScope, cut: Callable[[], None] | None = None) -> None:
        """Called by the answer: `scope` is what there is to stop, `cut` ends at once what it has asked of models."""
        self._scope, self._cut = scope, cut
        if self.fault is not None:
            scope.cancel()

    def now(self, fault: GatewayFault) -> None:
        """The answer ends with `Failed` of `fault` and `Done`, whatever it was doing; returns at once."""
        if self.fault is None:
            self.fault = fault
            if self._scope is not None:
                self._scope.cancel()

    def unbind(self) -> None:
        """Called by the answer: there is nothing left to stop."""
        self._scope = self._cut = None

    def cut(self) -> None:
        """The client left: what was asked of models for it ends now, in this turn of the event loop. Whoever says so cancels the answer."""
        if self._cut is not None:
            self._cut()
