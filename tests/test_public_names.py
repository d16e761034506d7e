"""`import comity`: quick, lazy, and the same names at run time as for a type checker."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import comity


def test_importing_comity_loads_none_of_the_slow_modules():
    slow = {"asyncio", "aiohttp", "typer", "rich", "msgspec", "typing", "logging", "socket"}
    code = f"import sys; before = set(sys.modules); import comity; print(*{slow!r} & (set(sys.modules) - before))"
    # Coverage of child processes would load some of them first.
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, env=quiet)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", sorted(comity.__all__))
def test_each_public_name_is_found_where_the_table_says_and_says_what_it_is(name):
    value = getattr(comity, name)
    assert value.__name__ == name
    assert value.__doc__


def test_the_type_checker_sees_the_names_of_the_table():
    tree = ast.parse(Path(comity.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    modules = {name: home.rpartition(".")[0] for name, home in comity._MODULES.items()}
    assert seen == comity._HOME_OF | modules


def test_what_needs_another_library_is_found_by_name_alone():
    assert comity.httpx.AsyncTransport.__module__ == "comity.integrations.httpx"
    assert set(comity._MODULES).isdisjoint(comity.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="'comity' has no attribute 'AsyncKlient'"):
        comity.AsyncKlient  # noqa: B018 - the access is the test


def test_dir_lists_the_public_names():
    assert set(comity.__all__) <= set(dir(comity))


def test_the_installed_version_is_the_module_version():
    assert metadata.version("comity") == comity.__version__
