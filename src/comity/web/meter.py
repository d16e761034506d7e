"""Meter: counts answers, and writes numbers in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Sample = tuple[Mapping[str, str], float]


class Meter:
    """Counts answers by method, path (as the API's description writes it) and status."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()

    def count(self, method: str, path: str, status: int) -> None:
        """Count an answer."""
        self._answers[method, path, status] += 1

    def samples(self) -> list[Sample]:
        """Return all counts."""
        return [
            ({"method": method, "path": path, "status": str(status)}, count)
            for (method, path, status), count in sorted(self._answers.items())
        ]


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    r"""Return one family of metrics as text (prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4).

    Example:
        >>> print(family("up", "gauge", "Whether it is up.", [({"a": 'b"c'}, 1)]))
        # HELP up Whether it is up.
        # TYPE up gauge
        up{a="b\"c"} 1
    """
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(told)}"' for label, told in labels.items())
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
