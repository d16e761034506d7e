"""The recipes are true: each runs against a server that is as it supposes."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

RECIPES = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", RECIPES, re.DOTALL | re.MULTILINE))

PDF = bytes(range(256)) * 100
SEEN: web.AppKey[Counter[str]] = web.AppKey("seen")


async def token(request: web.Request) -> web.Response:
    assert (await request.post())["client_id"] == "me"
    return web.json_response({"access_token": "t1", "expires_in": 60})


async def customers(request: web.Request) -> web.Response:
    assert request.headers["Authorization"] == "Bearer t1"
    page = int(request.query.get("page", 1))
    row = {"id": page, "name": f"N{page}", "more": None}
    return web.json_response({"data": [row], "meta": {"next_page": page + 1 if page < 3 else None}})


async def imports(request: web.Request) -> web.Response:
    form = await request.post()
    assert (form["mode"], form["file"].filename) == ("replace", "rows.csv")
    return web.Response(status=202, headers={"Location": "/jobs/7"})


async def job(request: web.Request) -> web.Response:
    request.app[SEEN]["looks"] += 1
    running = request.app[SEEN]["looks"] == 1
    body = {"state": "running" if running else "done", "rows": 1, **({"nextPollMs": 1} if running else {})}
    return web.json_response(body)


async def report(request: web.Request) -> web.StreamResponse:
    sent = {"X-Checksum-Sha256": hashlib.sha256(PDF).hexdigest(), "Content-Type": "application/pdf", "ETag": '"1"'}
    if request.method == "HEAD" or request.http_range.start is not None:
        rest = PDF[request.http_range.start or 0 :]
        ranged = {"Content-Range": f"bytes {len(PDF) - len(rest)}-{len(PDF) - 1}/{len(PDF)}"}
        return web.Response(status=200 if request.method == "HEAD" else 206, body=rest, headers={**sent, **ranged})
    broken = web.StreamResponse(headers={**sent, "Content-Length": str(len(PDF))})
    await broken.prepare(request)
    await broken.write(PDF[:1000])
    await broken.drain()
    request.transport.close()
    return broken


async def hooks(request: web.Request) -> web.Response:
    key = request.headers["Idempotency-Key"]
    request.app[SEEN][key] += 1
    if key == '"event-5"':
        return web.Response(status=410)
    return web.Response(status=503 if key == '"event-4"' and request.app[SEEN][key] == 1 else 201)


async def export(_request: web.Request) -> web.Response:
    return web.Response(text='{"id": 1}\n{"id": 2}\n{"id": 39}\n')


async def messages(request: web.Request) -> web.Response:
    assert (await request.json())["model"] in {"small", "large"}
    return web.json_response({"content": [], "usage": {"input_tokens": 10, "output_tokens": 20}})


async def busy(request: web.Request) -> web.Response:
    request.app[SEEN]["asked"] += 1
    assert request.app[SEEN]["asked"] <= 4
    return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0"})


@pytest.fixture
async def url():
    app = web.Application()
    app[SEEN] = Counter()
    app.add_routes(
        [
            web.post("/token", token),
            web.get("/v1/customers", customers),
            web.post("/v1/imports", imports),
            web.get("/jobs/7", job),
            web.get("/v1/report.pdf", report),
            web.post("/v1/hooks", hooks),
            web.get("/v1/export.ndjson", export),
            web.post("/v1/messages", messages),
            web.post("/v1/chat/completions", busy),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


HOST = r"127\.0\.0\.1:\d+"

PRINTED = {
    "Log in, and read a list into dataclasses": ["['N1']", "['N2']", "['N3']"],
    "Upload a table, and wait until it is taken in": ["done 1"],
    "Check a download by a sum that stands in a header": [r"25600 \d+"],
    "Send webhooks, and know which failed": ["201 1"] * 4 + ["201 2", "failed: .*'status_code': 410.*"],
    "Ask two models under the tokens of each": [
        f"{HOST} json:model={model} 6 answers, 0 refusals" for model in ("small", "large")
    ],
    "Read a large export line by line": ["42"],
    "Put an SDK under the limits": ["429 after 4 sends"],
}


def test_every_program_is_among_those_that_are_run():
    assert set(PROGRAMS) == set(PRINTED)
    assert RECIPES.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("title", PRINTED)
async def test_a_recipe_does_what_it_says(title, url, tmp_path):
    local = PROGRAMS[title].replace("https://api.example.com", url).replace("api.example.com", url.partition("//")[2])
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", local,
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await run.communicate()
    assert (run.returncode, err.decode()) == (0, "")
    lines = out.decode().splitlines()
    assert len(lines) == len(PRINTED[title])
    unmatched = [form for form in PRINTED[title] if not any(re.fullmatch(_pattern(form), line) for line in lines)]
    assert unmatched == []


def _pattern(form: str) -> str:
    return form.replace("[", r"\[").replace("]", r"\]")
