"""Course: the way of one request of httpx through the engine; the same for loops and threads, which only drive it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comity.client import media
from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.held import Held
from comity.engine.hosts import Hosts
from comity.errors import RequestError
from comity.integrations.family import Family
from comity.integrations.limits import Limits
from comity.integrations.progress import Progress
from comity.integrations.stacked import Asked, Stacked
from comity.policy.attempt import Attempt
from comity.policy.json_path import JsonPath
from comity.policy.naming import check_names, unusable
from comity.policy.outcome import Outcome, asks_again
from comity.policy.units import as_ns, duration, flag, priority

_WISHES = ("priority", "cost", "idempotent", "deadline")


class Account:
    """What became of a request; it stands in the answer as `response.extensions["comity"]`.

    Attributes:
        attempts: every wire attempt, in order; they are there when the body was read or closed.
    """

    __slots__ = ("attempts",)

    def __init__(self) -> None:
        self.attempts: tuple[Attempt, ...] = ()

    def __repr__(self) -> str:
        return f"<Account of {len(self.attempts)} attempts>"


class Course:
    """One request's way.

    Args:
        family: whose request it is.
        hosts: whose limits hold.
        stacked: is told what fails.
        request: httpx's; its body has been read if it is to be sent again.

    Attributes:
        request, family, account: likewise.
        failure: what the last send raised.
        call: what the engine has to know.

    Raises:
        OptionsError: what the request wishes (`extensions={"comity": {...}}`) cannot be.
    """

    def __init__(self, family: Family, hosts: Hosts, stacked: Stacked, request: Any) -> None:
        self.family, self.request = family, request
        self.account = Account()
        self.failure: Exception | None = None
        self._stacked, self._clock = stacked, hosts.clock
        self._content: bytes | None = family.content(request)
        self._asked = Asked.of(request.method, str(request.url), self._content)
        stacked.check(self._asked)
        host = request.url.netloc.decode("ascii")
        self.policy = policy = hosts.rules.match(host, self).policy
        wish = _wishes(request.extensions.get("comity"))
        within = policy.deadline_ns if wish.get("deadline") is None else as_ns(wish["deadline"])
        repeatable = wish.get("idempotent")
        self.call = Call(
            host=host,
            retry=policy.retry,
            request=self,
            priority=wish.get("priority", 5),
            cost=wish.get("cost", 1),
            idempotent=policy.retry.repeatable(request) if repeatable is None else repeatable,
            keyed="idempotency-key" in request.headers,
            replayable=self._content is not None,
            deadline=None if within is None else hosts.clock.now() + within,
            queue_timeout=policy.queue_timeout_ns,
        )

    # What a key of `hosts` asks a request for.

    @property
    def method(self) -> str:
        """The method."""
        return str(self.request.method)

    @property
    def path(self) -> str:
        """The path as it is sent, without the query."""
        return str(self.request.url.raw_path.partition(b"?")[0].decode("ascii"))

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body, MISSING when nothing does or the body is a stream."""
        return media.json_field(self._content, path)

    # What it comes to.

    def refused(self, error: RequestError) -> Exception:
        """Return what to raise when its turn did not come."""
        error.request = self.request
        self._stacked.gave_up(self._asked, len(error.attempts))
        return self.family.refusal(error)

    def failed(self, settled: Settled[Any]) -> tuple[Exception, RequestError]:
        """Return what to raise when no answer came, and its cause."""
        assert self.failure is not None
        assert settled.error is not None
        settled.error.attempts = self.account.attempts = settled.attempts
        self._stacked.gave_up(self._asked, len(settled.attempts))
        return self.failure, settled.error

    def over(self, held: Held[Any], exchange: Exchange[Any]) -> None:
        """Say what the attempt came to whose answer was handed out."""
        settled = held.over(exchange)
        self.account.attempts = settled.attempts
        if settled.error is not None:
            settled.error.attempts = settled.attempts

    def answer(self, answer: Any, body: Any, slot: Slot) -> Any:
        """Return the answer to hand out.

        One that asks for another try, though it was tried again here or names a time too far away to wait for, says to
        whoever calls that it is the last word.
        """
        status, headers = answer.status_code, answer.headers
        if asks_again(status):
            self._stacked.gave_up(self._asked, slot.number)
            longest, asked = self.policy.retry.max_retry_after_ns, slot.retry_after
            if slot.number > 1 or (longest is not None and asked is not None and asked > longest):
                headers = self.family.library.Headers(headers)
                headers["x-should-retry"] = "false"
        extensions = {**answer.extensions, "comity": self.account}
        return self.family.library.Response(status, headers=headers, stream=body, extensions=extensions)


class Sending:
    """One send.

    Args:
        course: the request's.
        slot: the right to send once.

    Attributes:
        progress, limits: of the send.
    """

    def __init__(self, course: Course, slot: Slot) -> None:
        slot.streamed = True
        self.progress = Progress(slot)
        self.limits = Limits(course.request.extensions.get("timeout") or {}, course.policy.timeout, slot)
        self._course, self._slot = course, slot
        self._status: int | None = None

    def request(self, trace: Any) -> Any:
        """Return the request for the wire: the same, but with these limits, and the wire tells how far it is."""
        given = self._course.request
        extensions = {**given.extensions, "timeout": self.limits.phases, "trace": trace}
        return self._course.family.library.Request(
            given.method, given.url, headers=given.headers, stream=given.stream, extensions=extensions
        )

    def began(self, answer: Any) -> None:
        """Note that the head of an answer is there; `slot.again` tells then whether it is to be handed out."""
        self._status = answer.status_code
        self.progress.answered()
        self.limits.reading()
        self._slot.hear(answer.status_code, answer.headers.multi_items())

    def failed(self, error: Exception) -> Exchange[Any]:
        """Return what the send came to that raised `error`."""
        self._course.failure = error
        return self._course.family.failure(error, self._course.request, self.limits, self.progress, self._status)

    def overdue(self) -> Exception:
        """Return the error of a send whose time is up."""
        return self._course.family.overdue(self.limits, self.progress)

    def ended(self) -> Exchange[Any]:
        """Return what the send came to: an answer."""
        return Exchange(
            outcome=Outcome(status=self._status), value=self._course.account, timings=self.progress.time.stop()
        )


def _wishes(given: object) -> dict[str, Any]:
    """Return what a request says of its own, checked."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise unusable("extensions['comity']", given, 'a mapping such as {"priority": 0}')
    check_names("extensions['comity']", given, _WISHES)
    wishes = {name: value for name, value in given.items() if value is not None}
    if "priority" in wishes:
        priority(wishes["priority"])
    if "idempotent" in wishes:
        flag(wishes["idempotent"], "idempotent")
    if "deadline" in wishes:
        wishes["deadline"] = duration(wishes["deadline"], "deadline", minimum=0.001)
    return wishes
