"""An outage of the collector, told once: the SDK's exporters say it again at every batch and every retry."""

import logging

log = logging.getLogger(__name__)


class Outage(logging.Filter):
    """Lets one line of an exporter's logger (named `logger`) through, and the next one only after something was delivered in between."""

    def __init__(self, logger: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(logger)
        self._logger.addFilter(self)
        self._is_told = False

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        was_told, self._is_told = self._is_told, True
        return not was_told

    def end(self) -> None:
        """Something was delivered."""
        if self._is_told:
            self._is_told = False
            log.info("the collector takes telemetry again")

    def close(self) -> None:
        """The exporter is shut down: its logger is as it was."""
        self._logger.removeFilter(self)
