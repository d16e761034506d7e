"""Capture: an attempt whose answer is read to its end and kept up to a cap, so that no answer fills memory or disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from comity import redact
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport, opening
from comity.engine.call import Exchange, Slot
from comity.policy.timeouts import Timeout
from comity.store.records import Answer

KEPT = 256 * 1024
"""So many bytes of a body are kept unless said otherwise."""

MOST = 64 * 1024 * 1024
"""So many bytes of a body are read; behind them it is cut off, and size and digest are of what was read."""


async def capture(
    transport: Transport,
    request: Request,
    limits: Timeout,
    slot: Slot,
    *,
    keep: int = KEPT,
    most: int = MOST,
    hidden: Callable[[str], bool] = redact.is_secret,
) -> tuple[Exchange[Response], Answer | None]:
    """Make one wire attempt.

    Args:
        transport: one that can hand out answers while they come.
        request: what to send.
        limits: how long it may take.
        slot: the right to send, see `Transport.send`.
        keep: bytes of the body, decoded, that are kept.
        most: bytes that are read.
        hidden: names the headers whose values are masked in what is kept; nobody is ever shown them.

    Returns:
        What it came to, the response without its body; and the answer, None when there was no head.
    """
    opened = await opening(transport).open(request, limits, slot)
    if isinstance(opened, Exchange):
        return opened, None if opened.value is None else _answer(opened.value, hidden)
    head = opened.head
    if head.status_code == 200:
        slot.listen(200, head.headers.pairs)
    body, digest, size = bytearray(), hashlib.sha256(), 0
    try:
        while size < most and (piece := await opened.chunk()):
            digest.update(piece)
            size += len(piece)
            if len(body) < keep:
                body += piece[: keep - len(body)]
    finally:
        exchange = opened.exchange or await opened.abort()
    if exchange.value is not None:
        head = exchange.value
    cut = size > len(body) or size >= most
    answer = _answer(head, hidden, body=bytes(body), truncated=cut, size=size, sha256=digest.digest())
    return exchange, answer


def _answer(
    head: Response,
    hidden: Callable[[str], bool],
    *,
    body: bytes = b"",
    truncated: bool = False,
    size: int = 0,
    sha256: bytes = b"",
) -> Answer:
    shown = [(name, redact.MASK if hidden(name) else value) for name, value in head.headers.multi_items()]
    headers = msgspec.json.encode(shown)
    return Answer(status=head.status_code, headers=headers, body=body, truncated=truncated, size=size, sha256=sha256)
