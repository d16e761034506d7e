"""Commands whose options are rows of the table of settings."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from comity.cli.dotenv import dotenv
from comity.settings import (
    CONFIG,
    Group,
    Setting,
    config_file,
    examine,
    from_environment,
    from_flags,
    from_toml,
    rows,
)

if TYPE_CHECKING:
    from comity.errors import OptionsError

Command = Callable[..., None]

_LOCAL = Path(".env")

_CONFIG = Annotated[Path | None, typer.Option(metavar="FILE", help=f"A TOML file with settings.  \\[{CONFIG}]")]


def settled(*groups: Group) -> Callable[[Command], Command]:
    """Give a command the options of some groups of settings; it gets their checked values as `settings`.

    The exit code is 2 when one cannot be used, but of a command that takes `mistakes`: it gets, by the name of the setting or the
    file, what is wrong with each, and of these the defaults.
    """
    wanted = rows(*groups)

    def dressed(command: Command) -> Command:
        hears = "mistakes" in inspect.signature(command).parameters

        @wraps(command)
        def run(*, config: Path | None = None, **given: Any) -> None:
            from comity.cli import loops

            flags = {row.name: given.pop(row.name, None) for row in wanted}
            settings, mistakes = _settings(wanted, flags, config)
            if hears:
                given["mistakes"] = mistakes
            elif mistakes:
                loops.refuse(command.__name__, next(iter(mistakes.values())))
            command(settings=settings, **given)

        own = [
            each for name, each in inspect.signature(command).parameters.items() if name not in {"settings", "mistakes"}
        ]
        hints = get_type_hints(command, include_extras=True)
        options = [
            *(each.replace(annotation=hints[each.name]) for each in own),
            *(_option(row) for row in wanted if row.flag),
            inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_CONFIG),
        ]
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in options} | {"return": None}
        return run

    return dressed


def _settings(
    wanted: list[Setting], flags: dict[str, Any], config: Path | None
) -> tuple[dict[str, Any], dict[str, OptionsError]]:
    from comity.errors import OptionsError

    sources, wrong, local = (
        [from_flags(flags), from_environment(os.environ)],
        dict[str, OptionsError](),
        dict[str, str](),
    )
    try:
        local = dotenv(_LOCAL)
    except OptionsError as error:
        wrong[str(_LOCAL)] = error
    sources.append(from_environment(local, str(_LOCAL)))
    file, named = config_file(config, os.environ, local)
    if file is not None:
        try:
            sources.append(from_toml(file, named))
        except OptionsError as error:
            wrong[str(file)] = error
    settings, mistakes = examine(wanted, sources)
    return settings, wrong | mistakes


def _option(row: Setting) -> inspect.Parameter:
    # A word in brackets would be taken for a style.
    default = "" if row.default is None else f"  {'' if row.default[0].isdigit() else chr(92)}[{row.default}]"
    repeatable = " Repeatable." if row.several else ""
    told = typer.Option(row.flag, metavar=row.unit, help=f"{row.text}{repeatable}{default}")
    kind: Any = Annotated[list[str] | None, told] if row.several else Annotated[str | None, told]
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
