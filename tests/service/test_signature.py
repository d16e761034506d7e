"""signature: Standard Webhooks, signed and checked."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from comity.errors import BadSignature, OptionsError
from comity.policy.units import NS
from comity.service.signature import Signer, new_secret

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + b64encode(bytes(range(24))).decode()
BODY = b'{"test": 2432232314}'
SENT = 1_614_265_330 * NS
HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def by_hand(secret: str, text: bytes) -> str:
    key = b64decode(secret.removeprefix("whsec_"))
    return f"v1,{b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()}"


def test_the_known_answer_is_signed_and_accepted():
    signer = Signer([SECRET])
    assert signer.headers(HEADERS["webhook-id"], SENT, BODY) == HEADERS
    signer.verify(HEADERS, BODY, now=SENT)


def test_id_timestamp_and_payload_are_signed_with_full_stops_between_them():
    made = Signer([OTHER]).headers("d-1", 7 * NS + 999_999_999, b"\x00\xff.")
    assert made["webhook-timestamp"] == "7"
    assert made["webhook-signature"] == by_hand(OTHER, b"d-1.7.\x00\xff.")


def test_while_a_secret_is_changed_both_sign_and_either_is_known():
    both = Signer([OTHER, SECRET])
    made = both.headers("d", SENT, BODY)
    new, old = made["webhook-signature"].split(" ")
    text = b"d.1614265330." + BODY
    assert (new, old) == (by_hand(OTHER, text), by_hand(SECRET, text))
    for receiver in (both, Signer([SECRET]), Signer([OTHER])):
        receiver.verify(made, BODY, now=SENT)
    both.verify(HEADERS, BODY, now=SENT)


def test_names_of_headers_are_told_apart_without_case():
    Signer([SECRET]).verify({name.title(): value for name, value in HEADERS.items()}, BODY, now=SENT)


def test_signatures_of_other_kinds_stand_beside_it():
    more = HEADERS | {
        "webhook-signature": f"v1a,zzz v2,{HEADERS['webhook-signature'][3:]} {HEADERS['webhook-signature']}"
    }
    Signer([SECRET]).verify(more, BODY, now=SENT)


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": "1614265331"},
        {"webhook-signature": by_hand(OTHER, b"x")},
        {"webhook-signature": HEADERS["webhook-signature"].replace("v1,", "v2,")},
        {"webhook-signature": HEADERS["webhook-signature"][3:]},
        {"webhook-signature": HEADERS["webhook-signature"][:-1]},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": ""},
        {"webhook-id": ""},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "１６１４２６５３３０"},
        {"webhook-timestamp": "1614265330.0"},
        {"webhook-timestamp": "9" * 5_000},
    ],
)
def test_what_was_changed_is_refused(changed):
    with pytest.raises(BadSignature):
        Signer([SECRET]).verify(HEADERS | changed, BODY, now=SENT)


@pytest.mark.parametrize("payload", [b"", BODY + b" ", BODY.replace(b"2", b"3")])
def test_another_body_is_refused(payload):
    with pytest.raises(BadSignature, match="or it was changed"):
        Signer([SECRET]).verify(HEADERS, payload, now=SENT)


@pytest.mark.parametrize("missing", HEADERS)
def test_a_missing_header_is_refused(missing):
    with pytest.raises(BadSignature):
        Signer([SECRET]).verify({name: value for name, value in HEADERS.items() if name != missing}, BODY, now=SENT)


def test_a_full_stop_in_an_id_cannot_move_the_bounds_of_what_is_signed():
    signer = Signer([SECRET])
    made = signer.headers("d", SENT, b"1.body")
    with pytest.raises(BadSignature, match="no usable webhook-id"):
        signer.verify(made | {"webhook-id": "d.1614265330", "webhook-timestamp": "1"}, b"body", now=NS)


@pytest.mark.parametrize(("off", "tolerance"), [(300, 300), (-300, "5min"), (5, "5s"), (0, 0)])
def test_a_timestamp_within_the_tolerance_is_accepted(off, tolerance):
    Signer([SECRET]).verify(HEADERS, BODY, now=SENT + off * NS, tolerance=tolerance)


@pytest.mark.parametrize(("off", "tolerance"), [(301, 300), (-301, "5min"), (6, "5s"), (-1, 0)])
def test_one_outside_of_it_is_refused_either_way(off, tolerance):
    with pytest.raises(BadSignature, match="s from now"):
        Signer([SECRET]).verify(HEADERS, BODY, now=SENT + off * NS, tolerance=tolerance)


def test_the_bound_of_the_tolerance_is_exact():
    """To the nanosecond, of which a float of this size knows nothing."""
    Signer([SECRET]).verify(HEADERS, BODY, now=SENT + 5 * NS, tolerance=5)
    with pytest.raises(BadSignature):
        Signer([SECRET]).verify(HEADERS, BODY, now=SENT + 5 * NS + 1, tolerance=5)


def test_the_tolerance_is_five_minutes_unless_said_otherwise():
    signer = Signer([SECRET])
    signer.verify(HEADERS, BODY, now=SENT + 300 * NS)
    with pytest.raises(BadSignature, match="more than 300 s from now"):
        signer.verify(HEADERS, BODY, now=SENT + 301 * NS)


def test_a_new_secret_can_be_used_and_is_another_each_time():
    made = {new_secret() for _ in range(10)}
    assert len(made) == 10
    Signer(sorted(made))


@pytest.mark.parametrize(
    "keys",
    [
        [], SECRET, None, [None], [""], ["whsec_"], [SECRET.removeprefix("whsec_")], ["whsec_!" + SECRET[7:]],
        ["whsec_" + b64encode(bytes(23)).decode()], [SECRET, "whsec_short"],
    ],
)  # fmt: skip
def test_what_is_no_secret_is_an_error_that_does_not_show_it(keys):
    with pytest.raises(OptionsError) as caught:
        Signer(keys)
    assert "MfKQ" not in str(caught.value)
    assert "short" not in str(caught.value)
    assert "COMITY_CALLBACK_SECRETS" in str(caught.value)


@pytest.mark.parametrize("delivery", ["", "a.b", "a b", "é", "x" * 201, "a\n"])
def test_an_id_that_cannot_be_signed_is_an_error(delivery):
    with pytest.raises(OptionsError, match="webhook-id"):
        Signer([SECRET]).headers(delivery, SENT, BODY)


def test_a_signer_shows_no_secret():
    assert "MfKQ" not in repr(Signer([SECRET]))
