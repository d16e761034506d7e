"""Policies: terms of sending and retrying that stand under a name in the configuration, for submissions to ask for.

What a policy says is read when a submission is taken in, and stored with it: a policy that is changed later changes
nothing of what was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from comity.errors import OptionsError
from comity.policy.naming import check_choice
from comity.service.terms import BackoffMs, MaxRetries, Signed, Strict4xx, TimeoutMs
from comity.settings import Entry


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says; what it leaves out is as it always is."""

    max_retries: MaxRetries | UnsetType = UNSET
    backoff_ms: BackoffMs | UnsetType = UNSET
    strict_4xx: Strict4xx | UnsetType = UNSET
    timeout_ms: TimeoutMs | UnsetType = UNSET
    signed: Signed | UnsetType = UNSET


FIELDS: tuple[str, ...] = Preset.__struct_fields__
"""What policies are about."""


class Policies:
    """All of them, by name.

    Args:
        entries: what the configuration says of each.

    Raises:
        OptionsError: something cannot be used; the message names the file, the policy and the option.
    """

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self._presets = {name: _preset(entry) for name, entry in (entries or {}).items()}

    @property
    def names(self) -> list[str]:
        """Their names, sorted."""
        return sorted(self._presets)

    def fields(self, name: str) -> dict[str, Any]:
        """Return what a policy says, by field.

        Raises:
            OptionsError: there is none of that name.
        """
        if not self._presets:
            raise OptionsError("policy", name, reason="none is configured here, by a table [policies.NAME]")
        check_choice(name, "policy", self.names)
        return given_terms(self._presets[name])


def given_terms(of: msgspec.Struct) -> dict[str, Any]:
    """Return those of the fields that policies are about which something gives."""
    return {name: value for name in FIELDS if (value := getattr(of, name)) is not UNSET}


def _preset(entry: Entry) -> Preset:
    if not entry.name.strip():
        raise OptionsError("policies", entry.name, "names that are not blank, such as [policies.gentle]")
    entry.check_names(FIELDS)
    for name, value in entry.options.items():
        try:
            msgspec.convert({name: value}, Preset)
        except msgspec.ValidationError as error:
            allowed = str(error).removeprefix("Expected ").partition(" - at ")[0].replace("`", "")
            raise OptionsError(entry.label(name), value, allowed) from None
    return msgspec.convert(entry.options, Preset)
