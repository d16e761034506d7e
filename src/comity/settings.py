"""Settings: one table of what the service's commands can be told, by a flag, a variable, a `.env` file or a TOML file.

The first of these that says something wins: flags, then the environment, then `.env` of the working directory, then the
file of `--config` or COMITY_CONFIG, then the default. Every value is text, however it came, so that one reader checks it.
"""

from __future__ import annotations

import re
import tomllib
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from comity.errors import OptionsError
from comity.policy.naming import check_choice, check_names, nearest
from comity.policy.rate import arrivals
from comity.policy.token import is_token
from comity.policy.units import duration, parse_integer, required, size

PREFIX = "COMITY_"

CONFIG = PREFIX + "CONFIG"
"""The variable that names the TOML file where --config does not."""

Group = Literal["store", "api", "worker", "client", "log"]
"""What a setting is about; a command takes those of the groups that it needs."""

_HEX = re.compile(r"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A table of options in the TOML file.

    Args:
        name: what stands under, such as a host.
        options: as they stand there.
        label: what an option of it is called in messages.
    """

    name: str
    options: Mapping[str, Any]
    label: Callable[[str], str]

    def check_names(self, allowed: Iterable[str]) -> None:
        """Refuse an option that such a table does not have.

        Raises:
            OptionsError: there is one; its value may be anything and is not shown.
        """
        names = list(allowed)
        for name in self.options:
            if name not in names:
                raise OptionsError(
                    self.label(name), None, f"one of {', '.join(names)}", nearest(name, names), secret=True
                )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table.

    Args:
        name: in Python and in TOML; the flag and the variable are made of it.
        default: as it would be written; None where there is none.
        unit: what form a value has.
        text: what it does.
        read: checks a text, given what to call it in messages.
        group: what it is about.
        several: it may be given several times; in a variable, separated by commas.
        secret: its value is one, so there is no flag (others see a process's arguments) and no message shows it.
        table: it is made of tables of the TOML file, [NAME.KEY], each an `Entry` that `read` checks; nothing else can say it.
    """

    name: str
    default: str | None
    unit: str
    text: str
    group: Group
    read: Callable[[Any, str], Any]
    several: bool = False
    secret: bool = False
    table: bool = False

    @property
    def flag(self) -> str | None:
        """The command-line option, if there is one."""
        return None if self.secret or self.table else f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return PREFIX + self.name.upper()


def _text(given: str, option: str) -> str:
    if not given.strip():
        raise OptionsError(option, given, "a text that is not blank")
    return given.strip()


def _yes_or_no(given: str, option: str) -> bool:
    word = given.strip().lower()
    if word not in {"true", "false", "yes", "no", "on", "off", "1", "0"}:
        raise OptionsError(option, given, "yes or no")
    return word in {"true", "yes", "on", "1"}


def _whole(least: int, most: int) -> Callable[[str, str], int]:
    return lambda given, option: parse_integer(given, option, least, most)


def _count_or_off(given: str, option: str) -> int | None:
    return None if given.strip().lower() == "off" else parse_integer(given, option, 1)


def _path(given: str, option: str) -> Path:
    return Path(_text(given, option)).expanduser()


def _key(given: str, option: str) -> bytes:
    text = given.strip()
    try:
        key = bytes.fromhex(text) if _HEX.fullmatch(text) else b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != 32:
        allowed = "32 random bytes in base64 or hex, such as `openssl rand -base64 32` prints"
        raise OptionsError(option, None, allowed, secret=True)
    return key


def _header(given: str, option: str) -> str:
    if not is_token(given.strip()):
        raise OptionsError(option, given, "the name of a header, such as X-Customer-Key")
    return given.strip()


def _adaptive(given: str, option: str) -> str | None:
    word = {"true": "auto", "false": "off"}.get(given, given)
    check_choice(word, option, ("auto", "ema", "off"))
    return None if word == "off" else word


def _host(entry: Entry, option: str) -> dict[str, object]:
    """Return the options of a host; None where one stands for no limit."""
    from comity.policy.host_key import HostKey
    from comity.policy.options import Policy

    try:
        whole = not HostKey(entry.name).conditional
    except OptionsError:
        whole = False
    if not whole:
        raise OptionsError(
            option, entry.name, 'names of hosts, such as [hosts."api.example.com"] or [hosts."10.0.0.1:8080"]'
        )
    wanted = {row.name: row for row in HOST}
    entry.check_names(wanted)
    found = resolve(
        [wanted[name] for name in entry.options],
        [Said({name: _words(value) for name, value in entry.options.items()}, lambda row: entry.label(row.name))],
    )
    try:
        Policy(**found)
    except OptionsError as error:  # each can be used, but not together
        raise OptionsError(
            entry.label(error.option), error.value, error.allowed, error.hint, reason=error.reason
        ) from None
    return found


def _entry(entry: Entry, _option: str) -> Entry:
    return entry


def _log(given: str, option: str) -> str:
    check_choice(given, option, ("text", "json", "off"))
    return given


HOST: tuple[Setting, ...] = (
    Setting(
        name="rate", default=None, unit="R", group="worker", read=arrivals, several=True,
        text="Arrivals per time: 50/5s.",
    ),
    Setting(
        name="concurrency", default=None, unit="N", group="worker", read=_count_or_off,
        text="Sends in flight at once, or off.",
    ),
    Setting(
        name="min_gap", default=None, unit="D", group="worker", read=duration,
        text="The least time between two starts.",
    ),
    Setting(
        name="adaptive", default=None, unit="auto|ema|off", group="worker", read=_adaptive,
        text="Let concurrency, and with auto the rate, follow what answers tell.",
    ),
    Setting(
        name="obey_quotas", default=None, unit="yes|no", group="worker", read=_yes_or_no,
        text="Spread what answers announce to be left of a quota over the time to its reset.",
    ),
)  # fmt: skip
"""What can be said of a host, in its table of the TOML file; what is left out is as for all others."""

TABLE: tuple[Setting, ...] = (
    Setting(
        name="store", default="sqlite:///comity.db", unit="URL", group="store", read=_text,
        text="Where deliveries are: sqlite:///FILE (four slashes for an absolute path), or postgresql://user@host/database.",
    ),
    Setting(
        name="host", default="127.0.0.1", unit="ADDRESS", group="api", read=_text,
        text="Where the API listens; other than loopback needs a token file.",
    ),
    Setting(
        name="port", default="3000", unit="N", group="api", read=_whole(0, 65535),
        text="Its port; 0 takes a free one.",
    ),
    Setting(
        name="token_file", default=None, unit="FILE", group="api", read=_path,
        text="Who may do what: lines of NAME SCOPES TOKEN, scopes of submit, read, admin.",
    ),
    Setting(
        name="max_request", default="1MB", unit="SIZE", group="api", read=size,
        text="The longest submission.",
    ),
    Setting(
        name="max_queue", default="1000000", unit="N", group="api", read=_count_or_off,
        text="So many deliveries may wait; one more is refused with 429. off removes the bound.",
    ),
    Setting(
        name="allow", default=None, unit="CIDR|NAME", group="worker", read=_text, several=True,
        text="What deliveries may reach besides the public internet.",
    ),
    Setting(
        name="allow_metadata", default="no", unit="yes|no", group="worker", read=_yes_or_no,
        text="Let --allow also allow addresses at which clouds hand out credentials.",
    ),
    Setting(
        name="slots", default="100", unit="N", group="worker", read=_whole(1, 10_000),
        text="Deliveries that a worker has on the way at a time.",
    ),
    Setting(
        name="rate", default=None, unit="R", group="worker", read=arrivals, several=True,
        text="Arrivals per time at an origin whose lane has no limits: 50/5s.",
    ),
    Setting(
        name="concurrency", default="10", unit="N", group="worker", read=_count_or_off,
        text="Sends in flight at once, likewise.",
    ),
    Setting(
        name="hosts", default=None, unit="TABLE", group="worker", read=_host, table=True,
        text="Limits of some hosts, in the file of --config: [hosts.\"api.example.com\"].",
    ),
    Setting(
        name="policies", default=None, unit="TABLE", group="api", read=_entry, table=True,
        text="Terms of retrying for submissions to ask for by name, in the file of --config: [policies.NAME].",
    ),
    Setting(
        name="timeout", default=None, unit="D", group="worker", read=duration,
        text="Longest time of one attempt; by default 30 s for each phase.",
    ),
    Setting(
        name="keep_body", default="256KB", unit="SIZE", group="worker", read=size,
        text="So much of an answer's body is kept.",
    ),
    Setting(
        name="keep_ended", default="7d", unit="D", group="worker", read=required,
        text="How long completed and cancelled deliveries are kept.",
    ),
    Setting(
        name="keep_failed", default="30d", unit="D", group="worker", read=required,
        text="How long failed deliveries are kept.",
    ),
    Setting(
        name="disable_after", default="off", unit="D", group="worker", read=partial(duration, minimum=1.0),
        text="A lane is paused by itself when its attempts did nothing but fail for so long.",
    ),
    Setting(
        name="callback_secrets", default=None, unit="whsec_...", group="worker", read=_text, several=True, secret=True,
        text="What callbacks and signed deliveries are signed with, the newest first; without it there are none.",
    ),
    Setting(
        name="lease", default="30s", unit="D", group="worker",
        read=partial(required, minimum=1.0),  # renewed three times in it, over a network and a disk that may be slow
        text="When a worker falls silent for so long, others take over what it held.",
    ),
    Setting(
        name="encryption_keys", default=None, unit="KEY", group="worker", read=_key, several=True, secret=True,
        text="What headers that hold secrets are stored under, the newest first: 32 random bytes each, in base64 or hex.",
    ),
    Setting(
        name="secret_headers", default=None, unit="NAME", group="worker", read=_header, several=True,
        text="Headers that hold secrets, besides those whose names say so.",
    ),
    Setting(
        name="drain", default="30s", unit="D", group="worker", read=required,
        text="How long attempts under way may take at the end.",
    ),
    Setting(
        name="url", default="http://127.0.0.1:3000", unit="URL", group="client", read=_text,
        text="Where the service is.",
    ),
    Setting(
        name="token", default=None, unit="TOKEN", group="client", read=_text, secret=True,
        text="What the service knows this program by.",
    ),
    Setting(
        name="log", default="text", unit="text|json|off", group="log", read=_log,
        text="How lines on standard error look; json has one for each request of the API too, with who asked.",
    ),
)  # fmt: skip


_TABLES = frozenset(row.name for row in TABLE if row.table)


def rows(*groups: Group) -> list[Setting]:
    """Return the settings of some groups."""
    return [row for row in TABLE if row.group in groups]


@dataclass(frozen=True)
class Said:
    """What one source says.

    Args:
        values: text, or several, by name of the setting; of a table what stands in the file.
        label: what a setting is called there, for messages.
    """

    values: Mapping[str, Any]
    label: Callable[[Setting], str]


def resolve(wanted: Iterable[Setting], sources: Sequence[Said]) -> dict[str, Any]:
    """Return checked values by name.

    Args:
        wanted: the settings.
        sources: the strongest first.

    Raises:
        OptionsError: a value cannot be used; the message names its source.
    """
    found: dict[str, Any] = {}
    for row in wanted:
        said = next((source for source in sources if row.name in source.values), None)
        given = row.default if said is None else said.values[row.name]
        label = row.name if said is None else said.label(row)
        if row.table:
            found[row.name] = {} if said is None else _entries(row, given, said)
        elif given is None:
            found[row.name] = [] if row.several else None
        elif row.several:
            parts = given.split(",") if isinstance(given, str) else given
            found[row.name] = [_read(row, part, label) for part in parts if part.strip()]
        else:
            found[row.name] = _read(row, given if isinstance(given, str) else given[-1], label)
    return found


def examine(wanted: Iterable[Setting], sources: Sequence[Said]) -> tuple[dict[str, Any], dict[str, OptionsError]]:
    """Return checked values by name, and likewise what is wrong with those that cannot be used, which have their defaults."""
    found, wrong = dict[str, Any](), dict[str, OptionsError]()
    for row in wanted:
        try:
            found |= resolve([row], sources)
        except OptionsError as error:
            wrong[row.name] = error
            found |= resolve([row], ())
    return found, wrong


def from_flags(given: Mapping[str, str | Sequence[str] | None]) -> Said:
    """Return what the command line says; None and [] mean nothing."""
    return Said({name: value for name, value in given.items() if value}, lambda row: str(row.flag))


def from_environment(environ: Mapping[str, str], where: str = "") -> Said:
    """Return what variables say; a blank one says nothing.

    Args:
        environ: the variables.
        where: the file that they stand in, for messages.
    """
    told = {row.name: environ.get(row.variable, "") for row in TABLE if not row.table}
    values = {name: text for name, text in told.items() if text.strip()}
    return Said(values, lambda row: f"{row.variable} (in {where})" if where else row.variable)


def config_file(given: Path | None, *variables: Mapping[str, str]) -> tuple[Path | None, str]:
    """Return which TOML file is meant, and by what.

    Args:
        given: what --config says.
        variables: of the environment and of `.env`, the strongest first.
    """
    if given is not None:
        return given, "--config"
    named = next((text for each in variables if (text := each.get(CONFIG, "").strip())), None)
    return None if named is None else Path(named).expanduser(), CONFIG


def from_toml(path: Path, option: str = "--config") -> Said:
    """Return what a TOML file says: in its table [comity] and the tables beside that, or else at its top.

    Args:
        path: the file.
        option: what named it, for messages.

    Raises:
        OptionsError: it cannot be read, or has a name that no setting has, or one that stands beside [comity] and belongs into it.
    """
    try:
        told: Any = tomllib.loads(content(path, option))
    except tomllib.TOMLDecodeError as error:
        raise OptionsError(option, str(path), "a TOML file", reason=str(error)) from None
    told = _one_table(told, path, option)
    check_names(str(path), told, [row.name for row in TABLE])
    values = {name: value if name in _TABLES else _words(value) for name, value in told.items()}
    return Said(values, lambda row: f"{row.name} (in {path})")


def _one_table(told: dict[str, Any], path: Path, option: str) -> dict[str, Any]:
    """Return all that a file says as one table, wherever it may stand."""
    if "comity" not in told:
        return told
    own = told["comity"]
    if not isinstance(own, dict):
        raise OptionsError(option, str(path), "a TOML file with a table [comity]")
    beside = {name: value for name, value in told.items() if name != "comity"}
    others = " and ".join(f"[{name}.NAME]" for name in sorted(_TABLES))
    for name in beside:
        if name in _TABLES and name not in own:
            continue
        why = "it stands in both places" if name in own else f"beside the table [comity] only {others} may stand"
        raise OptionsError(f"{name} (in {path})", None, "one place, inside [comity]", reason=why, secret=True)
    return own | beside


def _read(row: Setting, text: str, label: str) -> Any:
    try:
        return row.read(text, label)
    except OptionsError as error:
        if row.secret:
            raise OptionsError(label, None, error.allowed, secret=True) from None
        raise


def _entries(row: Setting, given: object, said: Said) -> dict[str, Any]:
    """Return what the entries of a table say, by their names."""
    example = f"tables such as [{row.name}.NAME]"
    if not isinstance(given, Mapping):
        raise OptionsError(said.label(row), given, example)
    found = {}
    for name, options in given.items():
        where = f'{row.name}."{name}"'
        if not isinstance(options, Mapping):
            raise OptionsError(said.label(replace(row, name=where)), options, example)
        entry = Entry(name=name, options=options, label=_inside(row, where, said))
        found[name] = row.read(entry, said.label(row))
    return found


def _inside(row: Setting, where: str, said: Said) -> Callable[[str], str]:
    return lambda option: said.label(replace(row, name=f"{where}.{option}"))


def _words(value: object) -> str | list[str]:
    return [_plain(each) for each in value] if isinstance(value, list) else _plain(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def content(path: Path, option: str) -> str:
    """Return the text of a file of settings; `option` is what named it, for messages.

    Raises:
        OptionsError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionsError(option, str(path), "a file that can be read", reason=str(error)) from None
