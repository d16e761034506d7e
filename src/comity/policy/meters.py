"""Meters: all rates of one host together, and what each ticket is charged with at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from comity.errors import OptionsError
from comity.policy.rate import Rate
from comity.policy.ticket import NOT_STARTED, State, Ticket
from comity.policy.units import integer
from comity.policy.windows import Meter, SlidingWindow, Spacing, meters

Costs = tuple[int, ...]
"""One number for each meter."""


class Meters:
    """The rates of one host.

    Args:
        rates: those that hold together.
        now: ns; fixed windows are anchored here.

    Attributes:
        ordinary: what a request costs that says nothing of it.
        minds_answers: whether the moment an answer begins matters to any rate.
        plain: the meters, if each is an exact window in which an ordinary request costs 1 and starts at its first byte.
    """

    __slots__ = ("_at_answer", "_most", "_rates", "_units", "each", "minds_answers", "ordinary", "plain")

    def __init__(self, rates: Iterable[Rate], now: int) -> None:
        self.each: list[Meter] = []
        self._rates: list[Rate] = []
        self._units: list[str] = []
        self._most: list[int] = []
        self._at_answer: list[bool] = []
        for rate in rates:
            for meter in meters(rate, now):
                self.each.append(meter)
                self._rates.append(rate)
                self._units.append(rate.unit)
                self._most.append(rate.max if rate.burst is None else rate.burst)
                self._at_answer.append(rate.measured == "server" and not isinstance(meter, Spacing))
        self.minds_answers = any(self._at_answer)
        self.ordinary = self._amounts({"requests": 1})
        windows = tuple(meter for meter in self.each if isinstance(meter, SlidingWindow) and meter.exact)
        plain = not self.minds_answers and len(windows) == len(self.each) and all(cost == 1 for cost in self.ordinary)
        self.plain: tuple[SlidingWindow, ...] | None = windows if plain else None

    def costs(self, cost: int | Mapping[str, int]) -> Costs:
        """Return what `cost` means for each meter.

        A number is the cost in requests. A mapping names budgets; a budget that it does not name costs 0, and the
        request itself costs 1 unless it names "requests".

        Raises:
            OptionsError: a cost is no whole number, is above its limit, or names no budget of this host.
        """
        if type(cost) is int and cost == 1:
            return self.ordinary
        return self._amounts({"requests": 1, **self._named("cost", cost)})

    def earliest(self, costs: Costs, now: int) -> int:
        """Return when all of `costs` may be reserved, or NEVER."""
        start = now
        for meter, cost in zip(self.each, costs, strict=True):
            if cost and (earliest := meter.earliest(now, cost)) > start:
                start = earliest
        return start

    def reserve(self, costs: Costs) -> None:
        """Take `costs` for a grant that has not started yet."""
        for meter, cost in zip(self.each, costs, strict=True):
            if cost:
                meter.reserve(cost)

    def undo(self, costs: Costs) -> None:
        """Give back what was reserved and never started."""
        for meter, cost in zip(self.each, costs, strict=True):
            if cost:
                meter.undo(cost)

    def date(self, ticket: Ticket, now: int, *, at_answer: bool) -> None:
        """Date what a ticket has reserved: at its first byte, or when its answer began."""
        marks: list[int | None] = ticket.marks if at_answer else [None] * len(self.each)
        for position, meter in enumerate(self.each):
            cost = ticket.charged[position]
            if cost and self._at_answer[position] is at_answer:
                marks[position] = meter.start(now, cost)
        ticket.marks = marks

    def end_ordinary(self, now: int) -> None:
        """Date at its answer what has no ticket."""
        for meter, cost, at_answer in zip(self.each, self.ordinary, self._at_answer, strict=True):
            if at_answer and cost:
                meter.start(now, cost)

    def settle(self, ticket: Ticket, actual: int | Mapping[str, int], now: int) -> None:
        """Correct the reserved cost of a started ticket; see `HostLimiter.settle`."""
        named = self._named("actual", actual)
        if ticket.started_at != NOT_STARTED:
            for position, unit in enumerate(self._units):
                if unit in named:
                    self._charge(ticket, position, named[unit], now)

    def taken(self, now: int) -> dict[str, list[tuple[int, int]]]:
        """Return what is open of each rate: (age in ns, cost), the oldest first."""
        found = {name: meter.taken(now) for name, meter in self._named_meters()}
        return {name: entries for name, entries in found.items() if entries}

    def retake(self, taken: Mapping[str, Sequence[tuple[int, int]]], at: int) -> None:
        """Take again what was open at `at`, ns; nothing else may have been taken.

        A rate that was not there before counts what is known of its unit: whoever lowers a limit has not sent less.
        """
        fullest = _fullest(taken)
        for (name, meter), unit in zip(self._named_meters(), self._units, strict=True):
            for age, cost in taken.get(name) or fullest.get(unit, ()):
                meter.reserve(cost)
                meter.start(at - age, cost)

    def recount(self, sends: Iterable[tuple[int, int, Mapping[str, int]]]) -> None:
        """Count sends of before this limiter, whatever its limits were then; nothing else may be taken yet.

        Args:
            sends: of each its first byte and its answer, ns, and its cost by budget, "requests" is 1 when it is not named.
        """
        known = list(sends)
        for meter, unit, at_answer in zip(self.each, self._units, self._at_answer, strict=True):
            usual = int(unit == "requests")
            for at, cost in sorted((each[1] if at_answer else each[0], each[2].get(unit, usual)) for each in known):
                if cost:
                    meter.reserve(cost)
                    meter.start(at, cost)

    def _named_meters(self) -> Iterator[tuple[str, Meter]]:
        for rate, meter in zip(self._rates, self.each, strict=True):
            yield f"{rate} {type(meter).__name__}", meter

    def idle(self, now: int) -> bool:
        """Whether nothing at all is taken."""
        return all(meter.idle(now) for meter in self.each)

    def _amounts(self, named: Mapping[str, int]) -> Costs:
        found = tuple(named.get(unit, 0) for unit in self._units)
        for amount, most, unit in zip(found, self._most, self._units, strict=True):
            if amount > most:
                allowed = f"at most {most} ({unit})"
                raise OptionsError("cost", amount, allowed, reason="over the limit it could never start")
        return found

    def _named(self, option: str, cost: int | Mapping[str, int]) -> Mapping[str, int]:
        """Return a cost by budget, checked."""
        named = cost if isinstance(cost, Mapping) else {"requests": cost}
        for unit, amount in named.items():
            integer(amount, f"{option}[{unit!r}]", 0)
            if unit not in self._units and unit != "requests":
                known = ", ".join(sorted({*self._units, "requests"}))
                raise OptionsError(option, unit, f"one of the budgets {known}", reason="no rate counts this")
        return named

    def _charge(self, ticket: Ticket, position: int, real: int, now: int) -> None:
        """Correct what `ticket` is charged with at one meter."""
        meter, before, mark = self.each[position], ticket.charged[position], ticket.marks[position]
        ticket.charged = (*ticket.charged[:position], real, *ticket.charged[position + 1 :])
        if mark is not None:
            meter.settle(mark, real - before)
            return
        if before:
            meter.undo(before)
        if real:
            meter.reserve(real)
            if not (self._at_answer[position] and ticket.state is State.STARTED):  # else the answer will date it
                ticket.marks[position] = meter.start(now, real)


def _fullest(taken: Mapping[str, Sequence[tuple[int, int]]]) -> dict[str, Sequence[tuple[int, int]]]:
    """Return by unit what is open of the rate of which most is."""
    found: dict[str, Sequence[tuple[int, int]]] = {}
    for name, entries in taken.items():
        with suppress(OptionsError):  # by whom it was written, or for what, cannot be told
            unit = Rate.of(name.rpartition(" ")[0]).unit
            found[unit] = max(found.get(unit, ()), entries, key=lambda each: sum(cost for _, cost in each))
    return found
