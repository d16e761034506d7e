"""Cookies: what a jar keeps of an answer, and what it gives to a request."""

from __future__ import annotations

import copy
import threading

import pytest
from hypothesis import given, strategies as st

import comity
from comity.client import address, cookies
from comity.client.async_client import AsyncClient
from comity.client.cookie_text import cookie_date, read
from comity.errors import OptionsError, RedirectRefused, StatusError
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.policy.units import NS
from comity.testing import Answer, ScriptedTransport
from tests.client.scripted import OK, Scripted, in_turn, ok, status

NOW = 1_800_000_000 * NS
QUICK = Backoff(base=0.001, cap=0.001)


def jar_after(url: str, *fields: str, wall: int = NOW) -> comity.Cookies:
    jar = comity.Cookies()
    jar.fill(address.parse(url), fields, wall)
    return jar


def sent(jar: comity.Cookies, url: str, wall: int = NOW) -> str:
    return jar.header(address.parse(url), wall)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("a=b", ("a", "b")),
        (" a = b ; Path=/", ("a", "b")),
        ("a=b=c", ("a", "b=c")),
        ('a="b"', ("a", '"b"')),
        ("a=", ("a", "")),
        ("=b", ("", "b")),
        ("b", ("", "b")),
        ("", None),
        ("=", None),
        (" ; Path=/", None),
        ("a=b\x01", None),
        ("a=b\tc", ("a", "b\tc")),
        ("=__Host-a=b", None),
        ("__secure-a", None),
        ("a=" + "b" * 4095, ("a", "b" * 4095)),
        ("a=" + "b" * 4096, None),
        ("a=b; Path=/" + "x" * 1024, ("a", "b")),
    ],
)
def test_a_field_is_read_as_a_name_and_a_value(text, pair):
    """RFC 6265bis section 5.6"""
    cookie = read(text, NOW)
    assert (cookie and (cookie.name, cookie.value)) == pair


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 09 Jun 2021 10:18:14 GMT",
        "Wed, 09-Jun-2021 10:18:14 GMT",
        "Wednesday, 09-Jun-21 10:18:14 GMT",
        "Wed Jun  9 10:18:14 2021",
        "9 June 2021 10:18:14",
        "2021 jun 9 10:18:14 +0200",
        "10:18:14 09 Jun 2021",
    ],
)
def test_a_date_is_read_in_all_forms_that_servers_write(text):
    """RFC 6265bis section 5.1.1"""
    assert cookie_date(text) == 1_623_233_894 * NS


@pytest.mark.parametrize(
    "text",
    ["", "soon", "Wed, 09 Jun 2021", "09 Jun 2021 25:00:00", "31 Feb 2021 10:18:14", "09 Jun 1500 10:18:14", "0"],
)
def test_what_is_no_date_is_none(text):
    assert cookie_date(text) is None


@pytest.mark.parametrize(("year", "read_as"), [("69", 2069), ("70", 1970), ("99", 1999), ("00", 2000)])
def test_two_digits_of_a_year_are_near_2000(year, read_as):
    assert cookie_date(f"01 Jan {year} 00:00:00") == cookie_date(f"01 Jan {read_as} 00:00:00")


@pytest.mark.parametrize(
    ("host", "attributes", "goes_to", "not_to"),
    [
        ("h.example", "", ["h.example"], ["a.h.example", "example", "other"]),
        ("h.example", "; Domain=h.example", ["h.example", "a.h.example"], ["xh.example", "example"]),
        ("h.example", "; Domain=.H.Example", ["h.example", "a.h.example"], ["b.example"]),
        ("a.h.example", "; Domain=h.example", ["h.example", "b.h.example"], ["h.example.evil"]),
        ("h.example", "; Domain=", ["h.example"], ["a.h.example"]),
        ("h.example", "; Domain=other.example", [], ["h.example", "other.example"]),
        ("h.example", "; Domain=a.h.example", [], ["h.example", "a.h.example"]),
        ("h.example", "; Domain=example", [], ["h.example", "example"]),
        ("h.co.uk", "; Domain=co.uk", [], ["h.co.uk", "other.co.uk"]),
        ("localhost", "; Domain=localhost", ["localhost"], ["a.localhost"]),
        ("127.0.0.1", "", ["127.0.0.1", "127.0.0.1:81"], ["127.0.0.2"]),
        ("127.0.0.1", "; Domain=127.0.0.1", ["127.0.0.1"], []),
        ("127.0.0.1", "; Domain=0.0.1", [], ["127.0.0.1", "1.0.0.1"]),
        ("[::1]", "", ["[::1]"], ["[::2]"]),
    ],
)
def test_a_cookie_goes_to_its_host_or_the_domain_it_names(host, attributes, goes_to, not_to):
    """RFC 6265bis sections 5.1.3 and 5.7"""
    jar = jar_after(f"http://{host}/", f"a=b{attributes}")
    assert [sent(jar, f"http://{each}/") for each in goes_to] == ["a=b"] * len(goes_to)
    assert [sent(jar, f"http://{each}/") for each in not_to] == [""] * len(not_to)


@pytest.mark.parametrize(
    ("at", "path", "goes_to", "not_to"),
    [
        ("/", None, ["/", "/x", "/x/y?q=/"], []),
        ("/a/b", None, ["/a", "/a/", "/a/c", "/a?x"], ["/", "/ab", "/b"]),
        ("/a/b/", None, ["/a/b", "/a/b/c"], ["/a", "/a/"]),
        ("/a?q=/b/c", None, ["/"], []),
        ("/a", "/x", ["/x", "/x/y"], ["/a", "/xy"]),
        ("/a", "/x/", ["/x/", "/x/y"], ["/x"]),
        ("/a/b", "x", ["/a/c"], ["/x", "/"]),
    ],
)
def test_a_cookie_goes_below_its_path(at, path, goes_to, not_to):
    """RFC 6265bis section 5.1.4"""
    jar = jar_after(f"http://h{at}", "a=b" if path is None else f"a=b; Path={path}")
    assert [sent(jar, f"http://h{each}") for each in goes_to] == ["a=b"] * len(goes_to)
    assert [sent(jar, f"http://h{each}") for each in not_to] == [""] * len(not_to)


def test_a_secure_cookie_is_set_and_sent_over_https_alone():
    jar = jar_after("https://h/", "a=b; Secure")
    assert (sent(jar, "https://h/"), sent(jar, "http://h/")) == ("a=b", "")
    assert len(jar_after("http://h/", "a=b; Secure")) == 0


def test_over_http_no_secure_cookie_is_replaced_or_overlaid():
    """RFC 6265bis section 5.7, step 15"""
    jar = jar_after("https://h.example/", "a=b; Secure; Path=/")
    for field in ("a=evil", "a=evil; Path=/x", "a=evil; Domain=h.example"):
        jar.fill(address.parse("http://h.example/"), [field], NOW)
    assert sent(jar, "https://h.example/x") == "a=b"
    jar.fill(address.parse("http://h.example/"), ["other=c"], NOW)
    assert sent(jar, "https://h.example/") == "a=b; other=c"


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("__Secure-a=b; Secure", 1),
        ("__Secure-a=b", 0),
        ("__Host-a=b; Secure; Path=/", 1),
        ("__host-a=b; Secure", 0),
        ("__Host-a=b; Secure; Path=/; Domain=h.example", 0),
        ("__Host-a=b; Path=/", 0),
    ],
)
def test_a_prefix_is_taken_at_its_word(field, kept):
    """RFC 6265bis section 4.1.3"""
    assert len(jar_after("https://h.example/x/y", field)) == kept


@pytest.mark.parametrize(
    ("attributes", "lives"),
    [
        ("Max-Age=60", 60),
        ("Max-Age=0", 0),
        ("Max-Age=-1", 0),
        ("Max-Age=60; Expires=Wed, 09 Jun 2021 10:18:14 GMT", 60),
        ("Expires=Wed, 09 Jun 2021 10:18:14 GMT; Max-Age=60", 60),
        ("Expires=Wed, 09 Jun 2021 10:18:14 GMT", 0),
        ("Expires=soon", None),
        ("Max-Age=60s", None),
        ("Max-Age=", None),
        ("Max-Age=" + "9" * 40, 400 * 86_400),
        ("Expires=Fri, 31 Dec 9999 23:59:59 GMT", 400 * 86_400),
    ],
)
def test_a_cookie_lives_as_long_as_it_says(attributes, lives):
    """RFC 6265bis sections 5.5 and 5.6.1"""
    jar = jar_after("http://h/", f"a=b; {attributes}")
    if lives is None:
        assert sent(jar, "http://h/", NOW * 2) == "a=b"
        return
    assert sent(jar, "http://h/", NOW + lives * NS - 1) == ("a=b" if lives else "")
    assert (sent(jar, "http://h/", NOW + lives * NS), len(jar)) == ("", 0)


def test_an_expired_cookie_deletes_the_one_before():
    jar = jar_after("http://h/", "a=b", "c=d", "a=; Max-Age=0")
    assert (sent(jar, "http://h/"), len(jar)) == ("c=d", 1)


def test_longer_paths_come_first_and_then_the_older():
    """RFC 6265bis section 5.8.3"""
    jar = jar_after("http://h.example/x/y", "1=old", "2=new", "3=deep; Path=/x/y", "4=wide; Domain=h.example; Path=/")
    jar.fill(address.parse("http://h.example/x/y"), ["1=changed"], NOW)
    assert sent(jar, "http://h.example/x/y") == "3=deep; 1=changed; 2=new; 4=wide"


def test_a_cookie_without_a_name_is_its_value():
    assert sent(jar_after("http://h/", "token"), "http://h/") == "token"


def test_a_jar_is_bounded_and_forgets_the_oldest():
    jar = jar_after("http://h/", *(f"{number}=x" for number in range(cookies.MOST_OF_A_DOMAIN + 5)))
    assert (len(jar), jar.get("4"), jar.get("5")) == (cookies.MOST_OF_A_DOMAIN, None, "x")
    for number in range(cookies.MOST + 10):
        jar.fill(address.parse(f"https://h{number}.example/"), [f"a{number}=b"], NOW)
    assert len(jar) == len(list(jar)) <= cookies.MOST
    assert (jar.get("5"), jar.get(f"a{cookies.MOST}")) == (None, "b")


def test_a_jar_can_be_filled_read_and_emptied_by_hand():
    jar = comity.Cookies()
    jar.set("a", "1", domain="h.example")
    jar.set("a", "2", domain=".h.example", path="/x", secure=True)
    assert (sent(jar, "https://h.example/x"), sent(jar, "https://b.h.example/x")) == ("a=2; a=1", "a=2")
    assert (jar.get("a"), jar.get("a", ".H.example"), jar.get("a", "other"), jar.get("b")) == ("2", "2", None, None)
    assert {(each.name, each.domain, each.path, each.secure) for each in jar} == {
        ("a", "h.example", "/", False),
        ("a", "h.example", "/x", True),
    }
    jar.clear("other")
    assert len(jar) == 2
    jar.clear("h.example")
    assert len(jar) == 0
    jar.set("a", "1", domain="h")
    jar.clear()
    assert repr(jar) == "<Cookies, 0 of 0 domains>"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\r\nX: y"},
        {"value": "SECRET\n"},
        {"value": "SECRET; x"},
        {"domain": ""},
        {"path": None},
    ],
)
def test_what_cannot_be_sent_is_not_put_in(wrong):
    parts = {"name": "a", "value": "b", "domain": "h", "path": "/", **wrong}
    with pytest.raises(OptionsError) as caught:
        comity.Cookies().set(parts.pop("name"), parts.pop("value"), **parts)
    assert caught.value.option == next(iter(wrong))
    assert "SECRET" not in str(caught.value)


def test_no_repr_shows_a_value():
    jar = jar_after("http://h/", "sid=SECRET")
    assert "SECRET" not in repr(jar) + repr(list(jar))


@given(st.text(max_size=60), st.text(max_size=30))
def test_no_field_breaks_a_jar_or_the_request_that_follows(text, attributes):
    jar = jar_after("https://h.example/a/b", f"{text}; {attributes}")
    field = sent(jar, "https://h.example/a/b")
    assert not {*field} & {*"\r\n\x00"}


# In a client


async def test_cookies_are_off_unless_asked_for():
    async with Scripted(in_turn(ok(b"", "Set-Cookie: sid=1"), OK)) as server, AsyncClient(server.url) as api:
        await api.get("/")
        await api.get("/")
        assert server.seen[1].all("cookie") == []


async def test_a_jar_is_filled_from_answers_and_used_for_requests():
    async with (
        Scripted(in_turn(ok(b"", "Set-Cookie: sid=1; Path=/", "Set-Cookie: b=2; Path=/x"), OK)) as server,
        AsyncClient(server.url, cookies=True) as api,
    ):
        response = await api.get("/")
        assert response.headers.get_list("set-cookie") == ["***", "***"]
        for target in ("/", "/x", "/x"):
            last = await api.get(target, headers={"Cookie": "own=1"} if target == "/" else None)
        assert [seen.all("cookie") for seen in server.seen] == [[], ["own=1"], ["b=2; sid=1"], ["b=2; sid=1"]]
        assert "cookie" not in last.request.headers


async def test_set_cookie_is_shown_to_who_asks_and_in_no_error():
    """CP-063, CP-070, CP-071"""
    async with (
        Scripted(in_turn(ok(b"", "Set-Cookie: sid=1"), status(403, "Set-Cookie: sid=SECRET"))) as server,
        AsyncClient(server.url, cookies=True) as api,
    ):
        assert (await api.get("/", expose_cookies=True)).headers["set-cookie"] == "sid=1"
        with pytest.raises(StatusError) as caught:
            await api.get("/", expose_cookies=True)
        error = caught.value
        assert error.headers["set-cookie"] == "***"
        assert "SECRET" not in repr(error) + repr(vars(error)) + repr(error.request.headers)


async def test_every_attempt_and_every_hop_sets_and_gets_cookies():
    script = in_turn(
        status(503, "Set-Cookie: a=1"),
        status(302, "Location: /x", "Set-Cookie: b=2"),
        status(302, "Location: /x", "Set-Cookie: c=3"),
        OK,
    )
    async with (
        Scripted(script) as server,
        AsyncClient(server.url, cookies=True, follow_redirects=True, retry=Retry(backoff=QUICK)) as api,
    ):
        response = await api.get("/x")
        assert [seen.all("cookie") for seen in server.seen] == [[], ["a=1"], ["a=1; b=2"], ["a=1; b=2; c=3"]]
        assert [each.headers["set-cookie"] for each in response.history] == ["***", "***"]


async def test_a_circle_that_sets_no_other_cookie_ends():
    script = in_turn(status(302, "Location: /x", "Set-Cookie: a=1"))
    async with Scripted(script) as server, AsyncClient(server.url, cookies=True, follow_redirects=True) as api:
        with pytest.raises(RedirectRefused, match="circle"):
            await api.get("/x")
        assert len(server.seen) == 2


async def test_a_cookie_stays_with_its_host_over_a_redirect():
    """RD-05"""
    script = [Answer(302, headers={"Location": "http://b/", "Set-Cookie": "sid=1"}), 200, 200]
    transport = ScriptedTransport(*script)
    async with AsyncClient(transport=transport, cookies=True, follow_redirects=True) as api:
        await api.get("http://a/")
        await api.get("http://a/")
        assert [request.headers.get("cookie") for request in transport.requests] == [None, None, "sid=1"]


async def test_clients_may_share_a_jar_and_auth_goes_beside_it():
    jar = comity.Cookies()
    transport = ScriptedTransport(Answer(200, headers={"Set-Cookie": "sid=1"}), 200)
    async with (
        AsyncClient("http://h", transport=transport, cookies=jar) as one,
        AsyncClient("http://h", transport=transport, cookies=jar, auth=comity.Bearer("t")) as other,
    ):
        await one.get("/")
        await other.get("/")
        last = transport.requests[1].headers
        assert (last["cookie"], last["authorization"], jar.get("sid")) == ("sid=1", "Bearer t", "1")


@pytest.mark.parametrize("wrong", [1, "a=b", {"sid": "SECRET"}, None])
def test_what_is_no_jar_is_refused(wrong):
    with pytest.raises(OptionsError) as caught:
        AsyncClient(cookies=wrong)
    assert caught.value.option == "cookies"
    assert "SECRET" not in str(caught.value)


def test_threads_may_fill_and_ask_one_jar():
    jar, failures = comity.Cookies(), []

    def use(number: int) -> None:
        try:
            for at in range(200):
                jar.fill(address.parse(f"http://h{number}.example/"), [f"{at % 7}=x; Domain=h{number}.example"], NOW)
                sent(jar, f"http://h{number}.example/")
                list(jar)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the failure
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, len(jar)) == ([], 28)


def test_a_cookie_is_a_value():
    [cookie] = jar_after("http://h/", "a=b")
    assert copy.copy(cookie) == cookie
