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
        inside = ",".join([f'{label}="{_escaped(told)}"' for label, told in labels.items()])
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return "\n".join(lines)


def table(
    name: str, kind: str, text: str, labels: tuple[str, str], rows: Iterable[tuple[str, Mapping[str, int]]]
) -> str:
    """Return one family of metrics, as `family`, that has several values for each of many things.

    The labels are what things and their values are called; a row is a thing with its values by what they are of, in words of ours.
    """
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    thing, what = labels
    for key, values in rows:
        begin = f'{name}{{{thing}="{_escaped(key)}",{what}="'
        lines.extend([f'{begin}{each}"}} {value}' for each, value in values.items()])
    return "\n".join(lines)


def summary(name: str, text: str, total: float, count: int) -> str:
    """Return one family of metrics, as `family`, that has a sum of observations and their number."""
    return f"# HELP {name} {text}\n# TYPE {name} summary\n{name}_sum {total}\n{name}_count {count}"


def _escaped(text: str) -> str:
    if '"' in text or "\\" in text or "\n" in text:  # hardly any has one, and there are thousands
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text
