"""A collector that is away is told of once."""

import logging

import pytest

from gateway.observing.outage import Outage


def test_an_outage_is_told_once_and_again_after_something_was_delivered(caplog: pytest.LogCaptureFixture) -> None:
    sdk = logging.getLogger("tests.outage")
    outage = Outage("tests.outage")
    with caplog.at_level(logging.INFO):
        outage.end()
        for reason in ("refused", "refused again"):
            sdk.error(reason)
        outage.end()
        sdk.error("away again")
        outage.close()
        sdk.error("somebody else's")
    told = [record.message for record in caplog.records]
    assert told == ["refused", "the collector takes telemetry again", "away again", "somebody else's"]
