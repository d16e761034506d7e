"""AsyncClient.paginate: page after page of one origin, and no circle."""

from __future__ import annotations

import pytest
import yarl

from comity.client.async_client import AsyncClient
from comity.errors import BadResponse, OptionsError, StatusError
from comity.testing.scripted_transport import Answer, ScriptedTransport
from tests.client.scripted import Scripted, in_turn, ok

HOME = "https://api.example"


def client(clock, *script, **options):
    transport = ScriptedTransport(*script)
    return transport, AsyncClient(HOME, transport=transport, clock=clock, **options)


async def take(pages, got=None):
    got = [] if got is None else got
    async for page in pages:
        got.append(page.url.removeprefix(HOME))
    return got


def link(target, rel="next"):
    return Answer(headers={"Link": f'<{target}>; rel="{rel}"'})


LAST = Answer(200, json={})


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("https://api.example/users?page=2&sig=a%2Fb+c", "/users?page=2&sig=a%2Fb+c"),
        ("HTTPS://API.example:443/2", "/2"),
        ("/other", "/other"),
        ("?page=2", "/v1/users?page=2"),
        ("more", "/v1/more"),
        ("../up", "/up"),
        ("//api.example/x", "/x"),
    ],
)
def test_a_link_header_names_the_next_page(clock, target, url):
    _, api = client(clock, link(target), link("/1", "prev"))
    assert clock.run(take(api.paginate("/v1/users?page=1"))) == ["/v1/users?page=1", url]


def test_a_place_in_the_body_names_the_next_page(clock):
    answers = [Answer(json={"meta": {"next": "/2"}}), Answer(json={"meta": {"next": None}})]
    _, api = client(clock, *answers)
    assert clock.run(take(api.paginate("/1", next="json:meta.next"))) == ["/1", "/2"]


@pytest.mark.parametrize("end", [{}, {"next": None}, {"next": ""}, {"next": False}, [], None])
@pytest.mark.parametrize("way", ["json:next", "cursor:next=c"])
def test_nothing_there_ends_it(clock, end, way):
    _, api = client(clock, Answer(content=b"null") if end is None else Answer(json=end))
    assert clock.run(take(api.paginate("/1", next=way))) == ["/1"]


def test_a_cursor_replaces_the_one_before_and_leaves_the_query_alone(clock):
    answers = [Answer(json={"c": "a b&="}), Answer(json={"c": 7}), Answer(json={"c": None})]
    _, api = client(clock, *answers)
    pages = api.paginate("/u?sort=%2Fx+y&cursor=old", next="cursor:c=cursor", params={"limit": 2})
    assert clock.run(take(pages)) == [
        "/u?sort=%2Fx+y&cursor=old&limit=2",
        "/u?sort=%2Fx+y&limit=2&cursor=a%20b%26%3D",
        "/u?sort=%2Fx+y&limit=2&cursor=7",
    ]


def test_a_function_names_the_next_page(clock):
    _, api = client(clock, 200, 200, 200)

    def following(response):
        number = int(response.url[-1])
        return f"/{number + 1}" if number < 3 else None

    assert clock.run(take(api.paginate("/1", next=following))) == ["/1", "/2", "/3"]


def test_options_go_with_every_page_and_params_with_the_first(clock):
    transport, api = client(clock, link("/2?page=2"), LAST, headers={"X-API-Key": "k"})
    clock.run(take(api.paginate("/1", params={"page": 1}, headers={"X": "y"})))
    assert [
        (sent.url.removeprefix(HOME), sent.headers["x"], sent.headers["x-api-key"]) for sent in transport.requests
    ] == [
        ("/1?page=1", "y", "k"),
        ("/2?page=2", "y", "k"),
    ]


def test_user_information_of_the_first_url_goes_with_the_next_page_and_a_servers_own_does_not(clock):
    transport, api = client(clock, link("https://evil:pw@api.example/2"), LAST)
    clock.run(take(api.paginate("https://me:p%3A%40ss@api.example/1")))
    first, second = transport.requests
    assert first.headers["authorization"] == second.headers["authorization"] == "Basic bWU6cDpAc3M="
    assert second.url == f"{HOME}/2"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/2",
        "http://api.example/2",
        "https://api.example:8443/2",
        "//evil.example/2",
        "https://api.example.evil.example/",
        "https://api.example@evil.example/",
    ],
)
@pytest.mark.parametrize("way", ["link", "json:next"])
def test_a_page_of_another_origin_is_refused(clock, target, way):
    answer = Answer(json={"next": target}, headers={"Link": f"<{target}?token=SECRET>; rel=next"})
    transport, api = client(clock, answer)
    got = []

    async def main():
        with pytest.raises(BadResponse, match=r"is not at https://api\.example") as caught:
            await take(api.paginate("/1", next=way), got)
        return caught.value

    error = clock.run(main())
    assert (got, len(transport.requests), len(error.attempts)) == (["/1"], 1, 1)
    assert "SECRET" not in str(error)


@pytest.mark.parametrize("target", ["ftp://api.example/2", "mailto:me", "http://", "https://[::1/", "https://a b/"])
def test_a_page_that_cannot_be_asked_for_is_a_bad_response(clock, target):
    _, api = client(clock, Answer(json={"next": target}))

    async def main():
        with pytest.raises(BadResponse, match="names the next page"):
            await take(api.paginate("/1", next="json:next"))

    clock.run(main())


@pytest.mark.parametrize(
    "script", [[link("/1")], [link("")], [link("#x")], [link("/2"), link("/1")], [link("/2"), link("/3"), link("/2")]]
)
def test_a_page_that_was_there_before_ends_with_an_error(clock, script):
    transport, api = client(clock, *script)

    async def main():
        with pytest.raises(BadResponse, match="was there before"):
            await take(api.paginate("/1"))

    clock.run(main())
    assert len(transport.requests) == len(script)


def test_a_cursor_that_stays_is_a_circle(clock):
    transport, api = client(clock, lambda _request: Answer(json={"c": "same"}))

    async def main():
        with pytest.raises(BadResponse, match="was there before"):
            await take(api.paginate("/1", next="cursor:c=c"))

    clock.run(main())
    assert len(transport.requests) == 2


@pytest.mark.parametrize("value", [7, True, ["/2"], {"url": "/2"}])
def test_what_is_no_url_is_a_bad_response(clock, value):
    _, api = client(clock, Answer(json={"next": value}))

    async def main():
        with pytest.raises(BadResponse, match="next holds a"):
            await take(api.paginate("/1", next="json:next"))

    clock.run(main())


def test_a_number_where_a_url_should_be_names_the_way_for_it(clock):
    _, api = client(clock, Answer(json={"next": 2}))

    async def main():
        with pytest.raises(BadResponse, match='say next="cursor:PATH=PARAM"'):
            await take(api.paginate("/1", next="json:next"))

    clock.run(main())


def test_a_cursor_that_cannot_be_sent_is_a_bad_response(clock):
    _, api = client(clock, Answer(content=b'{"c": "\\ud800"}'))

    async def main():
        with pytest.raises(BadResponse, match="cursor that cannot be sent"):
            await take(api.paginate("/1", next="cursor:c=c"))

    clock.run(main())


def test_a_body_that_is_no_json_is_a_bad_response(clock):
    _, api = client(clock, Answer(content=b"<html>"))

    async def main():
        with pytest.raises(BadResponse, match="no JSON"):
            await take(api.paginate("/1", next="json:next"))

    clock.run(main())


def endless(request):
    return link(f"/{int(request.url.rpartition('/')[2]) + 1}")


def test_max_pages_bounds_them(clock):
    transport, api = client(clock, endless)
    assert clock.run(take(api.paginate("/1", max_pages=3))) == ["/1", "/2", "/3"]
    assert len(transport.requests) == 3


def test_each_page_is_paced_by_the_limits(clock):
    _, api = client(clock, endless, rate="2/10s")

    async def main():
        began = clock.now()
        return [(clock.now() - began) // 10**9 async for _ in api.paginate("/1", max_pages=5)]

    assert clock.run(main()) == [0, 0, 10, 10, 20]


def test_a_page_is_asked_for_only_when_the_one_before_was_taken(clock):
    transport, api = client(clock, endless)

    async def main():
        async for _ in api.paginate("/1"):
            assert len(transport.requests) == 1
            break

    clock.run(main())


def test_a_page_that_is_an_error_is_raised_or_the_last_one(clock):
    _, api = client(clock, link("/2"), 404, link("/2"), 404)

    async def main():
        with pytest.raises(StatusError):
            await take(api.paginate("/1"))
        return await take(api.paginate("/1", raise_for="never"))

    assert clock.run(main()) == ["/1", "/2"]


def test_pages_come_as_values_of_the_type_that_is_named_and_one_that_is_no_success_is_raised(clock):
    first = Answer(json=[1], headers={"Link": "</2>; rel=next"})
    second = Answer(json=[2], headers={"Link": "</3>; rel=next"})
    _, api = client(clock, first, second, Answer(302, json=[3]), raise_for="never")

    async def main():
        pages = api.paginate("/1", into=list[int])
        got = [await anext(pages), await anext(pages)]
        with pytest.raises(StatusError) as caught:
            await anext(pages)
        return got, caught.value.status_code

    assert clock.run(main()) == ([[1], [2]], 302)


class Named:
    """A URL of yet another library."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


Named.__name__ = "URL"


@pytest.mark.parametrize("kind", [yarl.URL, Named])
@pytest.mark.parametrize("start", [HOME, ""])
def test_the_first_url_may_be_an_object(clock, kind, start):
    """HT-001"""
    _, api = client(clock, link("/2"), LAST)
    assert clock.run(take(api.paginate(kind(f"{start}/1")))) == ["/1", "/2"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"next": "links"}, "next"),
        ({"next": "json:"}, "next"),
        ({"next": "json"}, "next"),
        ({"next": "cursor:c"}, "next"),
        ({"next": "cursor:c="}, "next"),
        ({"next": "cursor:=c"}, "next"),
        ({"next": None}, "next"),
        ({"next": 7}, "next"),
        ({"max_pages": 0}, "max_pages"),
        ({"into": object()}, "into"),
        ({"max_pages": "3"}, "max_pages"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_at_the_call(clock, wrong, named):
    _, api = client(clock)
    with pytest.raises(OptionsError) as caught:
        api.paginate("/1", **wrong)
    assert caught.value.option == named


def test_a_function_that_has_to_be_awaited_is_refused(clock):
    async def following(response):
        return None

    with pytest.raises(OptionsError, match="next="):
        client(clock)[1].paginate("/1", next=following)


async def test_pages_come_over_the_wire():
    first = ok(b"[1]", "Content-Type: application/json", "Link: </x?page=2>; rel=next", "Link: </x?page=9>; rel=last")
    async with Scripted(in_turn(first, ok(b"[2]", "Content-Type: application/json"))) as server:
        async with AsyncClient(server.url) as api:
            assert [page.data async for page in api.paginate("/x")] == [[1], [2]]
        assert [seen.target for seen in server.seen] == ["/x", "/x?page=2"]
