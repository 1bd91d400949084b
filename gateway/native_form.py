"""The native form: `POST /v1/answers`."""

from gateway.answers import Asked
from gateway.problems import body_of
from gateway.request import answer_request
from retrieval.faults import GatewayFault
from streaming.ask import Ask
from streaming.wire import native
from streaming.wire.format import Json
from streaming.wire.told import Told


class NativeForm:
    """See gateway.answers.Form."""

    path = "/v1/answers"

    def read(self, value: object) -> Asked:
        return Asked(answer_request(value), lambda ask: native.Native(ask.answer_id), whole, can_be_kept=True)

    def problem(self, fault: GatewayFault) -> Json:
        return body_of(fault)


def whole(told: Told, ask: Ask) -> Json:
    return native.whole(told, ask.answer_id, ask.trace_id)
