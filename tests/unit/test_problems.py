"""Problems: every fault has a status, a type of its own and a body that says nothing it should not."""

import pytest

import gateway.problems
import grading.faults
import retrieval.faults
import streaming.faults
from gateway.access.keys import Keys
from gateway.problems import RETRY_AFTER_S, STATUS, Unauthorized, body_of, headers_of, status_of, status_of_type
from retrieval.faults import GatewayFault

MODULES = (retrieval.faults, grading.faults, streaming.faults, gateway.problems)
FAULTS = sorted(
    {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, GatewayFault)
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_fault_has_a_status_and_a_body(kind: type[GatewayFault]) -> None:
    fault = kind("what happened")
    status = status_of(fault)
    assert 400 <= status <= 503
    body = body_of(fault)
    assert body == {"error": {"type": kind.type, "message": "what happened", "retryable": kind.retryable}}
    assert (b"retry-after" in dict(headers_of(fault, status))) == (status in RETRY_AFTER_S)
    assert kind.__doc__


def test_every_type_belongs_to_one_fault() -> None:
    types = [kind.type for kind in FAULTS]
    assert sorted(set(types)) == sorted(types)


def test_status_by_type_is_that_of_the_fault() -> None:
    for kind in FAULTS:
        assert status_of_type(kind.type) == status_of(kind("x")), kind
    assert {kind: status_of(kind("x")) for kind in STATUS} == dict(STATUS)


def test_only_a_defect_of_ours_is_a_500() -> None:
    assert [kind for kind in FAULTS if status_of(kind("x")) == 500] == [GatewayFault]


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic right", "right", "Bearer right2", "Bearer righ\udcff"]
)
def test_wrong_key_is_refused(given: str) -> None:
    with pytest.raises(Unauthorized):
        Keys(["right"]).caller({"authorization": given})


@pytest.mark.parametrize("given", ["Bearer right", "bearer right", "Bearer  right "])
def test_right_key_is_let_in(given: str) -> None:
    Keys(["other", "right"]).caller({"authorization": given})


def test_without_keys_everyone_is_let_in() -> None:
    Keys().caller({})
