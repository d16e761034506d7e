"""`comity simulate`: what a plan would do to an upstream, in virtual time."""

from __future__ import annotations

from typing import Annotated

import typer

from comity.errors import OptionsError

_LISTS: list[str] = []


def simulate(
    *,
    upstream: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help="What the upstream bears: 'bucket 40/s burst 40 latency 50ms at 20s bucket 6/s'."
        ),
    ],
    requests: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many are wanted, all at once.")] = 1000,
    rate: Annotated[
        list[str], typer.Option(metavar="R", help="At most so many: 50/5s, 5000/h. Repeatable; all of them hold.")
    ] = _LISTS,
    cost: Annotated[
        str, typer.Option(metavar="COST", help="What each takes of the rates: 5, or by budget tokens=1200.")
    ] = "1",
    concurrency: Annotated[str | None, typer.Option(metavar="N", help="At most so many at once.  [10]")] = None,
    min_gap: Annotated[str | None, typer.Option(metavar="D", help="At least so long between two starts.")] = None,
    measured: Annotated[str, typer.Option(metavar="client|server", help="Where a rate holds.")] = "client",
    retries: Annotated[str | None, typer.Option(metavar="N", help="Sends after the first.  [2]")] = None,
    max_retry_wait: Annotated[
        str | None, typer.Option(metavar="D", help="The longest wait that the upstream may ask for.  [60s]")
    ] = None,
    adaptive: Annotated[
        str | None, typer.Option(metavar="auto|ema", help="Learn from the answers how fast to go.")
    ] = None,
    breaker: Annotated[
        str,
        typer.Option(
            metavar="on|off",
            help="Send single requests, ever more seldom, to a host that only fails, while the others wait.",
        ),
    ] = "on",
    timeout: Annotated[str | None, typer.Option(metavar="D", help="Longest time of one attempt.")] = None,
    deadline: Annotated[str | None, typer.Option(metavar="D", help="Longest time of one request.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of jitter, errors and backoff: the same seed, the same run.")] = 0,
) -> None:
    """Send requests to an upstream that exists in virtual time only, and sum up goodput, waste, latency and time.

    Client, limits and retries are those of every run; no request leaves this machine. An hour takes about a second.

    Words for the upstream: bucket R [burst N], window R, fixed R, slots N [queue N], latency D, jitter D, errors P%,
    announces draft|x|old, hint yes|no; `at D` and more words say what changes then.

    Exit codes: 0 all ok, 1 some failed, 2 wrong usage.
    """
    from comity.cli import loops, parsing
    from comity.cli.simulation import simulate as play

    try:
        policy = parsing.policy_of_run(
            rate=rate,
            at_once=concurrency,
            min_gap=min_gap,
            retries=retries,
            max_retry_wait=max_retry_wait,
            timeout=timeout,
            deadline=deadline,
            adaptive=adaptive,
            measured=parsing.measured(measured),
            breaker=breaker,
        )
        simulation = play(upstream, policy, requests, cost=parsing.cost(cost), seed=seed)
    except OptionsError as error:
        loops.refuse("simulate", error)
    for line in simulation.lines():
        typer.echo(line)
    raise typer.Exit(1 if simulation.failures else 0)
