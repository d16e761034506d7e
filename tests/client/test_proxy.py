"""Proxy: tunnels for http and https targets, and proxies that refuse, hang or talk nonsense."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
import warnings

import pytest

from comity.client.address import parse
from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.async_client import AsyncClient
from comity.client.proxy import MAX_ANSWER, Proxy
from comity.client.tls import TLS, system_context
from comity.errors import BadResponse, ConnectFailed, OptionsError, RequestError, StatusError, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.client.certificate import CA, CLIENT_CERT, CLIENT_KEY, HOME, OTHER_CA, serving
from tests.client.connect_proxy import OPENED, ConnectProxy
from tests.client.scripted import Peer, Scripted, answer, hang, in_turn, ok, once, refused as refused_by_rate, status

TRUSTING = TLS(ca=CA)
SHORT = 0.05
NO_HTTP = "it answered with something that is no HTTP"


@pytest.fixture
def system_trusts_the_proxy(monkeypatch):
    """Let the system trust the authority of an https proxy for the length of a test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(HOME / "other-ca.pem"))
    system_context.cache_clear()
    yield
    system_context.cache_clear()


@pytest.fixture(params=["http", "https"])
async def target(request):
    async with Scripted(answer(ok(b"target")), tls=serving() if request.param == "https" else None) as server:
        yield server


@pytest.fixture(params=["http", "https"])
def proxy_tls(request, system_trusts_the_proxy):
    return serving("proxy") if request.param == "https" else None


def through(proxy: ConnectProxy, url: str = "", **options) -> AsyncClient:
    return AsyncClient(url, proxy=proxy.url, **{"tls": TRUSTING, "retry": 0} | options)


async def failed(api: AsyncClient, url: str = "/") -> ConnectFailed:
    async with api, asyncio.timeout(5):
        with pytest.raises(ConnectFailed) as caught:
            await api.get(url)
    return caught.value


async def test_every_request_reaches_its_target_through_a_tunnel(target, proxy_tls):
    """CP-034, CP-035, CP-037"""
    body = bytes(range(256)) * 4_000
    async with ConnectProxy(tls=proxy_tls) as proxy, through(proxy, target.url) as api:
        for _ in range(3):
            response = await api.post("/x?a=1", content=body)
            assert (response.status_code, response.content) == (200, b"target")
        assert proxy.heads == [f"CONNECT 127.0.0.1:{target.port} HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n\r\n"]
        assert (target.connections, proxy.tunnels) == (1, 1)
    assert {(seen.target, seen.body) for seen in target.seen} == {("/x?a=1", body)}
    await proxy.until(lambda proxy: proxy.open == 0)


async def test_each_target_has_a_tunnel_of_its_own():
    async with ConnectProxy() as proxy, Scripted(answer(ok())) as a, Scripted(answer(ok()), tls=serving()) as b:
        async with through(proxy) as api:
            for server in (a, b, a, b):
                await api.get(server.url)
        assert proxy.targets == [f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"]


async def test_an_ipv6_target_is_asked_for_in_brackets():
    assert (
        Proxy(parse("http://p").origin)
        .connect(parse("http://[::1]/x").origin)
        .startswith(b"CONNECT [::1]:80 HTTP/1.1\r\n")
    )


async def test_user_and_password_go_to_the_proxy_decoded_and_to_nobody_else(target, proxy_tls):
    """CP-036, PY-01, PY-03"""
    async with ConnectProxy(credentials="user:p@ss/w", tls=proxy_tls) as proxy:
        options = {"tls": TRUSTING, "retry": 0, "headers": {"Authorization": "Bearer target"}}
        async with AsyncClient(target.url, proxy=proxy.url_for("user:p%40ss%2Fw"), **options) as api:
            assert (await api.get("/")).content == b"target"
        assert "Bearer" not in proxy.heads[0]
    assert b"proxy-authorization" not in target.seen[0].raw.lower()
    assert target.seen[0].all("authorization") == ["Bearer target"]


@pytest.mark.parametrize(
    ("userinfo", "sent"),
    [
        ("u:p", "Basic dTpw"),
        ("u", "Basic dTo="),
        ("u:", "Basic dTo="),
        ("u:a:b", "Basic dTphOmI="),
        ("%C3%BC:p", "Basic w7w6cA=="),
    ],
)
def test_basic_is_made_of_the_user_information(userinfo, sent):
    """CP-036"""
    assert Proxy.of(f"http://{userinfo}@proxy.example").authorization == sent


async def test_status_headers_and_time_are_the_targets():
    """CP-038"""
    async with ConnectProxy() as proxy, Scripted(in_turn(status(404, "X-From: target"))) as server:
        async with through(proxy, server.url) as api:
            with pytest.raises(StatusError) as caught:
                await api.get("/")
        assert caught.value.status_code == 404
        assert caught.value.headers["x-from"] == "target"


async def test_retries_and_hints_work_as_without_a_proxy():
    """CP-038"""
    async with ConnectProxy() as proxy, Scripted(in_turn(refused_by_rate(0), ok(b"then"))) as server:
        async with through(proxy, server.url, retry=2) as api:
            response = await api.get("/")
        assert response.content == b"then"
        assert [each.status for each in response.attempts] == [429, 200]


async def test_tls_is_between_client_and_target_with_the_options_of_the_client(proxy_tls):
    """CP-039"""
    async with ConnectProxy(tls=proxy_tls) as proxy, Scripted(answer(ok()), tls=serving(wants=CA)) as server:
        both = TLS(ca=CA, cert=CLIENT_CERT, key=CLIENT_KEY)
        async with through(proxy, server.url, tls=both) as api:
            assert (await api.get("/")).ok
        error = await failed(through(proxy, server.url, tls=None))
        assert (error.phase, error.code, error.sent) == ("tls", "CERTIFICATE_VERIFY_FAILED", "no")
        assert f"through the proxy {proxy.url}" in str(error)
        await proxy.until(lambda proxy: proxy.open == 0)


async def test_each_hop_is_asked_for_and_checked_against_its_own_name(system_trusts_the_proxy):
    """TL-03"""
    at_proxy: list[str | None] = []
    at_target: list[str | None] = []

    async def resolve(host: str, port: int):
        assert host == "proxy.test", "the target's name is for the proxy to look up"
        return await asyncio.get_running_loop().getaddrinfo("127.0.0.1", port)

    async with (
        ConnectProxy(tls=serving("proxy", asked=at_proxy)) as proxy,
        Scripted(answer(ok()), tls=serving(asked=at_target)) as server,
    ):
        transport = AiohttpTransport(tls=TRUSTING, proxy=f"https://proxy.test:{proxy.port}", resolve=resolve)
        async with AsyncClient(transport=transport) as api:
            assert (await api.get(f"https://target.test:{server.port}/")).ok
    assert (at_proxy, at_target) == (["proxy.test"], ["target.test"])


async def test_the_options_of_the_client_do_not_vouch_for_the_proxy():
    """CP-039, TL-03"""
    async with ConnectProxy(tls=serving("proxy")) as proxy, Scripted(answer(ok())) as server:
        for tls in (TLS(ca=OTHER_CA), TLS(verify=False)):
            error = await failed(through(proxy, server.url, tls=tls))
            assert (error.phase, error.code) == ("connect", "CERTIFICATE_VERIFY_FAILED")
            assert "with the proxy, TLS: certificate verify failed" in str(error)
        assert proxy.heads == []


@pytest.mark.parametrize("framing", ["length", "until the end"])
async def test_a_large_answer_comes_whole_as_fast_as_it_is_read(proxy_tls, framing):
    body = bytes(range(256)) * 20_000
    length = f"Content-Length: {len(body)}\r\n" if framing == "length" else ""
    script = once(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode() + body)
    async with ConnectProxy(tls=proxy_tls) as proxy, Scripted(script, tls=serving()) as server, through(proxy) as api:
        assert (await api.get(server.url)).content == body
        assert (await api.get(server.url)).content == body
        assert proxy.tunnels == 2


async def test_an_upload_through_a_tunnel_that_stalls_ends_by_its_limit(proxy_tls):
    async def never_read(peer: Peer) -> None:
        await peer.request(body=False)
        await asyncio.Event().wait()

    async with ConnectProxy(tls=proxy_tls) as proxy, Scripted(never_read, tls=serving()) as server:
        async with through(proxy, server.url, timeout=Timeout(send=0.1, response=None, idle=None)) as api:
            with pytest.raises(TimedOut) as caught:
                await api.put("/", content=bytes(30_000_000))
        assert (caught.value.phase, caught.value.sent) == ("send", "maybe")


async def test_a_target_that_misses_a_certificate_gets_no_request(proxy_tls):
    async with (
        ConnectProxy(tls=proxy_tls) as proxy,
        Scripted(hang, tls=serving(wants=CA)) as server,
        through(proxy) as api,
    ):
        with pytest.raises(RequestError):  # how it is refused depends on the version of TLS
            await api.get(server.url)
        assert server.seen == []


async def test_a_target_that_speaks_no_tls_is_a_failed_connection(proxy_tls):
    async def plain(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with ConnectProxy(tls=proxy_tls) as proxy, Scripted(plain) as server:
        error = await failed(through(proxy), server.url.replace("http:", "https:"))
        assert (error.phase, error.sent) == ("tls", "no")
        assert "TLS: " in str(error)
        await proxy.until(lambda proxy: proxy.open == 0)


async def test_a_damaged_record_ends_the_answer(proxy_tls):
    async def damaged(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
        raw = peer.writer.transport.get_extra_info("socket").dup()
        with raw:
            raw.setblocking(True)
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        await peer.gone()

    async with ConnectProxy(tls=proxy_tls) as proxy, Scripted(damaged, tls=serving()) as server, through(proxy) as api:
        with pytest.raises(BadResponse, match="2 of 9 bytes"):
            await api.get(server.url)
    await proxy.until(lambda proxy: proxy.open == 0)


async def test_a_proxy_is_its_clients_alone_and_none_comes_from_the_environment(target, monkeypatch):
    """CP-040"""
    async with ConnectProxy() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        async with through(proxy, target.url) as tunnelled, AsyncClient(target.url, tls=TRUSTING) as direct:
            for api in (tunnelled, direct, tunnelled, direct):
                assert (await api.get("/")).ok
        assert proxy.tunnels == 1
    assert target.connections == 2


@pytest.mark.parametrize(
    ("says", "text", "code"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "it answered 407 Proxy Authentication Required; give",
            "407",
        ),
        (b"HTTP/1.0 502 Whatever\r\nContent-Length: 9\r\n\r\nno target", "it answered 502 Bad Gateway", "502"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", "it answered 302 Found", "302"),
        (b"HTTP/1.1 299\r\n\r\nHTTP/1.1 200 OK\r\n", "it sent more than an answer", ""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\n\r\n", "it answered 403 Forbidden", "403"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "it answered 999", "999"),
        (b"SSH-2.0-OpenSSH\r\n", NO_HTTP, ""),
        (b"\x15\x03\x01\x00\x02\x02\x46", NO_HTTP, ""),
        (b"HTTP/1.1 abc\r\n\r\n", NO_HTTP, ""),
        (b"HTTP/1.1 2000 OK\r\n\r\n", NO_HTTP, ""),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * MAX_ANSWER, f"it answered with more than {MAX_ANSWER} bytes", ""),
        (b"HTTP/1.1 200 OK\r\nX:", "it hung up", ""),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_a_failed_connection(target, says, text, code):
    """CP-035"""
    async with ConnectProxy(says=says) as proxy:
        url = proxy.url_for("me:SECRET")
        error = await failed(AsyncClient(target.url, proxy=url, tls=TRUSTING, retry=0))
        assert f" through the proxy {proxy.url} ({text}" in str(error)
        assert (error.sent, error.phase, error.code) == ("no", "connect", code)
        assert "SECRET" not in repr(error) + "".join(traceback.format_exception(error))
        await proxy.until(lambda proxy: proxy.open == 0)
    assert target.connections == 0


async def test_wrong_credentials_are_refused_and_named(target):
    async with ConnectProxy(credentials="me:right") as proxy:
        error = await failed(AsyncClient(target.url, proxy=proxy.url_for("me:wrong"), tls=TRUSTING, retry=0))
        assert error.code == "407"
        assert "wrong" not in str(error)


async def test_a_refused_tunnel_is_tried_again_as_nothing_was_sent(target):
    async with ConnectProxy(says=b"HTTP/1.1 503 Busy\r\n\r\n") as proxy:
        with pytest.raises(ConnectFailed) as caught:
            async with through(proxy, target.url, retry=Retry(attempts=2, backoff=Backoff(base=0.001))) as api:
                await api.post("/", content=b"x")
        assert [each.sent for each in caught.value.attempts] == ["no", "no"]
        assert len(proxy.heads) == 2


@pytest.mark.parametrize(
    "opened", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 201\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 200 OK\nVia: x\n\n"]
)
async def test_any_2xx_opens_the_tunnel_and_its_length_means_nothing(target, opened):
    async with ConnectProxy(opened=opened) as proxy, through(proxy, target.url) as api:
        assert (await api.get("/")).content == b"target"


async def test_interim_answers_come_before_the_tunnel(target):
    async with ConnectProxy(opened=b"HTTP/1.1 102 Wait\r\n\r\n" + OPENED) as proxy, through(proxy, target.url) as api:
        assert (await api.get("/")).content == b"target"


async def test_a_closed_proxy_port_names_the_proxy(target):
    async with ConnectProxy() as proxy:
        url = proxy.url
    error = await failed(AsyncClient(target.url, proxy=url, tls=TRUSTING, retry=0))
    assert (error.sent, error.phase) == ("no", "connect")
    assert f"through the proxy {url}" in str(error)


@pytest.mark.parametrize("limit", ["connect", "request", "attempt"])
async def test_a_limit_ends_the_wait_for_a_tunnel(target, limit):
    async with ConnectProxy(says=None) as proxy, through(proxy, target.url, timeout=Timeout(**{limit: SHORT})) as api:
        with pytest.raises(TimedOut, match="nothing was sent") as caught:
            await api.get("/")
        assert (caught.value.phase, caught.value.seconds, caught.value.sent) == (limit, SHORT, "no")
        assert f"while connecting through the proxy {proxy.url}" in str(caught.value)
        await proxy.until(lambda proxy: proxy.open == 0)


@pytest.mark.parametrize("says", [None, OPENED, OPENED[:20]])
async def test_a_limit_ends_a_handshake_or_an_answer_that_stalls(says):
    async def wait(reader: asyncio.StreamReader) -> None:
        await reader.read(1)
        await asyncio.Event().wait()

    async with ConnectProxy(says=says, then=wait) as proxy:
        async with through(proxy, "https://target.test", timeout=Timeout(connect=SHORT)) as api:
            with pytest.raises(TimedOut) as caught:
                await api.get("/")
        assert (caught.value.phase, caught.value.sent) == ("connect", "no")


async def test_a_proxy_that_hangs_up_in_the_handshake_is_a_failed_connection():
    async with ConnectProxy(says=OPENED, then=lambda reader: reader.read(1)) as proxy:
        error = await failed(through(proxy, "https://target.test"))
        assert (error.phase, error.sent) == ("tls", "no")
        assert f"through the proxy {proxy.url}" in str(error)


async def test_a_target_that_speaks_before_it_is_asked_does_not_get_through():
    async with ConnectProxy(says=OPENED + ok(b"forged")) as proxy:
        assert "it sent more than an answer" in str(await failed(through(proxy, "http://target.test")))


async def test_a_cancelled_request_leaves_no_tunnel(target, proxy_tls):
    """CA-01"""
    async with ConnectProxy(says=None, tls=proxy_tls) as proxy, through(proxy, target.url) as api:
        task = asyncio.create_task(api.get("/"))
        await proxy.until(lambda proxy: len(proxy.heads) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await proxy.until(lambda proxy: proxy.open == 0)


async def test_cancelling_at_any_step_leaves_no_tunnel_and_a_working_client(target, proxy_tls):
    """CA-01"""
    async with ConnectProxy(tls=proxy_tls) as proxy, through(proxy, target.url) as api:
        for steps in range(30):
            task = asyncio.create_task(api.get("/", headers={"Connection": "close"}))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (await api.get("/")).ok
        stats = api.stats()
        assert (stats.running, stats.queued) == (0, 0)
    await proxy.until(lambda proxy: proxy.open == 0)
    await target.until(lambda target: target.open == 0)


async def test_the_tunnel_counts_as_connecting_and_tls_is_the_targets():
    """HT-043, HT-044"""
    async with ConnectProxy() as proxy, Scripted(answer(ok()), tls=serving()) as server, through(proxy) as api:
        fresh, reused = [(await api.get(server.url)).timings for _ in range(2)]
    assert min(fresh.dns, fresh.connect, fresh.tls) > 0
    assert (reused.dns, reused.connect, reused.tls) == (0, 0, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("socks5://u:S3CR@h:1080", "socks5 proxies cannot be used"),
        ("socks4://h", "socks4 proxies cannot be used"),
        ("ftp://h", "ftp proxies cannot be used"),
        ("u:S3CR@h:3128", "it has no scheme"),
        ("h:3128", "it has no scheme"),
        ("", "it has no scheme"),
        ("http://", "no host"),
        ("http://k:S3CR@ho st:80", "invalid host name"),
        ("http://k:S3CR@[::1", "IPv6"),
        ("http://k:S3CR@h:99999", "port"),
        ("http://k:S3CR@h:80\r\nX: y", "control character"),
        ("http://k:S3/CR@h:80", "port"),
        ("http://h/path", "no path"),
        ("http://h?x=1", "no path"),
        ("http://h/#x", "no path"),
        ({"http": "http://k:S3CR@h"}, "dict"),
        (8080, "int"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(given, said):
    """CP-041, SC-05"""
    with pytest.raises(OptionsError, match="http:// or https://") as caught:
        AsyncClient(proxy=given)
    text = str(caught.value) + repr(caught.value.value) + "".join(traceback.format_exception(caught.value))
    assert caught.value.option == "proxy"
    assert said in str(caught.value)
    assert "S3C" not in text
    assert "CR@" not in text


@pytest.mark.parametrize(
    "options", [{"tls": TRUSTING}, {"proxy": "http://u:S3CR@h"}, {"max_body": None}, {"max_body": "1 MB"}]
)
def test_options_of_a_transport_that_is_given_too_are_refused(options):
    with pytest.raises(OptionsError, match=f"{next(iter(options))}.*transport= is given too") as caught:
        AsyncClient(transport=AiohttpTransport(), **options)
    assert "S3CR" not in str(caught.value)


def test_a_proxys_password_is_in_no_repr_warning_or_log(caplog):
    """SC-01, SC-03, SC-04"""
    caplog.set_level(logging.DEBUG)
    shown: list[object] = []

    async def leave_it_open() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: shown.append(context))
        async with ConnectProxy(credentials="u:PW2") as proxy, Scripted(hang) as server:
            url = proxy.url_for("u:PW2")
            api = AsyncClient(server.url, proxy=url, retry=0, on_event=shown.append, timeout=Timeout(response=SHORT))
            with pytest.raises(RequestError) as caught:
                await api.get("/")
            transport = api._dispatcher.wire
            shown.extend([api, transport, vars(transport), caught.value, Proxy.of(url), api.stats()])
            await asyncio.gather(api.get("/"), return_exceptions=True)
        with pytest.raises(RequestError) as caught:
            await api.get("/")
        shown.append("".join(traceback.format_exception(caught.value)))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(leave_it_open(), debug=True)
        gc.collect()
    text = "\n".join([*map(repr, shown), *(str(warning.message) for warning in warned), caplog.text])
    assert "through the proxy http://localhost:" in text
    assert "PW2" not in text
    assert "dTpQVzI" not in text
