"""Stopping an answer from outside, with a fault that its client is told."""

from anyio import CancelScope

from retrieval.faults import GatewayFault


class Halt:
    """Held by whoever may have to stop an answer (the server that drains). One answer, one halt."""

    def __init__(self) -> None:
        self.fault: GatewayFault | None = None
        self._scope: CancelScope | None = None

    def bind(self, scope: CancelScope) -> None:
        """Called by the answer: `scope` is what there is to stop."""
        self._scope = scope
        if self.fault is not None:
            scope.cancel()

    def now(self, fault: GatewayFault) -> None:
        """The answer ends with `Failed` of `fault` and `Done`, whatever it was doing; returns at once."""
        if self.fault is None:
            self.fault = fault
            if self._scope is not None:
                self._scope.cancel()
