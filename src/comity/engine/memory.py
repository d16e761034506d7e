"""Memory: a file in which one process tells the next what its hosts taught."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import msgspec

from comity.errors import OptionsError, StoreError
from comity.policy.memory import HostMemory
from comity.policy.units import NS

KEPT_FOR = 7 * 86_400 * NS
"""What is older is forgotten, ns."""

_FORM = "a file that comity wrote, or the name of one to be made in a directory that is there"


class _Kept(msgspec.Struct):
    """The file: JSON."""

    comity_memory: int
    hosts: dict[str, HostMemory]


class Memory:
    """What is kept in a file, by limiter name.

    Several processes may share one: each replaces it as a whole, with what it knows better and what the others wrote.

    Args:
        path: where; it is made when there is something to keep.

    Raises:
        OptionsError: the file is there and is no memory of comity, or cannot be read, or its directory is not there.

    Attributes:
        hosts: what was kept, or handed over since.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        if not isinstance(path, str | PathLike):
            raise OptionsError("memory", path, _FORM)
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise OptionsError("memory", str(path), _FORM, reason="its directory is not there")
        self.hosts: dict[str, HostMemory] = self._read()
        self._own: set[str] = set()

    def keep(self, hosts: Mapping[str, HostMemory | None]) -> None:
        """Note what is known of hosts now; None is nothing to keep."""
        for name, memory in hosts.items():
            self._own.add(name)
            if memory is None:
                self.hosts.pop(name, None)
            else:
                self.hosts[name] = memory

    def save(self, wall: int) -> None:
        """Write the file, `wall` ns since the epoch.

        Raises:
            StoreError: it cannot be written.
        """
        if not self._own:
            return
        try:
            others = {name: memory for name, memory in self._read().items() if name not in self._own}
        except OptionsError as error:
            raise StoreError(f"memory {self.path} is no longer a file that comity wrote: {error}") from None
        known = others | {name: memory for name, memory in self.hosts.items() if name in self._own}
        fresh = {name: memory for name, memory in sorted(known.items()) if wall - memory.at < KEPT_FOR}
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            beside.write_bytes(msgspec.json.encode(_Kept(1, fresh)) + b"\n")
            beside.replace(self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StoreError(
                f"memory {self.path} cannot be written: {(error.strerror or str(error)).lower()}"
            ) from error

    def _read(self) -> dict[str, HostMemory]:
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return {}
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OptionsError("memory", str(self.path), _FORM, reason=reason) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise OptionsError("memory", str(self.path), _FORM, reason=f"it is none: {error}") from None
        if kept.comity_memory != 1:
            raise OptionsError("memory", str(self.path), _FORM, reason=f"it has version {kept.comity_memory}, not 1")
        return kept.hosts

    def __repr__(self) -> str:
        return f"<Memory {str(self.path)!r}>"
