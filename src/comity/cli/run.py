"""`comity run`: a file of requests, sent as fast as the servers let us and never faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from comity.cli.streams import tell
from comity.errors import ComityError, OptionsError

if TYPE_CHECKING:
    from comity.bulk.job import Job

_LIMITS, _ROWS, _OUTPUT, _AGAIN = "Limits", "Requests", "Output", "Going on"
_LISTS: list[str] = []


def run(
    *,
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="JSON lines, URLs, CSV or TSV, plain or gzip; - is standard input."),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            rich_help_panel=_OUTPUT,
            help="Where results go: JSON lines, or a table when it ends in .sqlite or .db. Standard output by default, "
            "but only a run into a file can be resumed.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="TEMPLATE", rich_help_panel=_ROWS, help="URL of rows without one: 'https://api/x/{id}'."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="M", rich_help_panel=_ROWS, help="Method of rows without one.  [GET]")
    ] = None,
    header: Annotated[
        list[str],
        typer.Option(
            metavar="'K: V'", rich_help_panel=_ROWS, help="Header of every request; @FILE holds some. Repeatable."
        ),
    ] = _LISTS,
    json: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            rich_help_panel=_ROWS,
            help="""JSON body of rows without one: '{"sku": "{sku}", "count": {count}}'. The method is POST then.""",
        ),
    ] = None,
    body: Annotated[
        str | None,
        typer.Option(metavar="TEMPLATE", rich_help_panel=_ROWS, help="The same as plain text: 'sku={sku}'."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", rich_help_panel=_ROWS, help="Column or field that names a row.  [id]"),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR", rich_help_panel=_ROWS, help="What separates a table's columns.  [, and a tab in .tsv]"
        ),
    ] = None,
    rate: Annotated[
        list[str],
        typer.Option(
            metavar="R",
            rich_help_panel=_LIMITS,
            help="At most so many per host: 50/5s, 5000/h, '90000 tokens/min'. Repeatable; all of them hold.",
        ),
    ] = _LISTS,
    concurrency: Annotated[
        str | None, typer.Option(metavar="N", rich_help_panel=_LIMITS, help="At most so many at once per host.  [10]")
    ] = None,
    min_gap: Annotated[
        str | None, typer.Option(metavar="D", rich_help_panel=_LIMITS, help="At least so long between two starts.")
    ] = None,
    host: Annotated[
        list[str],
        typer.Option(
            metavar="'PATTERN rate=R concurrency=N min_gap=D group=json:FIELD adaptive=auto'",
            rich_help_panel=_LIMITS,
            help="Limits of one host and its subdomains, or of a group of its requests: "
            "'POST api.example.com/search/* rate=30/min'. Repeatable.",
        ),
    ] = _LISTS,
    measured: Annotated[
        str,
        typer.Option(
            metavar="client|server",
            rich_help_panel=_LIMITS,
            help="Where a rate holds: exactly at the sender, or also in the server's log, a little slower.",
        ),
    ] = "client",
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="COST",
            rich_help_panel=_LIMITS,
            help="What rows without one take of the rates: 5, or by budget tokens=1200.  [1]",
        ),
    ] = None,
    usage: Annotated[
        list[str],
        typer.Option(
            metavar="BUDGET=PATH",
            rich_help_panel=_LIMITS,
            help="Where answers tell what a row really took: tokens=usage.total_tokens. Repeatable, or joined by +.",
        ),
    ] = _LISTS,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_LIMITS,
            help="Keep what is taken of each rate, pauses and what else hosts taught, for the next run.",
        ),
    ] = None,
    retries: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=_LIMITS,
            help="Sends after the first; 429s are counted apart, but with 0 nothing is sent again.  [2]",
        ),
    ] = None,
    adaptive: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ema",
            rich_help_panel=_LIMITS,
            help="Learn from the answers how many at once, up to --concurrency, and (auto) how many per second.",
        ),
    ] = None,
    breaker: Annotated[
        str,
        typer.Option(
            metavar="on|off",
            rich_help_panel=_LIMITS,
            help="Send single rows, ever more seldom, to a host that only fails, while the others wait.",
        ),
    ] = "on",
    hedge: Annotated[
        str | None,
        typer.Option(
            metavar="D|p95",
            rich_help_panel=_LIMITS,
            help="Send a row that may be repeated once more when it took so long, or longer than 95 of 100 rows; "
            "the first answer counts.",
        ),
    ] = None,
    max_retry_wait: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            rich_help_panel=_LIMITS,
            help="A server that asks for a longer wait is left alone until then; exit code 75.  [60s]",
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="D", rich_help_panel=_LIMITS, help="Longest time of one attempt.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            rich_help_panel=_LIMITS,
            help="Longest time of one row, its wait for a turn and all attempts included.",
        ),
    ] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", rich_help_panel=_OUTPUT, help="Results in the order of the input.")
    ] = False,
    max_body: Annotated[
        str | None,
        typer.Option(metavar="SIZE", rich_help_panel=_OUTPUT, help="A longer body is an error.  [16MB]"),
    ] = None,
    no_body: Annotated[
        bool, typer.Option("--no-body", rich_help_panel=_OUTPUT, help="Results without bodies.")
    ] = False,
    progress: Annotated[
        str, typer.Option(metavar="auto|plain|off", rich_help_panel=_OUTPUT, help="How progress is shown.")
    ] = "auto",
    har: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_OUTPUT,
            help="Record every attempt, secrets masked and without bodies, in a HAR file, which browsers' devtools open.",
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_AGAIN,
            help="Send this header with a key for each row, the same after a kill, so that any row may be repeated.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", rich_help_panel=_AGAIN, help="Send rows again that failed in earlier runs."),
    ] = False,
    resend_unknown: Annotated[
        bool,
        typer.Option(
            "--resend-unknown", rich_help_panel=_AGAIN, help="Send rows again that may have been carried out."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; say how long it will take under the limits.")
    ] = False,
) -> None:
    """Send a file of requests politely, with progress; the same command goes on after a stop or a kill.

    An input line is a JSON object with a url (and id, method, headers, params, json or body, priority, cost, idempotent)
    or a URL. Each gives one result line: id, line, url, method, ok, status, body, elapsed, attempts, and error if not ok.

    Ctrl-C finishes what is being sent; a second one stops at once.

    Exit codes: 0 all ok, 1 some failed or the output cannot be written, 2 wrong usage, 3 halted by an input that cannot
    be read on, 75 a quota is used up (the time to go on is printed), 130 stopped.
    """
    from comity.bulk.job import MAX_BODY, Job
    from comity.bulk.template import UrlTemplate
    from comity.cli import loops, parsing
    from comity.policy.units import size

    try:
        where = parsing.measured(measured)
        policy = parsing.policy_of_run(
            rate=rate,
            measured=where,
            usage=usage,
            hedge=hedge,
            adaptive=adaptive,
            at_once=concurrency,
            min_gap=min_gap,
            retries=retries,
            max_retry_wait=max_retry_wait,
            timeout=timeout,
            deadline=deadline,
            breaker=breaker,
        )
        job = Job(
            inputs=tuple(inputs),
            output=parsing.output(output) if output is not None else None,
            template=UrlTemplate(url) if url is not None else None,
            body=parsing.body_template(json, body),
            cost=parsing.cost(cost) if cost is not None else 1,
            id_column=id_column,
            delimiter=parsing.delimiter(delimiter) if delimiter is not None else None,
            method=parsing.method(method) if method is not None else None,
            headers=parsing.headers(header),
            policy=policy,
            hosts=parsing.hosts(host, policy, where),
            ordered=ordered,
            key_name=parsing.header_name(idempotency_key, "--idempotency-key") if idempotency_key is not None else None,
            retry_failed=retry_failed,
            resend_unknown=resend_unknown,
            keep_body=not no_body,
            max_body=size(max_body, "--max-body") if max_body is not None else MAX_BODY,
            progress=parsing.progress(progress),
            har=har,
            memory=memory,
        )
        code = loops.run(_estimate(job) if dry_run else _send(job))
    except OptionsError as error:
        loops.refuse("run", error)
    except ComityError as error:
        tell(f"comity run: {error}")
        code = 1
    raise typer.Exit(code)


async def _send(job: Job) -> int:
    from comity.bulk.job import run as run_job

    report = await run_job(job)
    if isinstance(report.error, OptionsError) and not report.tally.sent:
        # Nothing was done, so there is nothing to sum up.
        raise report.error
    for line in report.lines():
        tell(line)
    return report.exit_code


async def _estimate(job: Job) -> int:
    from comity.bulk.dry import plan

    estimate = await plan(job)
    for line in estimate.lines():
        typer.echo(line)
    return 1 if estimate.invalid else 0
