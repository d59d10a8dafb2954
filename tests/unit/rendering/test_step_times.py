"""A step of a template is a unit of processor time: no operation takes longer than its steps say."""

import gc
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import pytest

from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.users import User
from masscomm.rendering import compiler
from masscomm.rendering.compiler import OutOfSteps, RenderError, Steps, compile_source, render
from masscomm.rendering.letters import CASES
from masscomm.rendering.templates import context_of, literal_fields
from tests.unit.rendering.hostile_templates import PATTERNS, PATTERNS_OF_THREE, PATTERNS_OF_TWO, data_of

LENGTH = 1_000
# The operands of the patterns: the first of them has every hostile value.
OPERANDS = ("data.a", "data.b", "data.c")
FIRST = {**data_of(LENGTH), "number": -1, "large": 1e308, "short": "x", "text": "12.50", "map": {"a": "b"}}
SECOND = ["plain", "digits", "empty_texts", "another", "number"]
THIRD = ["needle", "number"]
# Operations that are nested without another one between them.
CHAINS = [
    "{{ " + "not " * 18 + "1 }}",
    "{{ " + "-" * 18 + "1 }}",
    "{{ 1" + " and 1" * 18 + " }}",
    "{{ 1 if 1 else 1 }}",
]
# Operations that read their whole value.
GROWING = [
    pattern
    for pattern in (*PATTERNS, *PATTERNS_OF_TWO)
    if not any(without in pattern for without in (" and ", " or ", "{0}[{1}]", "-{0}"))
]
# A template repeats its operation, so that its steps are more than those of rendering it.
REPEATED = 3
# Sources that are slow to compile, for their steps.
SOURCES = ["a" * 20_000, "\n" * 20_000, "{# " + "-" * 20_000, "{{ '" + "\\" * 20_000, "{{ data.x }}" * 150, "{{ 1 + }}"]
# Texts that are slow to bring into the form of a channel.
TEXTS = ["a " * 10_000, "a\0" * 10_000, "\U0001d11e" * 5_000, "\U0001d11e\0 " * 3_000, "é " * 5_000]

# Values whose direction controls are slow to find, or to remove.
VALUES = ["é" * 5_000, "\U0001d11e" * 5_000, "\u2029" * 5_000, "\u202e" * 5_000, "a\u202e" * 5_000]


class _Work(NamedTuple):
    """Work that is charged in steps."""

    run: Callable[[Steps], object]
    name: str

    def times_of(self, plain: "_Work", runs: int) -> float:
        """Return the processor time of a step in steps of other work: the median of runs that follow each other, so
        that a slower clock or another process slows down both.
        """
        return median(self.step_ns() / plain.step_ns() for _ in range(runs))

    def step_ns(self) -> float:
        """Return the processor time of a step."""
        steps = Steps(1e9)
        begin = time.process_time_ns()
        with suppress(RenderError):
            self.run(steps)
        return (time.process_time_ns() - begin) / (1e9 - steps.remaining)


def _context(data: Mapping[str, Any]) -> dict[str, Any]:
    return context_of(User(user_id=1, club_id=7), 7, data, "en")


def _rendering(source: str, data: Mapping[str, Any]) -> _Work:
    write = compile_source(source, escaped=True, steps=Steps(1e9)).write
    return _Work(partial(render, write, _context(data)), source)


def _steps(source: str, value: Any) -> float:
    """Return the steps of rendering a source with a value."""
    steps = Steps(1e9)
    with suppress(RenderError):
        _rendering(source, {"a": value, "b": "x"}).run(steps)
    return 1e9 - steps.remaining


def _operations() -> Iterator[_Work]:
    """Yield every filter, test and operator with hostile values."""
    kinds: list[tuple[list[str], list[Any]]] = [
        (CHAINS, []),
        (PATTERNS, [FIRST]),
        (PATTERNS_OF_TWO, [FIRST, SECOND]),
        (PATTERNS_OF_THREE, [FIRST, SECOND, THIRD]),
    ]
    for patterns, names in kinds:
        for pattern in patterns:
            source = pattern
            for place, operand in enumerate(OPERANDS):
                source = source.replace(f"{{{place}}}", operand)
            # Upper and lower case are other filters in a language whose capital of i is İ.
            for dotted in {False, any(f"| {name}" in source for name in CASES)}:
                write = compile_source(source * REPEATED, escaped=True, steps=Steps(1e9), dotted=dotted).write
                for chosen in itertools.product(*names):
                    data = dict(zip("abc", (FIRST[name] for name in chosen), strict=False))
                    yield _Work(partial(render, write, _context(data)), f"{source} {' '.join(chosen)} {dotted}")


def _compile(source: str, steps: Steps) -> None:
    compile_source(source, escaped=True, steps=steps)


def _further_work() -> Iterator[_Work]:
    """Yield the compiling of sources, values in other letters than those of ASCII, and messages without a template."""
    for source in SOURCES:
        yield _Work(partial(_compile, source), source[:20])
    for value in VALUES:
        yield _rendering("{{ data.x }}", {"x": value})
    for text in TEXTS:
        data = {"title": text, "body": text}
        for field in literal_fields("push", data) or []:
            yield _Work(partial(field.render, _context(data)), f"{field.name} {text[:20]!r}")


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.nightly
@pytest.mark.guarantee("templates.steps_cost_what_they_say")
def test_no_step_takes_twice_the_time_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain step looks up or writes a short value in the same process."""
    monkeypatch.setattr(compiler, "MAX_STEPS", 1e9)
    plain = _rendering("{{ data.x }}" * 150 + "{% if data.x %}a{% endif %}" * 20, {"x": "a"})
    with _without_collector():
        suspects = [work for work in chain(_operations(), _further_work()) if work.times_of(plain, 1) > 1.5]
        slow = {work.name: times for work in suspects if (times := work.times_of(plain, 31)) > 2}
    assert slow == {}


@pytest.mark.guarantee("templates.steps_cost_what_they_say")
@pytest.mark.parametrize("pattern", GROWING)
def test_each_entry_and_character_is_charged(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of an operation grow with its value, whether it ends in a text or in an error."""
    monkeypatch.setattr(compiler, "MAX_STEPS", 1e9)
    short, long = data_of(LENGTH), data_of(4 * LENGTH)
    source = pattern.replace("{0}", "data.a").replace("{1}", "data.b")
    growth = {name: _steps(source, long[name]) - _steps(source, short[name]) for name in short}
    assert [name for name in short if growth[name] < (len(long[name]) - len(short[name])) / 200] == []


@pytest.mark.kills(guard="templates.steps_of_entries")
@pytest.mark.parametrize("source", ["{{ data.x == 1 }}", "{{ data.x is eq(1) }}", "{{ data.x | d | length }}"])
@pytest.mark.parametrize("value", [[""] * 20_000, {str(number): None for number in range(20_000)}, [[[]] * 20_000]])
def test_entries_without_characters_are_charged(source: str, value: Any) -> None:
    with pytest.raises(OutOfSteps):
        _rendering(source, {"x": value}).run(Steps(RECORD_STEPS))


@pytest.mark.kills(guard="templates.steps_of_fitting")
def test_rendering_a_literal_text_uses_steps() -> None:
    """Recipients with variables of their own have a text each, even without a template."""
    steps, data = Steps(RECORD_STEPS), {"title": "News", "body": "a" * 20_000}
    for field in literal_fields("push", data) or []:
        field.render(_context(data), steps)
    assert RECORD_STEPS - steps.remaining > 100
