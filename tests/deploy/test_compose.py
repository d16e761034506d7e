"""Deployment by compose: its services are started with what comity knows, and find one another."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from comity.policy.units import required
from comity.service.stores import sqlite_file
from tests.deploy.told import CMD, HELD, VARIABLES, settings, text

COMPOSE = yaml.safe_load(re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text("compose.yaml")))
SERVICES = {name: each for name, each in COMPOSE["services"].items() if name != "database"}


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_starts_is_understood(name):
    """NP-035, NP-036: the environment file, then the bundled database; the default port."""
    service = SERVICES[name]
    assert service["env_file"] == "comity.env"
    assert not service["environment"].keys() - VARIABLES
    found = settings(service.get("command", CMD), HELD | service["environment"])
    assert found["port"] == 3000
    assert required(service["stop_grace_period"], "stop_grace_period") > found["drain"]


def test_the_services_find_the_bundled_database_and_wait_for_its_schema():
    """NP-035: user, password and name are those with which it is made; NP-034: a step of its own migrates."""
    made = COMPOSE["services"]["database"]["environment"]
    for service in SERVICES.values():
        assert sqlite_file(service["environment"]["COMITY_STORE"]) is None
        url = urlsplit(service["environment"]["COMITY_STORE"])
        assert (url.scheme, url.hostname, url.port) == ("postgresql", "database", 5432)
        assert [url.username, url.password, url.path[1:]] == [
            made[f"POSTGRES_{each}"] for each in ("USER", "PASSWORD", "DB")
        ]
    assert {name: each["depends_on"] for name, each in SERVICES.items()} == {
        "migrate": {"database": {"condition": "service_healthy"}},
        "api": {"migrate": {"condition": "service_completed_successfully"}},
        "worker": {"migrate": {"condition": "service_completed_successfully"}},
    }
    assert SERVICES["worker"]["deploy"]["replicas"] == 2


def test_networks_volumes_and_secrets_that_are_named_are_there():
    for service in COMPOSE["services"].values():
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        assert set(service.get("secrets", ())) <= COMPOSE["secrets"].keys()
        assert {each.split(":")[0] for each in service.get("volumes", ())} <= COMPOSE["volumes"].keys()
    assert settings(CMD, {})["token_file"] == Path("/run/secrets") / SERVICES["api"]["secrets"][0]


def test_nobody_outside_reaches_the_database():
    assert COMPOSE["services"]["database"]["networks"] == ["store"]
    assert COMPOSE["networks"]["store"]["internal"]
    assert "ports" not in COMPOSE["services"]["database"]
