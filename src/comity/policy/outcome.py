"""Outcome: what one attempt came to, as far as a decision needs to know it."""

from __future__ import annotations

from typing import Literal

import msgspec

from comity.errors import Sent

Failure = Literal["connect", "timeout", "lost", "truncated", "bad", "blocked", "deadline", "cancelled"]
"""Why no (whole) answer came.

connect: no connection.  timeout: a limit of the attempt ran out.  lost: the connection ended before the answer began.
truncated: it ended within the answer.  bad: the answer is no HTTP or cannot be decoded.  blocked: a guard let nobody connect.
deadline: the caller's own limit ran out.  cancelled: the caller gave up.
"""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt's end: a status, or a failure, never both.

    A status that asks for another try counts from its head on, whatever becomes of the body: the attempt's error tells that.

    Args:
        status: the answer's status code, None when there was no whole answer (but see above).
        failure: why there was none.
        sent: whether bytes of the request were handed to the socket ("maybe": their fate is unknown).
        retry_after: the wait that the answer asked for, ns from the answer's arrival, None when it named none.
        counts_as: the status that the answer amounts to by the caller's own rules; None leaves it `status`.
    """

    status: int | None = None
    failure: Failure | None = None
    sent: Sent = "yes"
    retry_after: int | None = None
    counts_as: int | None = None

    @property
    def meaning(self) -> int | None:
        """The status that decides."""
        return self.status if self.counts_as is None else self.counts_as

    @property
    def ok(self) -> bool:
        """Whether this is an answer below 400."""
        status = self.status if self.counts_as is None else self.counts_as
        return status is not None and status < 400

    @property
    def refused(self) -> bool:
        """Whether the server refused by rate (429)."""
        return (self.status if self.counts_as is None else self.counts_as) == 429


def asks_again(status: int) -> bool:
    """Return whether a status says that the same request may succeed later: 408, 425, 429 and 5xx."""
    return status >= 500 or status in _AGAIN


_AGAIN = frozenset({408, 425, 429})
