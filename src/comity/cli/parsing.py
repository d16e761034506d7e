"""Reading options of the command line into policies. Every complaint names the option, the value and an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from comity import redact
from comity.bulk.body import BodyTemplate
from comity.bulk.progress import Kind
from comity.client.headers import checked
from comity.errors import InvalidRequest, OptionsError
from comity.policy.adaptive import ALGORITHMS
from comity.policy.budget import RetryBudget
from comity.policy.hedge import Hedge
from comity.policy.host_key import HostKey
from comity.policy.naming import check_choice
from comity.policy.options import Policy
from comity.policy.rate import Measured, Rate
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from comity.policy.token import is_token
from comity.policy.units import duration, is_off, parse_integer, unit_name

_OTHER_FORMS = frozenset({".csv", ".tsv", ".tab", ".gz", ".zst", ".bz2", ".xz", ".zip", ".xlsx", ".parquet"})
_MAKE = "sqlite3 -csv OUT.sqlite 'SELECT id, status, body FROM results'"
_HOST = (
    "a host and its limits such as 'api.example.com rate=50/5s concurrency=4 min_gap=250ms', or a group of its requests "
    "such as 'POST api.example.com/search/* rate=30/min' or 'api.example.com json:model=small rate=90000 tokens/min'"
)


def rates(given: Sequence[str], measured: Measured, option: str = "--rate") -> tuple[Rate, ...]:
    """Return the rates of a repeatable option; "off" among them means none."""
    if any(_no_limit(text, option) for text in given):
        return ()
    return tuple(Rate.of(text, option, measured=measured) for text in given)


def concurrency(text: str, option: str = "--concurrency") -> int | None:
    """Return how many requests may run at once; None for no limit."""
    return None if _no_limit(text, option) else parse_integer(text, option, 1)


def _no_limit(text: str, option: str) -> bool:
    """Return whether a limit is off; 0 could be meant as "none at all", so it is no way to say so here."""
    if text.strip() == "0":
        raise OptionsError(option, text, reason="0 would let nothing through", hint="'off' removes the limit")
    return is_off(text)


def measured(text: str) -> Measured:
    """Return where rates are to hold."""
    check_choice(text, "--measured", get_args(Measured))
    return cast("Measured", text)


def policy(
    *,
    rate: Sequence[str] = (),
    measured: Measured = "client",
    at_once: str | None = None,
    min_gap: str | None = None,
    retries: str | None = None,
    max_retry_wait: str | None = None,
    timeout: str | None = None,
    deadline: str | None = None,
    usage: Sequence[str] = (),
    hedge: str | None = None,
    adaptive: str | None = None,
) -> Policy:
    """Return the policy of the command line's options; what is not given keeps its default."""
    changes: dict[str, Any] = {}
    retrying: dict[str, Any] = {}
    if rate:
        changes["rate"] = rates(rate, measured)
    if at_once is not None:
        changes["concurrency"] = concurrency(at_once)
    if min_gap is not None:
        changes["min_gap"] = duration(min_gap, "--min-gap")
    if retries is not None:
        retrying["retries"] = parse_integer(retries, "--retries", 0, 1000)
    if max_retry_wait is not None:
        retrying["max_retry_after"] = duration(max_retry_wait, "--max-retry-wait")
    if hedge is not None:
        changes["hedge"] = _hedge(hedge)
    if adaptive is not None:
        check_choice(adaptive, "--adaptive", ALGORITHMS)
        changes["adaptive"] = adaptive
    if usage:
        changes["usage"] = _usage(usage)
    if timeout is not None:
        changes["timeout"] = Timeout.of(duration(timeout, "--timeout", minimum=0.001))
    if deadline is not None:
        changes["deadline"] = duration(deadline, "--deadline", minimum=0.001)
    return Policy(retry=Retry(**retrying), **changes)


def policy_of_run(*, breaker: str, **options: Any) -> Policy:
    """Return the policy of a run. It has time: a retry that the host's successes do not pay for is put off, not given up.

    Args:
        breaker: "on" or "off".
        options: of `policy`.
    """
    return policy(**options).replace(retry_budget=RetryBudget(empty="defer"), breaker=switch(breaker, "--breaker"))


def switch(text: str, option: str) -> bool:
    """Return whether something is to be on."""
    check_choice(text, option, ("on", "off"))
    return text == "on"


def cost(text: str) -> int | dict[str, int]:
    """Return the cost of `--cost 5` or `--cost tokens=1200`; several budgets are joined by commas."""
    if "=" not in text:
        return parse_integer(text, "--cost", 0)
    found: dict[str, int] = {}
    for part in text.split(","):
        unit, _, amount = part.partition("=")
        found[unit_name(unit.strip(), "--cost")] = parse_integer(amount, "--cost", 0)
    return found


def _hedge(text: str) -> Hedge:
    try:
        return Hedge(after=text)
    except OptionsError as error:
        raise OptionsError("--hedge", text, error.allowed) from None


def _usage(given: Sequence[str]) -> dict[str, list[str]]:
    """Return where answers tell their cost: `tokens=usage.total_tokens`, several places joined by +."""
    found: dict[str, list[str]] = {}
    for text in given:
        unit, equals, places = text.partition("=")
        if not equals:
            raise OptionsError("--usage", text, "a budget and a place in answers such as 'tokens=usage.total_tokens'")
        found.setdefault(unit.strip(), []).extend(place.strip() for place in places.split("+"))
    return found


def hosts(given: Sequence[str], default: Policy, measured: Measured) -> dict[str, Policy]:
    """Return the policies of `--host 'PATTERN rate=R concurrency=N ...'`; what is not named is as for all hosts."""
    found: dict[str, Policy] = {}
    for text in given:
        pattern, options = _words(text)
        try:
            name = HostKey(pattern).text
        except OptionsError as error:
            raise OptionsError("--host", text, _HOST, reason=error.reason or f"{pattern!r} is no host") from None
        if name in found:
            raise OptionsError("--host", text, reason=f"{name} is named twice")
        changes = _limits(text, options, measured)
        try:
            found[name] = default.replace(**changes)
        except OptionsError as error:
            raise OptionsError("--host", text, reason=str(error)) from None
    return found


def headers(given: Sequence[str]) -> dict[str, str]:
    """Return the headers of `--header 'K: V'`; @FILE stands for the lines of a file, where no process list shows them."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for text in _header_lines(given):
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        # The value may be a secret, so a complaint shows the name alone.
        shown = f"{name}: ..." if colon else "..."
        if not colon:
            raise OptionsError("--header", shown, "a name, a colon and a value such as 'Accept: application/json'")
        try:
            checked({name: value})
        except InvalidRequest as error:
            raise OptionsError("--header", shown, "a header such as 'Accept: application/json'", str(error)) from None
        if name.lower() in seen:
            several = f"a name once; several values of one header go into one, with commas: '{name}: a, b'"
            raise OptionsError("--header", shown, several, f"{name} is given twice")
        seen.add(name.lower())
        found[name] = value
    return found


def _header_lines(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if not text.startswith("@"):
            yield text
            continue
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise OptionsError("--header", text, "a file with a header a line", reason=str(reason).lower()) from None
        yield from (line for line in lines if line.strip())


def body_template(json: str | None, body: str | None) -> BodyTemplate | None:
    """Return the template of bodies."""
    check_one_body(json, body)
    if json is not None:
        return BodyTemplate(json, "--json")
    return BodyTemplate(body, "--body") if body is not None else None


def check_one_body(json: str | None, body: str | None) -> None:
    """Refuse two bodies."""
    if json is not None and body is not None:
        raise OptionsError("--body", body, reason="a body is text or JSON", hint="give --body or --json, not both")


def delimiter(text: str) -> str:
    r"""Return what separates columns; "tab" and "\\t" are a tab."""
    found = "\t" if text.lower() in {"tab", "\\t"} else text
    if len(found) != 1 or found in '"\r\n ':
        raise OptionsError("--delimiter", text, "one character such as ';', or 'tab'")
    return found


def output(text: str) -> str:
    """Return the name of an output; one that promises another form than it would get is refused."""
    path = Path(text)
    suffix = path.suffix.lower()
    if suffix in _OTHER_FORMS and not (path.exists() and not path.is_file()):
        hint = f"for a table of another form, make it from that: {_MAKE}"
        reason = f"results are written as JSON lines, or as a SQLite table, and {suffix} says otherwise"
        raise OptionsError("-o", text, "a name ending in .jsonl or .sqlite", hint, reason=reason)
    return text


def method(text: str) -> str:
    """Return a method in upper case."""
    if not is_token(text):
        raise OptionsError("--method", text, "an HTTP method such as POST")
    return text.upper()


def progress(text: str) -> Kind:
    """Return how progress is to be shown."""
    check_choice(text, "--progress", get_args(Kind))
    return cast("Kind", text)


def header_name(text: str, option: str) -> str:
    """Return a header's name."""
    if not is_token(text):
        raise OptionsError(option, text, "the name of a header such as Idempotency-Key")
    return text


def _words(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Split a --host into its pattern and its options; a value may hold blanks, quoted or not (rate=90000 tokens/min)."""
    words = text.split()
    size = next((at for at, word in enumerate(words) if "=" in word and not word.startswith("json:")), len(words))
    pattern, rest = words[:size], words[size:]
    for word in pattern:
        if "://" in word:
            host = word.partition("://")[2].partition("/")[0].rpartition("@")[2]
            raise OptionsError("--host", redact.text(text), _HOST, reason=f"a host is named without http://: {host!r}")
        if "@" in word.partition("/")[0]:
            raise OptionsError("--host", text, _HOST, reason="a host has no user", secret=True)
    if not pattern or not rest:
        none = f"{pattern[-1]!r} is no limit" if len(pattern) > 1 else "no limit is named"
        raise OptionsError("--host", text, _HOST, reason=none if pattern else "no host is named")
    options: list[tuple[str, str]] = []
    for word in rest:
        key, equals, value = word.partition("=")
        if equals:
            options.append((key.replace("-", "_"), value))
        else:
            options[-1] = (options[-1][0], f"{options[-1][1]} {word}")
    return " ".join(pattern), [(key, value.strip("\"'")) for key, value in options]


def _limits(text: str, options: Sequence[tuple[str, str]], measured: Measured) -> Mapping[str, Any]:
    changes: dict[str, Any] = {}
    given: list[str] = []
    try:
        for key, value in options:
            if key == "rate":
                given.append(value)
            elif key == "concurrency":
                changes[key] = concurrency(value, key)
            elif key == "min_gap":
                changes[key] = duration(value, key)
            elif key == "group":
                changes[key] = Policy(group=value).group
            elif key == "adaptive":
                check_choice(value, key, (*ALGORITHMS, "off"))
                changes[key] = None if value == "off" else value
            elif key == "breaker":
                changes[key] = switch(value, key)
            else:
                reason = f"{key!r} is none of rate, concurrency, min_gap, group, adaptive, breaker"
                raise OptionsError("--host", text, _HOST, reason=reason)
        if given:
            changes["rate"] = rates(given, measured, "rate")
    except OptionsError as error:
        if error.option == "--host":
            raise
        raise OptionsError("--host", text, _HOST, reason=str(error)) from None
    return changes
