"""Deployment by compose: its service is started with what comity knows, and finds what it needs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from comity.policy.units import required
from tests.deploy.told import CMD, HELD, IMAGE, settings, text

COMPOSE = yaml.safe_load(text("compose.yaml"))
SERVICE = COMPOSE["services"]["comity"]
FOUND = settings(SERVICE.get("command", CMD), HELD | dict(re.findall(r"(COMITY_\w+)=(\S+)", IMAGE)))


def test_the_service_stores_into_its_volume():
    """NP-035: configured by the environment file; by default its database is the one that comes with it."""
    assert SERVICE["env_file"] == "comity.env"
    ((volume, place),) = [each.split(":") for each in SERVICE["volumes"]]
    assert volume in COMPOSE["volumes"]
    assert Path(FOUND["store"].removeprefix("sqlite:///")).parent == Path(place)


def test_the_service_is_reached_on_the_default_port_by_those_who_have_a_token():
    """NP-036"""
    assert SERVICE["ports"] == [f"127.0.0.1:{FOUND['port']}:3000"]
    (secret,) = SERVICE["secrets"]
    assert secret in COMPOSE["secrets"]
    assert FOUND["token_file"] == Path("/run/secrets", secret)


def test_a_stop_waits_longer_than_the_service_drains():
    assert required(SERVICE["stop_grace_period"], "stop_grace_period") > FOUND["drain"]
