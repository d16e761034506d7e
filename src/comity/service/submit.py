"""Submission: a request to be delivered, as somebody hands it in, and what is stored of it.

The fields, their bounds and what is said about them stand once, in `Submission`; the API's own description is made of it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, replace

from comity.errors import ComityError, InvalidRequest, OptionsError, TargetBlocked
from comity.policy.dates import rfc3339
from comity.policy.units import required, seconds
from comity.service.fields import checked_fields
from comity.service.guard import Guard
from comity.service.policies import Policies, given_terms
from comity.service.schedule import times
from comity.service.signature import FIELDS as SIGNATURE
from comity.service.terms import Asked, BackoffMs, MaxRetries, Signed, Strict4xx, Terms, TimeoutMs, camel
from comity.service.vault import Vault
from comity.store.records import LATEST, Mode, NewDelivery
from comity.store.schedules import NewSchedule, Overlap

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_LONGEST_KEY = 255
_KEY = re.compile(r"[\x20-\x7e]+")
CALLBACK_KEY = "callback {}"
"""The key of the callback that an event asks for. Nobody else may use such a one: who came first would take the other's place."""
_TAKEN = re.compile(CALLBACK_KEY.format("[0-9]+"))
_OF_RUN = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
)
"""A key of the form that runs of schedules have (`run_of`): a receiver would take one delivery for the repetition of the other."""
_PATH = re.compile(r"\$(?:\.(\w+)|\[[^]]*\])+|field `(\w+)`")
_ESCAPE = re.compile(r'\\(["\\])')


class Refused(ComityError):
    """A submission cannot be stored; nothing was.

    Attributes:
        field: which field is wrong; None when the whole is no submission.
        malformed: it is no JSON.
        new: what would be stored but for the configuration; under its key it may have been accepted before that changed.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        malformed: bool = False,
        new: NewDelivery | NewSchedule | None = None,
    ) -> None:
        super().__init__(message)
        self.field, self.malformed, self.new = field, malformed, new


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel):
    """A request to be delivered: sent until it succeeds or its retries are used up."""

    url: Annotated[str, Meta(min_length=1, max_length=8192, description="Where to: an absolute http or https URL.")]
    method: Method
    headers: Annotated[dict[str, str], Meta(description="Header fields to send.")] = {}
    body: Annotated[str | None, Meta(description="What to send as the body, in UTF-8.")] = None
    policy: (
        Annotated[
            str,
            Meta(
                max_length=200, description="The name of a policy, which says the next five where they are not given."
            ),
        ]
        | None
    ) = None
    max_retries: MaxRetries | UnsetType = UNSET
    backoff_ms: BackoffMs | UnsetType = UNSET
    strict_4xx: Strict4xx | UnsetType = UNSET
    timeout_ms: TimeoutMs | UnsetType | None = UNSET
    signed: Signed | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=9, description="0 goes first.")] = 5
    run_at: Annotated[str | None, Meta(description="Not before this time, RFC 3339 with its offset.")] = None
    delay: Annotated[
        float | str | None, Meta(description='Not before so long from now: seconds, or text such as "90s".')
    ] = None
    cron: (
        Annotated[
            str, Meta(max_length=1000, description='Again and again: "minute hour day-of-month month day-of-week".')
        ]
        | None
    ) = None
    zone: (
        Annotated[str, Meta(max_length=100, description='Whose clock cron goes by, "Europe/Berlin"; UTC by default.')]
        | None
    ) = None
    overlap: Annotated[
        Overlap | None,
        Meta(description="With cron, what to do while the run before is alive: allow, the default, or skip."),
    ] = None
    deadline: Annotated[
        str | None,
        Meta(
            description="Not to be sent from this time on, RFC 3339 with its offset; with cron from so long after the time of "
            'each run on, such as "10m".'
        ),
    ] = None
    callback_url: Annotated[str | None, Meta(description="Gets a signed POST when the delivery has ended.")] = None
    delivery: Annotated[Mode, Meta(description="at_most_once: never sent again when it may have arrived.")] = (
        "at_least_once"
    )
    lane: Annotated[
        str | None, Meta(description="The queue it stands in, 1 to 200 visible ASCII signs; by default its origin's.")
    ] = None
    ordered: Annotated[
        bool,
        Meta(description="Its lane has to be an ordered one: made so with its first delivery; refused if it is not."),
    ] = False
    idempotency_key: Annotated[
        str | None, Meta(description="As the header Idempotency-Key, which a line of a batch cannot have.")
    ] = None


_DECODER = msgspec.json.Decoder(Submission)
_OPEN, _NONE = Vault(), Policies()


def read(text: bytes) -> Submission:
    """Read a submission from JSON.

    Raises:
        Refused: it is none; the error names the field.
    """
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError as error:
        raise Refused(str(error), field=field_of(str(error))) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Refused(f"this is no JSON: {error}", malformed=True) from None


def to_deliver(
    given: Submission,
    guard: Guard,
    key: str | None = None,
    *,
    policies: Policies = _NONE,
    vault: Vault = _OPEN,
    signs: bool = True,
) -> NewDelivery | NewSchedule:
    """Return what is to be stored of a submission.

    Nothing here depends on the time, so the same submission under the same key is the same whenever it comes.

    Args:
        given: the submission.
        guard: judges its URLs, as far as their text tells; the worker asks it again when it connects.
        key: the idempotency key that came beside it, already read.
        policies: those that it may ask for.
        vault: seals the secrets among its headers; by default they are stored as they came.
        signs: there is a secret to sign with; without one nothing may ask for it.

    Raises:
        Refused: a field cannot be used; the error names it.
    """
    own = idempotency_key(given.idempotency_key, "idempotencyKey")
    if key is not None and own not in {None, key}:
        raise Refused("idempotencyKey differs from the header Idempotency-Key", field="idempotencyKey")
    address = _judged(given.url, "url", guard)
    if given.callback_url is not None:
        _judged(given.callback_url, "callbackUrl", guard)
    aloud = given_terms(given)
    asked = Asked(**aloud, callback_url=given.callback_url, policy=given.policy)
    _check_times(given)
    body = None if given.body is None else given.body.encode()
    new = NewDelivery(
        origin=address,
        lane=_lane(given.lane),
        ordered=given.ordered,
        method=given.method,
        url=given.url,
        headers=_headers(given, body),
        body=body,
        # Beside a policy a default that is said aloud is another wish than none.
        options=asked.stored(() if given.policy is None else aloud),
        priority=given.priority,
        run_at=_instant(given.run_at, "runAt"),
        delay=0 if given.delay is None else _length(given.delay, "delay"),
        deadline=_instant(given.deadline, "deadline") if given.cron is None else None,
        mode=given.delivery,
        idempotency_key=key or own,
    )
    terms, missed = _terms(given, asked, policies, signs=signs)
    sealed = vault.seal(_settled(new, terms))
    stored = sealed if given.cron is None else _schedule(given, given.cron, sealed)
    if missed is not None:
        raise Refused(str(missed), field=missed.field, new=stored)
    return stored


def _terms(given: Submission, asked: Asked, policies: Policies, *, signs: bool) -> tuple[Terms, Refused | None]:
    """Return a delivery's own terms, then those of the policy that was asked for, then the defaults; and what they lack here."""
    preset, missed = {}, None
    try:
        preset = {} if given.policy is None else policies.fields(given.policy)
    except OptionsError as error:
        missed = Refused(str(error), field="policy")
    terms = Terms(**asdict(asked) | preset | given_terms(given))
    if terms.signed:
        _check_signed(given)
        if not signs:
            hint = "set callback_secrets (COMITY_CALLBACK_SECRETS), or leave signed out"
            missed = Refused(f"this service has no secret to sign deliveries with: {hint}", field="signed")
    return terms, missed


def _settled(new: NewDelivery, terms: Terms) -> NewDelivery:
    # The fingerprint is of what was given: the same submission stays the same when policy or defaults have changed since.
    fingerprints = (new.fingerprint,)
    return replace(new, options=terms.stored(), max_attempts=terms.max_retries + 1, fingerprints=fingerprints)


def _check_signed(given: Submission) -> None:
    for name in given.headers:
        if name.lower() in SIGNATURE:
            raise Refused(f"header {name} cannot be set beside signed, which sets it at each attempt", field="headers")


def idempotency_key(value: str | None, field: str = "Idempotency-Key") -> str | None:
    """Read an idempotency key: a quoted string (draft-ietf-httpapi-idempotency-key-header-07), or bare.

    Raises:
        Refused: it is empty, too long, holds other than visible ASCII, or is of a form that callbacks or runs have.

    Example:
        >>> idempotency_key('"8e03978e"'), idempotency_key("8e03978e")
        ('8e03978e', '8e03978e')
    """
    if value is None:
        return None
    key = value.strip()
    if key.startswith('"'):
        inner = key[1:-1]
        if len(key) < 2 or not key.endswith('"') or '"' in inner.replace('\\"', ""):
            raise Refused(f"{field} is a quoted string that does not end where it should", field=field)
        key = _ESCAPE.sub(r"\1", inner)
    if not _KEY.fullmatch(key) or len(key) > _LONGEST_KEY:
        raise Refused(f"{field} has to be 1 to {_LONGEST_KEY} ASCII characters", field=field)
    if _TAKEN.fullmatch(key):
        told = f'{field} is of the form "{CALLBACK_KEY.format("N")}", which the service uses itself; take another'
        raise Refused(told, field=field)
    if _OF_RUN.fullmatch(key):
        told = f"{field} is of the form ID/TIME, which runs of schedules have; take another"
        raise Refused(told, field=field)
    return key


def _judged(url: str, field: str, guard: Guard) -> str:
    """Return a URL's origin."""
    try:
        origin = guard.check(url).origin.text
    except (InvalidRequest, TargetBlocked) as error:
        raise Refused(str(error), field=field) from None
    if "#" in url:
        raise Refused(f"{field} has a fragment, what begins with #, and that is never sent: leave it out", field=field)
    return origin


def _headers(given: Submission, body: bytes | None) -> bytes:
    try:
        return msgspec.json.encode(checked_fields(given.url, given.headers, body))
    except InvalidRequest as error:
        raise Refused(str(error), field="headers") from None


def _lane(given: str | None) -> str | None:
    if given is not None and not (
        1 <= len(given) <= 200 and given.isascii() and given.isprintable() and " " not in given
    ):
        raise Refused("lane has to be 1 to 200 visible ASCII characters", field="lane")
    return given


def _check_times(given: Submission) -> None:
    """Make sure that a submission says in one way when it is due.

    Raises:
        Refused: it does not.
    """
    said = [name for name in ("run_at", "delay", "cron") if getattr(given, name) is not None]
    if len(said) > 1:
        raise Refused(f"{camel(said[0])} is given too, and one says it all", field=camel(said[1]))
    for name in ("zone", "overlap"):
        if getattr(given, name) is not None and given.cron is None:
            raise Refused(f"{name} belongs to cron, which is not given", field=name)


def _schedule(given: Submission, cron: str, run: NewDelivery) -> NewSchedule:
    zone = "UTC" if given.zone is None else given.zone
    try:
        times(cron, zone)
    except OptionsError as error:
        raise Refused(str(error), field=error.option) from None
    if given.deadline is None:
        within = None
    elif rfc3339(given.deadline.strip()) is None:
        within = _length(given.deadline, "deadline", minimum=1.0)
    else:
        told = (
            'is a moment, and a schedule has many: with cron say a length from the time of each run on, such as "10m"'
        )
        raise Refused(f"deadline {told}", field="deadline")
    return NewSchedule(run=run, cron=cron, zone=zone, overlap=given.overlap or "allow", within=within)


def _length(given: float | str, field: str, minimum: float = 0.0) -> int:
    try:
        return seconds(required(given, field, minimum=minimum))
    except OptionsError as error:
        raise Refused(str(error), field=field) from None


def _instant(given: str | None, field: str) -> int | None:
    if given is None:
        return None
    found = rfc3339(given.strip())
    if found is None or not 0 <= found < LATEST:
        said = 'has to be a date-time with its offset such as "2026-12-24T18:00:00Z", from 1970 to 2116'
        raise Refused(f"{field} {said}", field=field)
    return found


def field_of(message: str) -> str | None:
    """Return the name of the (innermost) field that a message of msgspec is about, None when it names none."""
    found = _PATH.search(message)
    return None if found is None else found[1] or found[2]
