"""AsyncClient: requests that wait for their turn, are tried again where that is safe, and tell what happened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, Self, Unpack

from comity import redact
from comity.client import blocks, typed
from comity.client.accept import AcceptGiven, rules as accept_rules
from comity.client.address import Url
from comity.client.aiohttp_transport import chosen
from comity.client.auth import Auth, Signer, auth_of
from comity.client.base import Base
from comity.client.cookies import Cookies, jar_of
from comity.client.dispatcher import Dispatcher
from comity.client.har import Har
from comity.client.headers import HeaderInput
from comity.client.options import (
    RAISE_FOR,
    UNSET,
    AuthGiven,
    PolicyOptions,
    RaiseFor,
    RequestOptions,
    Unset,
    client_policy,
)
from comity.client.pauses import Pauses
from comity.client.presets import ViewOptions, presets
from comity.client.redirects import MAX_REDIRECTS, Redirects, follow
from comity.client.request import Request
from comity.client.response import Response
from comity.client.result import result
from comity.client.series import Series
from comity.client.standing import Standing
from comity.client.streamed import Body, StreamedResponse
from comity.client.terms import Terms
from comity.client.tls import TLS
from comity.client.transport import Transport, check_extensions, opening
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call
from comity.engine.clock import MONOTONIC, Clock
from comity.engine.hosts import Hosts
from comity.engine.mapping import reach
from comity.engine.memory import Memory
from comity.engine.observer import Observe
from comity.engine.stats import Stats
from comity.errors import OptionsError
from comity.policy.host_rules import PolicyGiven
from comity.policy.naming import check_choice, check_names
from comity.policy.options import Policy
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from comity.policy.units import Size, as_ns, duration, priority as checked_priority

_PARTS = frozenset(Request.__init__.__kwdefaults__ or ()) - {"defaults"}
"""The options of a request that say what is sent; the others say how."""


class AsyncClient(Series):
    """A polite HTTP client for asyncio.

    Every request waits until the limits of its host allow it, is sent, and is sent again where that is safe and useful;
    the answer, or the error, carries every attempt with the time of each phase.

    Args:
        base_url: where relative URLs go; its path is kept.
        policy: the rules as one value; keywords override its parts.
        hosts: other rules, a `Policy` or a mapping of the options that differ, for some hosts ("example.com", which covers
            its subdomains) or groups of their requests ("POST example.com/v1/*", "example.com json:model=small-*").
        max_connections: requests in flight over all hosts; None for no bound.
        headers: added to every request. With a `base_url`, those that are secrets go to its origin alone.
        contact: a mail address or URL for the User-Agent, where a server's operator can reach you.
        auth: who asks: (user, password), a `Bearer`, a `TokenSource`, or a function of the request that returns headers and
            is called when its turn has come. With a `base_url` it goes to its origin alone.
        tls: whom this client trusts and as whom it comes; None trusts what the system trusts.
        proxy: URL of an http or https proxy, "http://user:password@proxy.example:3128": every connection of this client is
            tunnelled through it. Proxies of the environment are not used.
        cookies: True for a jar that is filled from answers and used for requests, or a `Cookies` of one's own; a request
            with a Cookie header gets no others.
        raise_for: which answers are raised as StatusError: "error" (from 400 on), "non_2xx" or "never".
        follow_redirects: whether answers that lead on are followed; each hop is a call of its own, under its own host's
            limits, and what is secret stays with the origin that it was meant for.
        max_redirects: how many are followed in a row.
        accept: rules for answers whose status does not say what they are, such as a 200 that holds an error; see `Accept`.
        on_event: called with every `Event`.
        max_body: most bytes of an answer's body, decoded, or text such as "64 MB"; a larger one is a BadResponse. 100 MB by
            default, None for no bound. What is streamed or downloaded has none.
        transport: what sends; it is closed with the client. An `AiohttpTransport` by default, with `tls`, `proxy` and
            `max_body`, which belong to it.
        memory: a file that is read now and written when the client is closed: what is taken of each rate, pauses, blocks
            and what else the hosts taught, so that the next process neither exceeds a limit nor learns it anew.
        clock: what time it is; for tests.
        options: the options of `Policy`: rate, concurrency, min_gap, retry, timeout, deadline and so on.

    Raises:
        OptionsError: a value cannot be used, or there is no such option; the message names the nearest.

    Example:
        async with AsyncClient("https://api.example", rate="100/min", concurrency=5) as api:
            users = (await api.get("/users", params={"page": 1})).data
    """

    def __init__(
        self,
        base_url: str = "",
        *,
        policy: Policy | None = None,
        hosts: Mapping[str, PolicyGiven] | None = None,
        max_connections: int | None = 500,
        headers: HeaderInput | None = None,
        contact: str | None = None,
        auth: AuthGiven | None = None,
        tls: TLS | None = None,
        proxy: str | None = None,
        cookies: bool | Cookies = False,
        raise_for: RaiseFor = "error",
        follow_redirects: bool = False,
        max_redirects: int = MAX_REDIRECTS,
        accept: AcceptGiven = None,
        on_event: Observe | None = None,
        max_body: Size | Unset | None = UNSET,
        transport: Transport | None = None,
        memory: str | PathLike[str] | None = None,
        clock: Clock = MONOTONIC,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_choice(raise_for, "raise_for", RAISE_FOR)
        self._base = Base(base_url, headers, contact)
        self._auth, self._cookies = auth_of(auth), jar_of(cookies)
        _check_auth(self._auth, self._base)
        rules = client_policy(policy, options, _OWN)
        self._hosts = Hosts(
            rules,
            hosts,
            max_connections=max_connections,
            clock=clock,
            observe=on_event,
            memory=None if memory is None else Memory(memory),
        )
        self._ahead = reach(self._hosts.rules.policies)
        self._engine = AsyncEngine(self._hosts)
        self._pauses = Pauses()
        self._raise_for = raise_for
        self._accept = accept_rules(accept)
        self._redirects = Redirects(follow=follow_redirects, most=max_redirects)
        wire = chosen(transport, tls, proxy, max_body)
        hedged = any(each.hedge is not None for each in self._hosts.rules.policies)
        self._dispatcher = Dispatcher(wire, self._cookies, clock, hedged=hedged)
        self._presets: Mapping[str, Any] = {}

    def with_options(self, **options: Unpack[ViewOptions]) -> Self:
        """Return a view of this client: the same connections, limits and statistics, with other defaults.

        A request's own options still win. Closing the view closes the client.

        Args:
            options: headers, over the client's (None leaves one out), auth as of the client (None for none), and priority,
                timeout, deadline, retry, raise_for and accept as for `request`.

        Raises:
            OptionsError: a value cannot be used, or there is no such option.

        Example:
            background = api.with_options(priority=9, deadline=None, retry=5)
        """
        changes: dict[str, Any] = {"_presets": {**self._presets, **presets(options)}}
        if "headers" in options:
            changes["_base"] = self._base.with_headers(options["headers"])
        if "auth" in options:
            changes["_auth"] = auth_of(options["auth"])
            _check_auth(changes["_auth"], changes.get("_base", self._base))
        if "raise_for" in options:
            check_choice(options["raise_for"], "raise_for", RAISE_FOR)
            changes["_raise_for"] = options["raise_for"]
        if "accept" in options:
            changes["_accept"] = accept_rules(options["accept"])
        view = copy(self)
        vars(view).update(changes)
        return view

    def har(self, path: str | PathLike[str], *, bodies: bool = False, append: bool = False) -> Har:
        """Return a context manager that records every wire attempt in a HAR 1.2 file, which browsers' devtools open.

        Args:
            path: where; a HAR file there is replaced, anything else is left alone.
            bodies: whether text bodies are written too, each up to 64 Ki characters. They may hold secrets.
            append: go on behind the entries of a recording that is there, instead of replacing it.

        Raises:
            OptionsError: the path cannot be used; raised when it is opened.
            StoreError: entries could not be written; raised when it is closed.
        """
        return Har(path, bodies=bodies, append=append, owner=self._dispatcher.hars)

    @asynccontextmanager
    async def stream(
        self, method: str, url: Url, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[StreamedResponse, None]:
        """Send a request and hand out its answer when the head is there; the body is read in the block.

        Retries, redirects and errors by `raise_for` come before the block begins, as for `request`. Once it runs nothing is
        sent again, and a body that breaks is raised where it is read. The host's slot is held until the body was read to
        its end or the block is left; leaving early closes the connection. `aclose` waits for open blocks, but ends the stream of one that it is called in.

        Args:
            method: as for `request`.
            url: as for `request`.
            options: as for `request`, but `accept`, whose rules need whole answers, has to be None.

        Raises:
            OptionsError: there are rules of `accept`, or the transport cannot stream.
            ComityError: all of `request`; BadResponse and TimedOut also where the body is read.
        """
        body = await self._streamed(method, url, options)
        blocks.enter(body, self._dispatcher, self._where)
        try:
            yield StreamedResponse(body)
        except GeneratorExit:  # forgotten: this may be a destructor
            body.drop()
            raise
        finally:
            await body.close()

    def stats(self) -> Stats:
        """Return how many requests wait and run, and the state of every host."""
        return self._engine.stats()

    def remember(self) -> None:
        """Write the `memory`, if there is one, as closing does: for long runs, that a kill loses little.

        Raises:
            StoreError: it cannot be written.
        """
        self._hosts.remember()

    async def aclose(self) -> None:
        """Refuse what waits or comes, let what is on the wire finish, then close the connections.

        It may be called again, also while it is under way. A stream whose block its own task stands in can only be left
        afterwards: it is ended, and reading on in it is a RuntimeError.

        Raises:
            StoreError: the `memory` cannot be written; everything is closed nevertheless.
        """
        self._engine.close()
        self._pauses.close()
        await blocks.end_own(self._dispatcher, self._where())
        await self._dispatcher.aclose()
        self._hosts.remember()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AsyncClient {redact.url(self._base.url)!r}>"

    def _where(self) -> object:
        return blocks.task()

    async def _sleep(self, seconds: float) -> None:
        await self._pauses.wait(seconds)

    @property
    def _clock(self) -> Clock:
        return self._engine.clock

    def _rules_for(self, url: Url) -> tuple[str, Policy, Mapping[str, Any]]:
        whole = self._base.absolute(url)
        return whole, self._policy_of(Request("GET", whole)), self._presets

    def _policy_of(self, request: Request) -> Policy:
        return self._hosts.rules.match(request.address.origin.key, request).policy

    def _ask(self, method: str, url: Url, options: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        if self._presets:
            options = {**self._presets, **options}
        return self._request(method, url, None, **options)

    async def _request(
        self,
        method: str,
        url: Url,
        standing: Standing | None,
        /,
        *,
        into: Any = None,
        priority: int = 5,
        cost: int | Mapping[str, int] = 1,
        timeout: Any = UNSET,  # noqa: ASYNC109 - it is the attempt's, not this coroutine's
        deadline: Any = UNSET,
        retry: Any = UNSET,
        raise_for: RaiseFor | None = None,
        auth: Any = UNSET,
        follow_redirects: bool | None = None,
        max_redirects: int | None = None,
        accept: Any = UNSET,
        **parts: Any,
    ) -> Any:
        if parts and not parts.keys() <= _PARTS:
            check_names("request", parts, ("into", *RequestOptions.__annotations__))
        if into is not None:
            typed.check_type(into)
        if raise_for is not None:
            check_choice(raise_for, "raise_for", RAISE_FOR)
        whole, defaults = self._base.place(url)
        request = Request(method, whole, defaults=defaults, **parts)
        if request.extensions:
            check_extensions(self._dispatcher.wire, request)
        policy = self._policy_of(request)
        limit, within = policy.deadline, policy.deadline_ns
        if deadline is not UNSET:
            limit = duration(deadline, "deadline", minimum=0.001)
            within = as_ns(limit)
        terms = Terms(
            priority=5 if priority == 5 else checked_priority(priority),
            cost=cost,
            timeout=timeout if timeout is UNSET else Timeout.of(timeout),
            retry=retry if retry is UNSET else Retry.of(retry),
            limit=limit,
            deadline=None if within is None else self._engine.clock.now() + within,
            raise_for=raise_for or self._raise_for if into is None else "non_2xx",
            redirects=self._redirects.but(follow_redirects, max_redirects),
            auth=self._auth_for(request) if auth is UNSET else auth_of(auth),
            accept=self._accept if accept is UNSET else accept_rules(accept),
            standing=standing,
        )
        if standing is not None and terms.accept:
            raise OptionsError("accept", None, reason="its rules need whole answers; with stream, say accept=None")
        response = await self._hop(terms, request)
        if terms.redirects.lead_on(response):
            response = await self._follow(terms, response)
        return response if into is None else typed.decode(response, into)

    async def _follow(self, terms: Terms, response: Response) -> Response:
        """Go on from an answer that leads on."""
        rules = self._policy_of(response.request).retry if terms.retry is UNSET else terms.retry
        jar, clock = self._cookies, self._engine.clock
        return await follow(
            response,
            terms.redirects,
            partial(self._hop, terms),
            clock,
            longest=rules.max_retry_after,
            deadline=terms.deadline,
            cookies=None if jar is None else lambda address: jar.header(address, clock.wall()),
            sleep=self._sleep,
        )

    def _auth_for(self, request: Request) -> Auth | None:
        """Return the client's auth for a request that brings none of its own, at the origin that it is for."""
        auth = self._auth
        if auth is None or "authorization" in request.headers or not self._base.at_home(request.address.origin):
            return None
        return auth

    async def _hop(self, terms: Terms, request: Request, at_home: bool = True) -> Response:
        """Make one call: the request as given, or one that an answer led to."""
        policy = self._policy_of(request)
        rules = policy.retry if terms.retry is UNSET else terms.retry
        limits = policy.timeout if terms.timeout is UNSET else terms.timeout
        call = Call(
            host=request.address.origin.key,
            retry=rules,
            request=request,
            priority=terms.priority,
            cost=terms.cost,
            idempotent=rules.repeatable(request) if request.idempotent is None else request.idempotent,
            keyed=request.keyed,
            deadline=terms.deadline,
            queue_timeout=policy.queue_timeout_ns,
        )
        standing, send = terms.standing, self._dispatcher.send
        run: Any = self._engine.run if standing is None else partial(standing.run, self._engine)
        if terms.auth is None or not at_home:
            settled = await run(call, partial(send, request, limits, terms, None))
        else:
            signer = Signer(terms.auth, request, self._engine.clock, terms.deadline, terms.limit)
            call.needs = signer.needs
            settled = await signer.run(partial(run, call, partial(send, request, limits, terms, signer)))
        if standing is not None and standing.held is not None:
            standing.before = settled.attempts
            return standing.held.opened.head
        leads_on = terms.redirects.lead_on(settled.value)
        return result(request, settled, "never" if leads_on else terms.raise_for, self._engine.clock, terms.limit)

    async def _streamed(self, method: str, url: Url, options: Mapping[str, Any]) -> Body:
        """Send a request up to the head of its answer."""
        opening(self._dispatcher.wire)
        if "into" in options:
            raise OptionsError("into", None, reason="it needs the whole answer; ask without stream")
        standing = Standing(self._dispatcher.over)
        head: Response = await self._request(method, url, standing, **{**self._presets, **options})
        return standing.body(head, self._engine.clock)


def _check_auth(auth: Auth | None, base: Base) -> None:
    if auth is not None and base.has("authorization"):
        raise OptionsError("auth", redact.MASK, reason="headers hold an Authorization already")


# Down here, because the class has to be there for its signature to be read.
_OWN = ("base_url", *(AsyncClient.__init__.__kwdefaults__ or ()))
