"""download: one URL into one file, whole or not at all."""

from __future__ import annotations

import hashlib
import re

import pytest

from comity import AsyncClient, BadResponse, InvalidRequest, OptionsError, Retry, StatusError
from tests.client.scripted import Peer, Scripted, Seen, ok, status

DATA = bytes(range(256)) * 1000
SHA = hashlib.sha256(DATA).hexdigest()
QUICK = Retry(attempts=3, backoff=lambda info: 0)


class Files:
    """Serves DATA by ranges, and breaks off after so many bytes as often as told."""

    def __init__(self, *cuts: int, etag: str = '"v1"', data: bytes = DATA) -> None:
        self.cuts, self.etag, self.data = list(cuts), etag, data

    async def __call__(self, peer: Peer) -> None:
        while True:
            seen = await peer.request()
            whole = self.answer(seen)
            if self.cuts:
                head, _, body = whole.partition(b"\r\n\r\n")
                await peer.send(head + b"\r\n\r\n" + body[: self.cuts.pop(0)])
                return
            await peer.send(whole)

    def answer(self, seen: Seen) -> bytes:
        asked = re.fullmatch(r"bytes=(\d+)-", "".join(seen.all("range")))
        tag = [f"ETag: {self.etag}"] if self.etag else []
        if asked is None or seen.all("if-range") != [self.etag]:
            return ok(self.data, *tag)
        first, size = int(asked[1]), len(self.data)
        if first >= size:
            return status(416, f"Content-Range: bytes */{size}")
        content_range = f"Content-Range: bytes {first}-{size - 1}/{size}"
        return ok(self.data[first:], content_range, *tag, status="206 Partial Content")


def ranges(server: Scripted) -> list[str]:
    return ["".join(seen.all("range")) for seen in server.seen]


async def broken_off(api, path, **options):
    with pytest.raises(BadResponse):
        await api.download("/f", path, **options)


async def test_a_file_is_there_whole_under_its_name_and_nothing_else(tmp_path):
    async with Scripted(Files()) as server, AsyncClient(server.url) as api:
        done = await api.download("/f", tmp_path / "f.bin", checksum=f"sha256:{SHA}")
    assert (tmp_path / "f.bin").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["f.bin"]
    assert (done.path, done.size, done.resumed_from) == (tmp_path / "f.bin", len(DATA), 0)
    assert [attempt.status for attempt in done.attempts] == [200]


async def test_what_breaks_off_is_gone_on_with_and_every_send_is_told(tmp_path):
    files = Files(1000, 500)
    async with Scripted(files) as server, AsyncClient(server.url, retry=QUICK) as api:
        done = await api.download("/f", tmp_path / "f", checksum=f"sha256:{SHA}")
        assert ranges(server) == ["", "bytes=1000-", "bytes=1500-"]
    assert (tmp_path / "f").read_bytes() == DATA
    assert [attempt.status for attempt in done.attempts] == [200, 206, 206]


async def test_a_download_given_up_leaves_the_old_file_and_is_gone_on_with_by_the_next(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    files = Files(700, 700, 700)
    async with Scripted(files) as server, AsyncClient(server.url, retry=QUICK) as api:
        with pytest.raises(BadResponse) as caught:
            await api.download("/f", path)
        assert len(caught.value.attempts) == 3
        assert path.read_bytes() == b"old"
        done = await api.download("/f", path, checksum=f"sha256:{SHA}")
        assert ranges(server)[-1] == "bytes=2100-"
    assert done.resumed_from == 2100
    assert path.read_bytes() == DATA


async def test_another_url_does_not_go_on_with_what_is_there(tmp_path):
    async with Scripted(Files(700)) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f", params={"a": 1})
        await api.download("/f", tmp_path / "f", params={"a": 2})
        assert ranges(server) == ["", ""]
    assert (tmp_path / "f").read_bytes() == DATA


async def test_without_resume_it_begins_anew(tmp_path):
    async with Scripted(Files(700)) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f")
        await api.download("/f", tmp_path / "f", resume=False)
        assert ranges(server) == ["", ""]


async def test_a_file_that_has_changed_meanwhile_comes_whole(tmp_path):
    files = Files(700)
    async with Scripted(files) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f")
        files.etag, files.data = '"v2"', b"other"
        done = await api.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"other"
    assert done.resumed_from == 0


async def test_a_file_that_has_changed_and_breaks_off_is_resumed_from_nothing_of_the_earlier_download(tmp_path):
    files = Files(700)
    async with Scripted(files) as server, AsyncClient(server.url, retry=QUICK) as api:
        await broken_off(api, tmp_path / "f", retry=0)
        files.etag, files.cuts = '"v2"', [900]
        done = await api.download("/f", tmp_path / "f")
        assert ranges(server) == ["", "bytes=700-", "bytes=900-"]
    assert (done.resumed_from, done.size) == (0, len(DATA))


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
async def test_without_a_strong_validator_nothing_is_kept(tmp_path, etag):
    async with Scripted(Files(700, etag=etag)) as server, AsyncClient(server.url, retry=QUICK) as api:
        await api.download("/f", tmp_path / "f", checksum=f"sha256:{SHA}")
        assert ranges(server) == ["", ""]


async def test_a_part_that_is_longer_than_the_file_begins_anew(tmp_path):
    files = Files(700)
    async with Scripted(files) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f")
        files.data = b"short"
        await api.download("/f", tmp_path / "f")
        assert ranges(server) == ["", "bytes=700-", ""]
    assert (tmp_path / "f").read_bytes() == b"short"


async def test_a_wrong_checksum_throws_all_away(tmp_path):
    async with Scripted(Files()) as server, AsyncClient(server.url) as api:
        with pytest.raises(BadResponse, match=SHA):
            await api.download("/f", tmp_path / "f", checksum="sha256:" + "0" * 64)
    assert list(tmp_path.iterdir()) == []


async def test_an_error_status_is_raised_and_leaves_nothing(tmp_path):
    async with Scripted(Files()) as server, AsyncClient(server.url, raise_for="never") as api:
        server.script = lambda peer: _answer(peer, status(404))
        with pytest.raises(StatusError):
            await api.download("/f", tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answered", [status(202, body=b"pending"), status(204, body=b""), status(205, body=b"")])
async def test_an_answer_that_does_not_bring_the_file_takes_the_place_of_none(tmp_path, answered):
    (tmp_path / "f").write_bytes(b"old")
    async with Scripted(lambda peer: _answer(peer, answered)) as server, AsyncClient(server.url, retry=0) as api:
        with pytest.raises(StatusError) as caught:
            await api.download("/f", tmp_path / "f")
    assert [attempt.status for attempt in caught.value.attempts] == [caught.value.response.status_code]
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"old")]


async def test_another_range_than_asked_for_is_no_part_of_the_file(tmp_path):
    wrong = ok(DATA[5:], f"Content-Range: bytes 5-{len(DATA) - 1}/{len(DATA)}", status="206 Partial Content")
    async with Scripted(Files(700)) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f")
        server.script = lambda peer: _answer(peer, wrong)
        with pytest.raises(BadResponse, match=rf"^GET {server.url}/f: .* another range"):
            await api.download("/f", tmp_path / "f")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("field", "first", "then"),
    [("ETag", '"v1"', '"v2"'), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT")],
)
async def test_a_server_that_ignores_if_range_does_not_mix_two_versions(tmp_path, field, first, then):
    """RFC 9110 section 15.3.7.3"""
    new = DATA[::-1]
    cut = ok(DATA, f"{field}: {first}").partition(b"\r\n\r\n")
    rest = ok(
        new[700:],
        f"{field}: {then}",
        f"Content-Range: bytes 700-{len(new) - 1}/{len(new)}",
        status="206 Partial Content",
    )

    async def script(peer: Peer) -> None:
        while True:
            seen = await peer.request()
            if len(peer.server.seen) == 1:
                await peer.send(cut[0] + cut[1] + DATA[:700])
                return
            await peer.send(rest if seen.all("range") else ok(new, f"{field}: {then}"))

    async with Scripted(script) as server, AsyncClient(server.url, retry=QUICK) as api:
        await api.download("/f", tmp_path / "f")
        assert ranges(server) == ["", "bytes=700-", ""]
    assert (tmp_path / "f").read_bytes() == new


async def test_more_bytes_than_the_range_announced_are_not_gone_on_with(tmp_path):
    files = Files(700)
    announced = f"Content-Range: bytes 700-{len(DATA) - 1}/{len(DATA)}"
    more = ok(DATA[700:] + b"more", 'ETag: "v1"', announced, "Connection: close", status="206 Partial Content")
    async with Scripted(files) as server, AsyncClient(server.url, retry=0) as api:
        await broken_off(api, tmp_path / "f")
        server.script = lambda peer: _answer(peer, more)
        with pytest.raises(BadResponse, match="bytes came of the"):
            await api.download("/f", tmp_path / "f")
        server.script = Files()
        await api.download("/f", tmp_path / "f")
        assert ranges(server) == ["", "bytes=700-", ""]
    assert (tmp_path / "f").read_bytes() == DATA


async def test_progress_is_told_up_to_the_whole(tmp_path):
    told: list[tuple[int, int | None]] = []
    async with Scripted(Files(1000)) as server, AsyncClient(server.url, retry=QUICK) as api:
        await api.download("/f", tmp_path / "f", progress=lambda *so_far: told.append(so_far))
    assert told[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"checksum": "md4:00"}, OptionsError, "no algorithm"),
        ({"checksum": "sha256:00"}, OptionsError, "64 hexadecimal digits"),
        ({"progress": 3}, OptionsError, "progress"),
        ({"deadline": -1}, OptionsError, "deadline"),
        ({"headers": {"Range": "bytes=1-"}}, InvalidRequest, "range"),
    ],
    ids=["algorithm", "digest", "progress", "deadline", "range"],
)
async def test_what_cannot_be_used_is_said_before_anything_is_sent(tmp_path, options, error, match):
    async with Scripted(Files()) as server, AsyncClient(server.url) as api:
        with pytest.raises(error, match=match):
            await api.download("/f", tmp_path / "f", **options)
        with pytest.raises(OptionsError, match="directory"):
            await api.download("/f", tmp_path)
        with pytest.raises(OptionsError, match="there is no such directory"):
            await api.download("/f", tmp_path / "none" / "f")
        assert server.seen == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [None, 3, b"f", "a\0b"])
async def test_what_is_no_path_is_refused(path):
    async with AsyncClient("http://h") as api:
        with pytest.raises(OptionsError, match="path="):
            await api.download("/f", path)


async def _answer(peer: Peer, data: bytes) -> None:
    while True:
        await peer.request()
        await peer.send(data)
