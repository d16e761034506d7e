"""Machine: what the figures of a run were measured on."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from benchmarks import peers, undici


def facts() -> str:
    """Return cores, load, processor, interpreter and versions, one line each."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {peers.version(name)}" for name in ("comity", *peers.DISTRIBUTIONS))
    return (
        f"cores     {cores}, load {_load()}\n"
        f"machine   {_processor()}, {platform.system()} {platform.release()}\n"
        f"python    {platform.python_implementation()} {sys.version.split()[0]}\n"
        f"versions  {versions}\n"
        f"node      {undici.versions()}"
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
