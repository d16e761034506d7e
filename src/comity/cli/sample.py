"""`comity sample`: the shipped sample, sent to a server of its own on this machine through the real `comity run`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.request import urlopen

import typer

from comity.cli.loops import refuse
from comity.cli.streams import tell
from comity.errors import OptionsError

_ROWS = 300
_LIMITS = {"127.0.0.1": (50, 5), "localhost": (20, 2)}
"""Each host's limit: so many requests in any window of so many seconds; the upstream answers 429 to one more."""

_ANSWER_WITHIN = 20.0


def sample(
    *,
    rows: Annotated[int, typer.Option(min=1, max=100_000, help="How many requests.")] = _ROWS,
    progress: Annotated[str, typer.Option(metavar="auto|plain|off", help="How progress is shown.")] = "auto",
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new folder in which requests and results are left to look at.")
    ] = None,
) -> None:
    """Send 300 requests, some to flaky paths, to two hosts with a limit each, and count what the server saw."""
    with _folder(keep) as folder, _upstream() as url:
        requests, results = Path(folder, "requests.jsonl"), Path(folder, "results.jsonl")
        port = url.rpartition(":")[2]
        requests.write_text("".join(f"{json.dumps(row)}\n" for row in _requests(rows, port)), encoding="utf-8")
        limits = [text for host, (n, per) in _LIMITS.items() for text in ("--host", f"{host} rate={n}/{per}s")]
        arguments = ["run", str(requests), "-o", str(results), "--measured", "server", "--progress", progress, *limits]
        shown = " ".join(f"'{word}'" if " " in word else word for word in arguments)
        tell(f"comity {shown if keep is not None else shown.replace(folder, '.')}")
        code = subprocess.run(_command(*arguments), check=False).returncode  # noqa: S603 - our own command
        over = _over(url)
        tell(f"windows over the limit, as the server counted: {over}")
    raise typer.Exit(code or (1 if over else 0))


@contextmanager
def _folder(keep: Path | None) -> Iterator[str]:
    """Yield a folder for the files, for a moment or one that is kept."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="comity-") as folder:
            yield folder
        return
    try:
        keep.mkdir(parents=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        refuse("sample", OptionsError("--keep", str(keep), "a folder that is not there yet", reason=reason))
    yield str(keep)


def _requests(rows: int, port: str) -> Iterator[dict[str, Any]]:
    """Yield the sample: two of three to the first host, each tenth to a path that fails at first."""
    first, second = _LIMITS
    for number in range(1, rows + 1):
        host = second if number % 3 == 0 else first
        n, per = _LIMITS[host]
        path = f"limited/{host}?n={n}&per={per}&jitter=60"
        if number % 10 == 0:
            path = f"flaky/{number}?fail=1&code=503"
        yield {"id": f"r{number}", "url": f"http://{host}:{port}/{path}"}


def _over(url: str) -> int:
    """Return how many limited keys had more arrivals in a window than their limit allows."""
    with urlopen(f"{url}/_stats", timeout=_ANSWER_WITHIN) as answer:  # noqa: S310 - our own server
        stats = json.load(answer)
    peaks = {key.rpartition("/")[2]: window["arrivals"] for key, window in stats["windows"].items()}
    return sum(peaks.get(host, 0) > n for host, (n, _) in _LIMITS.items())


@contextmanager
def _upstream() -> Iterator[str]:
    """Run the built-in server as a process of its own and yield its URL."""
    process = subprocess.Popen(_command("upstream", "--port", "0"), stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first:
            tell("comity sample: the upstream did not start")
            raise typer.Exit(1)
        yield json.loads(first)["url"]
    finally:
        process.terminate()
        process.wait()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "comity", *arguments]
