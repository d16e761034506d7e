"""Every example in a docstring is executed."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import comity

MODULES = ["comity", *(found.name for found in pkgutil.walk_packages(comity.__path__, "comity."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_the_examples_of_a_module_give_what_they_say(name):
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0
