"""Keys: which are good, what they may do, and that nothing but a digest is compared or kept."""

import pytest

from gateway.access.caller import Caller, Role
from gateway.access.key_ring import GOOD_FOR_S, KeyRing
from gateway.access.keys import Keys
from gateway.access.secret import PREFIX, digest_of_secret, is_secret, new_secret
from gateway.access.stored_keys import Read, caller_of
from gateway.problems import CollectionForbidden, Forbidden, KeysUnreadable, Unauthorized


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def bearing(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_secret_has_256_random_bits_and_a_shape_that_scanners_know() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(one.startswith(PREFIX) and len(one) == len(PREFIX) + 43 and is_secret(one) for one in made)
    assert not any(is_secret(text) for text in ("", PREFIX, "right", new_secret() + "x", new_secret()[:-1] + "\n"))


def test_what_is_kept_of_a_secret_is_its_digest() -> None:
    secret = new_secret()
    assert len(digest_of_secret(secret)) == 32
    assert secret.encode() not in digest_of_secret(secret)
    assert digest_of_secret("\ud800") != digest_of_secret("?"), "what is no text is no other key"


def test_a_key_of_the_settings_may_do_everything_of_the_default_tenant() -> None:
    caller = Keys(["one", "two"]).caller(bearing("two"))
    assert (caller.tenant, caller.collections) == ("default", None)
    assert caller.may(*Role)
    assert caller.owner != Keys(["one", "two"]).caller(bearing("one")).owner
    assert "two" not in caller.owner


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_without_a_key_a_page_of_another_site_may_do_nothing(site: str) -> None:
    """A browser sends its form with files here without asking, whatever page has it."""
    with pytest.raises(Forbidden, match="another site"):
        Keys().caller({"sec-fetch-site": site})
    for own in ({}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        assert Keys().caller(own) == Caller()
    assert Keys(["one"]).caller({**bearing("one"), "sec-fetch-site": site}), "a key says who asks"


@pytest.mark.parametrize("origin", ["http://evil.test:18480", "http://gw.test:81", "null"])
def test_where_a_browser_does_not_say_the_site_the_origin_does(origin: str) -> None:
    """To http://gw.test it sends no `Sec-Fetch-Site`."""
    keys = Keys(hosts=("gw.test",), origins=("https://app.example",))
    with pytest.raises(Forbidden, match="another site"):
        keys.caller({"host": "gw.test:80", "origin": origin})
    for own in ("http://gw.test:80", "https://app.example"):
        assert keys.caller({"host": "gw.test:80", "origin": own}) == Caller()


@pytest.mark.parametrize(
    "given", [{}, bearing(""), bearing("three"), {"authorization": "Basic one"}, {"authorization": "one"}]
)
def test_any_other_is_none(given: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="Authorization: Bearer <key>"):
        Keys(["one", "two"]).caller(given)


def test_where_no_key_is_needed_everyone_is_the_same_and_may_do_everything() -> None:
    assert Keys().caller(bearing("whatever")) == Caller()
    assert Caller().owner == ""
    with pytest.raises(Unauthorized):
        Keys(always_needed=True).caller({})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.2:80",
        "[::1]",
        "[::1]:8080",
        "",
    ],
)
def test_a_name_of_this_machine_needs_no_key(host: str) -> None:
    assert Keys().caller({"host": host} if host else {}) == Caller()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example:127.0.0.1",
        "10.0.0.1",
        "[::2]:80",
        "[::1].evil.example",
        "gateway",
        "xn--localhst-bpb",
        " ",
        ":8080",
    ],
)
def test_a_name_that_may_have_been_led_here_needs_one(host: str) -> None:
    """DNS rebinding: a page's own name leads to 127.0.0.1, and its requests are of the same origin to the browser."""
    with pytest.raises(Forbidden, match="GATEWAY_ALLOWED_HOSTS"):
        Keys().caller({"host": host, "sec-fetch-site": "same-origin"})
    assert Keys(["one"]).caller({**bearing("one"), "host": host}), "a key says who asks"
    assert Keys(hosts=("*",)).caller({"host": host}) == Caller()


def test_a_name_that_was_allowed_is_one_of_this_machine() -> None:
    keys = Keys(hosts=("gateway.example", "box"))
    for host in ("gateway.example", "Gateway.Example:443", "box:8080", "localhost"):
        assert keys.caller({"host": host}) == Caller()
    for host in ("other.example", "a.gateway.example"):
        with pytest.raises(Forbidden):
            keys.caller({"host": host})


def test_a_table_of_keys_that_was_emptied_opens_no_door(caplog: pytest.LogCaptureFixture) -> None:
    ring = KeyRing(Clock())
    ring.take(Read({}, are_there=True))
    ring.take(Read({}, are_there=False, state=(0, "0")))
    assert ring.renew((0, "0")), "it is not read again for it"
    with pytest.raises(Unauthorized):
        Keys((), ring).caller({})
    assert "every API key is gone" in caplog.text


def test_a_stored_key_is_good_while_it_is_stored_and_a_door_once_shut_stays_shut() -> None:
    clock, secret = Clock(), new_secret()
    ring = KeyRing(clock)
    keys = Keys((), ring)
    ring.take(Read({}, are_there=False))
    assert keys.caller({}) == Caller()
    ring.take(Read({digest_of_secret(secret): (Caller("acme", "d"), None)}, are_there=True))
    assert keys.caller(bearing(secret)).tenant == "acme"
    with pytest.raises(Unauthorized):
        keys.caller(bearing(new_secret()))
    ring.take(Read({}, are_there=True))
    for given in (bearing(secret), {}):
        with pytest.raises(Unauthorized):
            keys.caller(given)


def test_a_key_ends_by_itself_and_nobody_trusts_what_was_read_long_ago() -> None:
    clock, secret = Clock(), new_secret()
    ring = KeyRing(clock)
    keys = Keys(["settings"], ring)
    ring.take(Read({digest_of_secret(secret): (Caller("acme", "d"), 5.0)}, are_there=True))
    clock.now_s += 4.9
    assert keys.caller(bearing(secret)).tenant == "acme"
    clock.now_s += 0.1
    with pytest.raises(Unauthorized):
        keys.caller(bearing(secret))
    assert ring.renew((0, "0")), "nothing has changed"
    assert not ring.renew((1, "7"))
    with pytest.raises(Unauthorized):
        keys.caller(bearing(secret))
    clock.now_s += GOOD_FOR_S + 1
    with pytest.raises(KeysUnreadable):
        keys.caller(bearing(secret))
    assert keys.caller(bearing("settings")).tenant == "default", "the settings' keys need no database"


def test_a_role_opens_what_it_is_for_and_admin_all_of_it() -> None:
    asking = Caller(roles=frozenset({Role.ASK}))
    asking.require(Role.ASK)
    asking.require(Role.ASK, Role.INGEST)
    for role in (Role.INGEST, Role.GAPS, Role.ADMIN):
        with pytest.raises(Forbidden, match=role):
            asking.require(role)
    Caller(roles=frozenset({Role.ADMIN})).require(Role.GAPS)


def test_a_key_of_some_collections_has_no_others() -> None:
    bound = Caller(collections=frozenset({"handbook"}))
    bound.require_collection("handbook")
    with pytest.raises(CollectionForbidden):
        bound.require_collection("default")
    Caller().require_collection("any")


def test_a_role_of_a_later_version_means_nothing_here() -> None:
    assert caller_of(b"d", "acme", ["ask", "owner_of_all"], None).roles == {Role.ASK}
