"""What makes two requests the same one."""

import pytest

from gateway.keeping.idempotency import KEY_LIMIT, digest_of, key_of
from gateway.problems import InvalidRequest


def test_the_order_of_names_does_not_matter_and_every_value_does() -> None:
    body = {"question": "Is it?", "options": {"resumable": True, "max_retries": 1}}
    assert digest_of(body) == digest_of({"options": {"max_retries": 1, "resumable": True}, "question": "Is it?"})
    assert digest_of(body) != digest_of({**body, "question": "Is it? "})
    assert digest_of(body) != digest_of({**body, "options": {"resumable": True, "max_retries": 2}})
    assert digest_of({"question": "\ud800"})  # a lone surrogate is JSON


@pytest.mark.parametrize(("given", "read"), [({}, None), ({"idempotency-key": " k 1 "}, "k 1")])
def test_a_key_is_read_as_it_is(given: dict[str, str], read: str | None) -> None:
    assert key_of(given) == read


@pytest.mark.parametrize("key", ["", " ", "x" * (KEY_LIMIT + 1), "é", "a\x07"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest):
        key_of({"idempotency-key": key})
