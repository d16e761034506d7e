"""Secrets: a whole run with one in every place that takes one, and everything that it shows searched for them all."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import pickle
import traceback
import warnings
from base64 import b64encode
from collections import defaultdict
from collections.abc import Awaitable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest

import comity
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from tests.client.certificate import CA, CLIENT_CERT, ENCRYPTED_KEY, PASSPHRASE, serving
from tests.client.connect_proxy import ConnectProxy
from tests.client.scripted import Scripted, answer, hang, in_turn, ok, once, status

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzM2NyM3QifQ.c2VjcmV0LXNpZ25hdHVyZQ"
USER = "me:pw-of-url"
PROXY_USER = "me:pw-of-proxy"
PASSWORDS = {"auth": ("me", "pw-of-auth")}
QUERY = (
    "api_key=key-in-query&sas=sas-in-query&code=code-in-query&X-Amz-Signature=sig-in-query"
    f"&next={quote('https://h/?token=token-in-next', safe='')}&page=2"
)
HEADERS = {
    "Authorization": "Bearer token-in-header",
    "Cookie": "sid=cookie-in-header",
    "X-Api-Key": "key-in-header",
    "X-My-Secret": "secret-in-header",
}
FORM = {"password": "password-in-form"}
JSON = {"client_secret": "secret-in-json"}
FILES = {"report": ("a.txt", "text-in-file", "text/plain")}
TOKEN = "token-of-source"
ANSWERED = (
    b'{"access_token": "token-in-answer"}',
    "Content-Type: application/json",
    "Set-Cookie: sid=cookie-in-answer",
)

SECRETS = (
    JWT, "pw-of-url", "pw-of-proxy", "pw-of-auth", "key-in-query", "sas-in-query", "code-in-query", "sig-in-query", "token-in-next",
    "token-in-header", "cookie-in-header", "key-in-header", "secret-in-header", "password-in-form", "secret-in-json",
    "text-in-file", TOKEN, "token-in-answer", "cookie-in-answer", "token-in-location", "token-wrong", "key-wrong", "pw-wrong",
    PASSPHRASE, PASSPHRASE.replace(" ", "+"), ENCRYPTED_KEY.splitlines()[2],
    *(b64encode(pair.encode()).decode().rstrip("=")[:-1] for pair in (USER, PROXY_USER, "me:pw-of-auth")),
)  # fmt: skip

BAD_TOKEN, BAD_KEY, BAD_PASSPHRASE = (
    "token-wrong",
    "key-wrong",
    "pw-wrong",
)  # a traceback quotes the line that says them

TWICE = Retry(attempts=2, backoff=Backoff(base=0.001, cap=0.001))
PLACES = ("log", "warning", "repr", "event", "error", "pickle", "traceback", "locals", "file")
OURS_OR_THE_LOOPS = (asyncio.Future, asyncio.Handle, Future)


@cache
def concerns(kind: type) -> bool:
    """Tell whether objects of a type show what is ours: they are of comity, or the loop's, which log themselves."""
    return str(kind.__module__).partition(".")[0] == "comity" or issubclass(kind, OURS_OR_THE_LOOPS)


class Shown:
    """What a run shows, by place."""

    def __init__(self) -> None:
        self.texts: defaultdict[str, set[str]] = defaultdict(set)
        self.kinds: set[str] = set()
        self.steps: set[tuple[object, ...]] = set()

    def event(self, event: comity.Event) -> None:
        self.texts["event"].update([repr(event), json.dumps(event.as_dict())])
        self.at(event.type, event.status, event.reason)

    def at(self, *step: object) -> None:
        """Note everything when a run comes to a kind of step for the first time."""
        if step not in self.steps:
            self.steps.add(step)
            self.everything()

    def everything(self) -> None:
        """Note how every object of comity and of the loop shows itself that is alive."""
        for each in gc.get_objects():
            if concerns(type(each)):
                shown = repr(each)
                if "HttpProcessingError" not in shown:  # the parser's own, which quotes what came, on its way to us
                    self.texts["repr"].update((shown, str(each)))

    async def call(self, call: Awaitable[object]) -> None:
        """Make a call and note everything of how it ends."""
        try:
            value = await call
        except (comity.ComityError, asyncio.CancelledError) as error:
            self.error(error)
            self.at(type(error))
        else:
            self.at(type(value))
            self.texts["repr"].update([repr(value), str(value)])
            if isinstance(value, comity.Response):
                self.response(value)

    def response(self, response: comity.Response) -> None:
        self.kinds.add(str(response.status_code))
        self.texts["repr"].update(
            [repr(response.headers), repr(response.request.headers), json.dumps(response.as_dict())]
        )
        self.texts["repr"].update([repr(each) for each in (*response.attempts, *response.history)])

    def error(self, error: BaseException) -> None:
        self.kinds.add(type(error).__name__)
        self.texts["error"].update([repr(error), str(error)])
        self.texts["traceback"].update(traceback.format_exception(error))
        self.texts["locals"].update(locals_of(error))
        if isinstance(error, comity.ComityError):
            self.texts["error"].add(json.dumps(error.as_dict()))
            self.texts["error"].update(map(repr, vars(error).values()))
            again = pickle.loads(pickle.dumps(error))
            self.texts["pickle"].update([repr(again), str(again), *map(repr, vars(again).values())])


def locals_of(error: BaseException) -> Iterator[str]:
    """Yield what a traceback with `capture_locals` shows of comity's objects.

    The plain values that a caller passed in (a URL, a mapping of headers) show themselves in its frames and in ours.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals["__name__"].startswith("comity."):
            for name, value in frame.f_locals.items():
                if not concerns(type(value)):
                    continue
                with suppress(AttributeError):  # an object whose construction failed
                    yield f"{frame.f_code.co_name} {name}={value!r}"


class Log(logging.Handler):
    """Every record, formatted and raw."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(logging.DEBUG)
        self.shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self.shown.texts["log"].update([self.format(record), repr(vars(record))])


@cache
def whole_run() -> Shown:
    """Make one run with everything, both clients, the loop in debug mode, and every logger at DEBUG."""
    shown = Shown()
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("asyncio", "aiohttp", "aiohttp.client", "comity"))]
    before = [(each, each.level) for each in loggers]
    handler = Log(shown)
    root.addHandler(handler)
    try:
        for each in loggers:
            each.setLevel(logging.DEBUG)
        with warnings.catch_warnings(record=True) as warned, TemporaryDirectory() as folder:
            warnings.simplefilter("always")
            asyncio.run(calls(shown, Path(folder)), debug=True)
            asyncio.run(of_wrong_values(shown), debug=True)
            gc.collect()
            notes = [path for path in Path(folder).iterdir() if path.suffix in {".har", ".json"}]
            shown.texts["file"].update(path.name + path.read_text() for path in notes)
        shown.texts["warning"].update([str(each.message) for each in warned])
    finally:
        root.removeHandler(handler)
        for each, level in before:
            each.setLevel(level)
    return shown


async def calls(shown: Shown, folder: Path) -> None:
    """Let calls end in every way."""
    asyncio.get_running_loop().slow_callback_duration = 0  # each step is logged, with how its arguments show themselves
    good, bad = ok(*ANSWERED), status(500, *ANSWERED[1:], body=ANSWERED[0])
    forbidden, broken = status(403, *ANSWERED[1:], body=ANSWERED[0]), ok(ANSWERED[0])[:-9]
    gone = b"HTTP/1.1 302 X\r\nLocation: %s/moved?token=token-in-location\r\nContent-Length: 0\r\n\r\n"
    async with (
        Scripted(answer(good)) as working,
        Scripted(in_turn(bad, None, good)) as shaky,
        Scripted(answer(forbidden)) as refusing,
        Scripted(once(broken)) as breaking,
        Scripted(answer(b"Authorization: Bearer token-in-answer\r\n\r\n")) as babbling,
        Scripted(answer(gone % working.url.replace("127.0.0.1", "localhost").encode())) as leading,
        Scripted(hang) as hanging,
        Scripted(answer(good), tls=serving()) as trusted,
        ConnectProxy(credentials="other:one") as proxy,
        ConnectProxy(credentials=PROXY_USER) as tunnelling,
    ):
        user = ""

        def at(server: Scripted) -> str:
            return f"{server.url.replace('://', f'://{user}')}/{JWT}/x?{QUERY}"

        async def fetch() -> tuple[str, float]:
            return TOKEN, 3600.0

        async def refused() -> tuple[str, float]:
            raise ValueError(f"no: Bearer {TOKEN}")

        tls = comity.TLS(ca=CA, cert=CLIENT_CERT, key=ENCRYPTED_KEY, passphrase=PASSPHRASE)
        plain = {"headers": HEADERS, "retry": TWICE, "on_event": shown.event, "follow_redirects": True, "cookies": True}
        ways = {
            "plain": plain,
            "tls": {**plain, "tls": tls},
            "source": {**plain, "headers": None, "auth": comity.TokenSource(fetch)},
            "no token": {**plain, "headers": None, "auth": comity.TokenSource(refused)},
            "basic": {**plain, "headers": None, "auth": PASSWORDS["auth"]},
            "refused by a proxy": {**plain, "proxy": proxy.url_for(PROXY_USER)},
            "through a proxy": {**plain, "proxy": tunnelling.url_for(PROXY_USER), "tls": tls},
        }
        for name, options in ways.items():
            user = "" if "auth" in options else f"{USER}@"
            async with comity.AsyncClient(**options) as api:
                with api.har(folder / f"{name}.har"):
                    await shown.call(api.get(at(working), expose_cookies=True))
                    await shown.call(api.post(at(shaky), json=JSON, idempotent=True))
                    await shown.call(api.post(at(refusing), data=FORM))
                    await shown.call(api.post(at(refusing), data=FORM, files=FILES, raise_for="never"))
                    await shown.call(api.get(at(refusing), into=list[int]))
                    await shown.call(api.get(at(working), into=list[int]))
                    await shown.call(api.get(at(leading)))
                    await shown.call(api.get(at(leading), max_redirects=0))
                    await shown.call(api.get(at(breaking)))
                    await shown.call(api.get(at(babbling)))
                    await shown.call(api.get(at(trusted)))
                    await shown.call(api.put(at(hanging), json=JSON, timeout=0.05))
                    await shown.call(cancelled(api, at(hanging), shown))
                    await shown.call(streamed(api, at(working)))
                    await shown.call(api.download(at(working), folder / "file"))
                    await shown.call(api.download(at(breaking), folder / "broken"))
                    await shown.call(api.post(at(working), headers={"X-Api-Key": "key-wrong\n"}))
                    await shown.call(api.post(at(working), json={"a": object(), **JSON}))
                    await shown.call(api.post(at(working), data={"password": {"pw-wrong"}, "b": object()}))
                    shown.everything()
                    shown.texts["repr"].update([repr(api.stats()), repr(api), repr(options["on_event"])])
        with comity.Client(**plain) as blocking:
            for each in (working, shaky, refusing, breaking, leading):
                await shown.call(asyncio.to_thread(blocking.get, at(each)))


async def cancelled(api: comity.AsyncClient, url: str, shown: Shown) -> None:
    """Cancel a call that is on the wire."""
    task = asyncio.create_task(api.post(url, json=JSON))
    while not api.stats().running and not task.done():
        await asyncio.wait([task], timeout=0.01)
    shown.everything()
    task.cancel()
    await task


async def streamed(api: comity.AsyncClient, url: str) -> object:
    """Read an answer as a stream."""
    async with api.stream("GET", url) as response:
        await response.read()
        return response


async def of_wrong_values(shown: Shown) -> None:
    """Let options be refused."""
    wrong = (
        {"proxy": f"socks5://{PROXY_USER}@h"},
        {"proxy": f"http://{PROXY_USER}@h/path"},
        {"auth": "token-wrong"},
        {"auth": ("me:pw-wrong", "pw-wrong")},
        {"headers": {"X-Api-Key": "key-wrong\n"}},
        {"headers": {"Idempotency-Key": "key-wrong"}},
        {"base_url": f"http://{USER}@h:x/?{QUERY}"},
        {"contact": f"http://{USER}@h/"},
        {"hosts": {f"http://{USER}@h": {"rate": "1/s"}}},
        {"cookies": "cookie-in-header"},
        {"tls": "key-wrong"},
        {"password": "pw-wrong"},
        {"rate": f"http://{USER}@h"},
    )
    for options in wrong:
        try:
            comity.AsyncClient(**options)
        except comity.ComityError as error:
            shown.error(error)
        else:
            raise AssertionError(options.keys())
    makers = (
        lambda: comity.Bearer(f"{BAD_TOKEN} \n"),
        lambda: comity.TokenSource(BAD_TOKEN),
        lambda: comity.TLS(key=BAD_KEY),
        lambda: comity.TLS(cert=CLIENT_CERT, key=ENCRYPTED_KEY, passphrase=BAD_PASSPHRASE),
        lambda: comity.TLS(cert=CLIENT_CERT, key=ENCRYPTED_KEY),
        lambda: comity.Request("GET", f"ftp://{USER}@h/?{QUERY}"),
        lambda: comity.Request("GET", f"http://{USER}@h\n/?{QUERY}"),
        lambda: comity.Request("GET", "http://h/", idempotency_key=f"{BAD_KEY}\n"),
    )
    for make in makers:
        with pytest.raises(comity.ComityError) as caught:
            make()
        shown.error(caught.value)


def hits(texts: set[str]) -> Iterator[str]:
    """Yield each secret that is shown, with what stands around it."""
    for text in texts:
        for secret in SECRETS:
            at = text.find(secret)
            if at >= 0:
                yield f"{secret}: {text[max(0, at - 150) : at + 60]}"


def test_the_run_comes_to_every_end():
    ends = {
        "200", "403", "StatusError", "RedirectRefused", "BadResponse", "ConnectFailed", "TimedOut", "CancelledError", "ConnectionLost",
        "OptionsError", "InvalidRequest", "AuthFailed",
    }  # fmt: skip
    assert ends - whole_run().kinds == set()


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_shown(place):
    """SC-01, SC-03, SC-04, SC-05"""
    texts = whole_run().texts[place]
    assert texts or place == "warning"
    assert sorted(set(hits(texts))) == []
