"""Paths that keep nothing in mind: each answer follows from its request alone."""

from __future__ import annotations

import base64

from comity.testing.upstream.answers import Answer, answer, json, ok, text
from comity.testing.upstream.exchange import BadParam, Exchange, whole

MAX_BODY = 64 * 1024 * 1024
"""Bytes that `/ok?bytes=` pads to at most, and that `/echo` returns at most."""

_REDIRECTS = (301, 302, 303, 307, 308)


def ok_path(exchange: Exchange) -> Answer:
    """`/ok/{id}`: the id as JSON, padded to `?bytes=`."""
    body = b'{"id":"%b"}' % exchange.rest.encode() if exchange.rest.isalnum() else _id(exchange.key)
    if exchange.params:
        size = exchange.params.whole("bytes", 0, high=MAX_BODY)
        missing = size - len(body)
        if missing > 0:
            frame = len(b',"pad":""')
            body = body[:-1] + b',"pad":"%b"}' % (b"." * max(0, missing - frame))
    return ok(body)


def status_path(exchange: Exchange) -> Answer:
    """`/status/{code}`: that status, with `?retry_after=`, `?header=Name:value`, `?type=` and `?body=` as given."""
    code = whole("code", exchange.rest, 200, low=200, high=599)
    headers = hints(exchange)
    for field in exchange.params.all("header"):
        name, _, value = field.partition(":")
        headers.append((name.strip(), value.strip()))
    body = exchange.params.get("body")
    kind = exchange.params.get("type")
    if body is None and kind is None:
        return json(code, {"status": code}, headers)
    return answer(code, kind or "text/plain; charset=utf-8", (body or "").encode(), headers)


def delay_path(exchange: Exchange) -> Answer:
    """`/delay/{ms}`: 200 after that many ms."""
    ms = whole("ms", exchange.rest, 0, low=0, high=1_000_000_000)
    delayed = json(200, {"delay_ms": ms})
    delayed.delay = ms * 1_000_000
    return delayed


def echo_path(exchange: Exchange) -> Answer:
    """`/echo`: the request as JSON; method and target byte for byte, header fields in their order."""
    body = exchange.body
    try:
        decoded: str | None = body.decode()
    except UnicodeDecodeError:
        decoded = None
    shown = {
        "method": exchange.head.method,
        "target": exchange.head.target,
        "headers": exchange.head.pairs(),
        "body": {"base64": base64.b64encode(body).decode("ascii"), "text": decoded},
    }
    return json(200, shown)


def redirect_path(exchange: Exchange) -> Answer:
    """`/redirect`: `?n=1` hops by `?code=302`, then to `?to=/ok/redirected`."""
    params = exchange.params
    code = params.whole("code", 302)
    if code not in _REDIRECTS:
        raise BadParam("code", str(code), "one of 301, 302, 303, 307, 308")
    hops = params.whole("n", 1, low=1, high=1000)
    to = params.get("to") or "/ok/redirected"
    if hops > 1:
        query = exchange.head.target.partition("?")[2].split("&")
        kept = [part for part in query if part and not part.startswith("n=")]
        to = "/redirect?" + "&".join([f"n={hops - 1}", *kept])
    return text(code, f"see {to}\n", [("Location", to)])


def set_cookie_path(exchange: Exchange) -> Answer:
    """`/set-cookie`: `?cookie=` fields as given, by default a secret session and a theme."""
    cookies = exchange.params.all("cookie") or ("session=s3cret; Path=/; HttpOnly", "theme=dark; Path=/")
    return json(200, {"cookies": len(cookies)}, [("Set-Cookie", cookie) for cookie in cookies])


def hints(exchange: Exchange) -> list[tuple[str, str]]:
    """Return the `?retry_after=` of a request as a header field, sent as given, even when that is no valid value."""
    value = exchange.params.get("retry_after")
    return [] if value is None else [("Retry-After", value)]


def _id(key: str) -> bytes:
    return json(200, {"id": key}).body
