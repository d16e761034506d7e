"""clock_text: a length of time as people read it."""

from __future__ import annotations


def clock_text(seconds: float) -> str:
    """Return a length of time for people: "0.4 s", "45 s", "3:05", "2:00:07"."""
    if 0 < seconds < 9.95:
        return f"{f'{seconds:.1f}'.removesuffix('.0')} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
