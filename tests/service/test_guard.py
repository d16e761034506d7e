"""Guard: nothing reaches what is not public, whatever the URL, the resolver or a redirect says; real sockets count."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.async_client import AsyncClient
from comity.errors import InvalidRequest, OptionsError, TargetBlocked
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.service.guard import Guard
from tests.client.scripted import Scripted, answer, ok, once, status
from tests.service.addresses import ODD, PUBLIC, REFUSED, as_host

EAGER = Retry(retries=3, backoff=Backoff(base=0.001, jitter=None), idempotent="any")
OPEN = "127.0.0.2"
"""Stands for a public address in tests that connect; the guard allows it, and nothing else of this machine."""


class Names:
    """A resolver that gives each lookup of any name the next answer, a list of addresses; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int):
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [_info(address, port) for address in found]


def _info(address: str, port: int):
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def client(*answers: list[str], guard: Guard | None = None, **options) -> AsyncClient:
    transport = AiohttpTransport(guard=guard or Guard(allow=[OPEN]), resolve=Names(*answers))
    return AsyncClient(transport=transport, **{"retry": EAGER} | options)


async def blocked(api: AsyncClient, url: str) -> TargetBlocked:
    with pytest.raises(TargetBlocked) as caught:
        await api.post(url, content=b"secret")
    return caught.value


@pytest.fixture
async def inside():
    """A server that nobody may reach."""
    async with Scripted(answer(ok(b"inside"))) as server:
        yield server
        assert server.connections == 0


@pytest.mark.parametrize("address", REFUSED)
async def test_an_address_that_must_be_refused_is_refused_at_intake_and_at_the_connection(inside, address):
    """SS-07: nothing is sent, and it is final: one attempt."""
    url = f"http://{as_host(address)}:{inside.port}/"
    with pytest.raises(TargetBlocked):
        Guard().check(url)
    async with client() as api:
        error = await blocked(api, url)
    assert (error.sent, len(error.attempts), error.retryable) == ("no", 1, False)
    assert error.attempts[0].decision == "blocked"


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_leads_there_is_refused_and_the_error_does_not_say_where_it_leads(inside, address):
    """SS-07"""
    async with client([address]) as api:
        error = await blocked(api, f"http://api.example:{inside.port}/x?token=abc")
    said = f"{error} {error.attempts} {error.as_dict()} {error.rule}"
    assert address not in said
    assert "abc" not in said
    assert str(ip_address(address)) not in said.replace(error.rule, "")


@pytest.mark.parametrize("address", REFUSED)
@pytest.mark.parametrize("by_name", [True, False])
async def test_a_redirect_to_it_is_refused_though_redirects_are_followed(inside, address, by_name):
    """SS-01"""
    target = "evil.example" if by_name else as_host(address)
    async with Scripted(answer(status(302, f"Location: http://{target}:{inside.port}/")), host=OPEN) as server:
        async with client([OPEN], [address], follow_redirects=True) as api:
            with pytest.raises(TargetBlocked):
                await api.get(f"http://api.example:{server.port}/")
        assert (server.connections, len(server.seen)) == (1, 1)


@pytest.mark.parametrize("spelling", ODD)
async def test_another_spelling_of_this_machine_is_refused(inside, spelling):
    """SS-03"""
    url = f"http://{spelling}:{inside.port}/"
    with pytest.raises((InvalidRequest, TargetBlocked)):
        Guard().check(url)
    async with client(["127.0.0.1"]) as api:
        with pytest.raises((InvalidRequest, TargetBlocked)):
            await api.get(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://h.example/", "ftp://h.example/", "dict://h.example:11211/", "http://u:p@h.example/",
        "http://u@h.example/", "https://u:p@1.1.1.1/", "//h.example/", "h.example", "", "http://", "http:///x", "javascript:1",
        "http://h.example:0/", "http://h.example:99999/", "http://h.example\r\n/", "unix:///run/x.sock", "jar:http://h.example/",
    ],
)  # fmt: skip
def test_a_url_that_is_not_plain_http_is_refused_at_intake(url):
    """SS-07"""
    with pytest.raises(InvalidRequest):
        Guard().check(url)


@pytest.mark.parametrize(
    "url", ["http://h.example/x?y=1", "HTTPS://H.example.:8443", "https://1.1.1.1/", "http://[2606:4700::1111]/"]
)
def test_any_other_is_taken_in(url):
    assert Guard().check(url).origin.scheme in {"http", "https"}


@pytest.mark.parametrize("address", PUBLIC)
def test_there_is_no_objection_to_public_addresses(address):
    assert Guard().objection("h.example", [address]) is None


@pytest.mark.parametrize(
    "answer", [["203.0.113.5", "::1", "10.0.0.1"], ["8.8.8.8", "::1"], ["8.8.8.8", "10.0.0.1"], [OPEN, "127.0.0.1"]]
)
async def test_one_address_that_is_not_public_refuses_the_name(inside, answer):
    """SS-05"""
    async with client(answer) as api:
        await blocked(api, f"http://api.example:{inside.port}/")


async def test_a_name_is_looked_up_once_for_each_connection_and_judged_each_time(inside):
    """SS-07: a host that becomes private after it was judged: one check for each attempt, and no storm of retries."""
    names = Names([OPEN], ["127.0.0.1"])
    async with Scripted(once(status(503)), host=OPEN) as server:
        transport = AiohttpTransport(guard=Guard(allow=[OPEN]), resolve=names)
        async with AsyncClient(transport=transport, retry=EAGER) as api:
            error = await blocked(api, f"http://api.example:{server.port}/")
        assert server.connections == 1
    assert names.asked == 2
    assert [attempt.status for attempt in error.attempts] == [503, None]


async def test_a_redirect_is_an_answer_unless_it_is_asked_for(inside):
    """SS-01: the attempt is recorded as 302."""
    async with Scripted(answer(status(302, f"Location: {inside.url}")), host=OPEN) as server:
        async with client() as api:
            response = await api.get(f"http://{OPEN}:{server.port}/")
        assert [attempt.status for attempt in response.attempts] == [302]


async def test_a_stream_is_guarded_too(inside):
    async with client(["127.0.0.1"]) as api:
        with pytest.raises(TargetBlocked):
            async with api.stream("GET", f"http://api.example:{inside.port}/"):
                pass


async def test_the_environments_proxy_is_not_used(inside, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, inside.url)
    async with Scripted(answer(ok()), host=OPEN) as server, client([OPEN]) as api:
        assert (await api.get(f"http://api.example:{server.port}/")).ok


def test_a_proxy_beside_a_guard_is_refused():
    with pytest.raises(OptionsError, match="proxy cannot be used: a proxy looks names up itself"):
        AiohttpTransport(guard=Guard(), proxy="http://proxy.example:3128")


@pytest.mark.parametrize(
    "allow", [["127.0.0.0/8"], ["127.0.0.1"], ["api.example"], ["API.example."], ["::1", "127.0.0.1/32"]]
)
async def test_what_is_allowed_is_reached(allow):
    async with Scripted(answer(ok())) as server, client(["127.0.0.1"], guard=Guard(allow=allow)) as api:
        assert (await api.get(f"http://api.example:{server.port}/")).ok


@pytest.mark.parametrize("allow", [["127.0.0.2"], ["example"], ["other.api.example"], ["xapi.example"], ["10.0.0.0/8"]])
async def test_an_entry_allows_itself_alone(inside, allow):
    async with client(["127.0.0.1"], guard=Guard(allow=allow)) as api:
        await blocked(api, f"http://api.example:{inside.port}/")


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "64:ff9b::a9fe:a9fe"])
def test_metadata_needs_a_word_of_its_own_beside_the_list(address):
    everything = ["0.0.0.0/0", "::/0", "meta.example"]
    assert Guard(allow=everything).objection("meta.example", [address]) == "metadata of a cloud"
    assert Guard(metadata=True).objection("meta.example", [address]) is not None
    assert Guard(allow=everything, metadata=True).objection("meta.example", [address]) is None
    assert Guard(allow=["meta.example"], metadata=True).objection("meta.example", [address]) is None


def test_an_address_is_allowed_together_with_what_it_holds():
    tunnel = "2002:a00:1::1"
    assert Guard(allow=["2002::/16"]).objection("h", [tunnel]) == "private use, RFC 1918"
    assert Guard(allow=["10.0.0.0/8"]).objection("h", [tunnel]) == "6to4, RFC 3056"
    assert Guard(allow=["10.0.0.0/8", "2002::/16"]).objection("h", [tunnel]) is None


def test_a_resolver_that_answers_with_a_name_is_refused():
    assert Guard().objection("h", ["localhost"]) == "no numeric address"


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.1/8", "10.0.0.0/33", "127.1", "*.example", "http://h.example", "h.example:80", "h.example/", "u@h.example", "", " ",
        "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "0x7f.1", None, 7,
    ],
)  # fmt: skip
def test_an_entry_that_would_allow_nothing_or_something_else_is_an_error(entry):
    with pytest.raises(OptionsError, match=r"guard\.allow"):
        Guard(allow=[entry])


@pytest.mark.parametrize("options", [{"allow": "10.0.0.0/8"}, {"allow": None}, {"metadata": 1}])
def test_options_that_are_none_are_errors(options):
    with pytest.raises(OptionsError, match=r"guard\.(allow|metadata)"):
        Guard(**options)
