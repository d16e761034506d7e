"""Terms: how one call is to be made, whatever it sends and wherever redirects lead it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from comity.client.accept import Accept
from comity.client.auth import Auth
from comity.client.options import RaiseFor, Unset
from comity.client.redirects import Redirects
from comity.client.response import Response
from comity.client.result import named
from comity.client.standing import Standing
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout


class Terms(msgspec.Struct, kw_only=True, eq=False):
    """What a call says of how it is made; all of it is checked.

    Args:
        priority, cost: its place in the queue, and what it takes there.
        timeout, retry: instead of the host's, or UNSET.
        limit: seconds that everything may take.
        deadline: ns, monotonic, when that ends.
        raise_for: which answers are errors.
        redirects: how far answers are followed.
        auth: who asks, at the origin of the first request.
        accept: rules for what answers count as.
        standing: where the call stands when its answer is handed out before its body has come; None when it is not.
    """

    priority: int
    cost: int | Mapping[str, int]
    timeout: Timeout | Unset
    retry: Retry | Unset
    limit: float | None
    deadline: int | None
    raise_for: RaiseFor
    redirects: Redirects
    auth: Auth | None
    accept: tuple[Accept, ...]
    standing: Standing | None = None

    def reads_whole(self, head: Response, *, signed: bool) -> bool:
        """Return whether a streamed answer is read whole rather than handed out: an error, one that leads on, a stale token."""
        if self.redirects.lead_on(head) or named(head.status_code, self.raise_for):
            return True
        return signed and head.status_code == 401
