"""Compiles and renders hostile templates; test_rendering.py runs it in a process with a CPU and a memory limit, and
test_step_times.py measures the time of its steps.

Every allowed filter and test gets every hostile value as its input and as each of its arguments; the values come from
the send's data and, if they are short, from constants. Exit status 0 if each ends in a text or a RenderError.
"""

import itertools
import resource
import sys
from contextlib import suppress
from typing import Any

from masscomm.rendering.compiler import (
    ALLOWED_FILTERS,
    ALLOWED_TESTS,
    LOCALISED_FILTERS,
    RenderError,
    Steps,
    compile_source,
    render,
)

CPU_S, MEMORY_BYTES = 30, 1_000_000_000

# Values of the longest length that the REST API accepts, with the characters that slow down or lengthen each filter
# most.
LONG = 100_000


def data_of(length: int) -> dict[str, Any]:
    """Return the values, in about this number of characters each."""
    return {
        "plain": "a" * length,
        "needle": "b" * (length - 1) + "a",
        "spaces": "a " * (length // 2),
        "tags": "<b>" * (length // 3),
        "open": "<!--" * (length // 4),
        "entities": "&#1;" * (length // 4),
        "wide": "𝄞" * (length // 4),
        "flags": "🇨🇭" * (length // 8),
        "marks": "e" + "\u0301" * (length // 2),
        "grows": "ΐ" * (length // 2),
        "digits": "9" * length,
        "hex": "f" * length,
        "fraction": "0." + "0" * 300 + "1" * (length - 302),
        "format": "%999999999d",
        # Attributes of users may be lists and mappings. Their texts are longer than their entries.
        "empty_texts": [""] * (length // 4),
        "empty_maps": [{} for _ in range(length // 4)],
        "fractions": [1 / 3] * (length // 20),
        "unprintable": ["\U000e0001" * 10] * (length // 100),
        "mapping": {str(number): None for number in range(length // 10)},
        "another": {str(number): None for number in range(length // 10)},
    }


DATA = data_of(LONG)
VALUES = [
    *(f"data.{name}" for name in DATA),
    "data",
    "data.missing",
    "0",
    "-1",
    "999999999",
    "-999999999",
    "9223372036854775807",
    "1e308",
    "-1e308",
    "''",
    "'%999999999d'",
    "'common'",
    "'ceil'",
    "true",
    "none",
    "[1, 'a']",
]
PATTERNS = [
    *(f"{{{{ {{0}} | {name} }}}}" for name in (*ALLOWED_FILTERS, *sorted(LOCALISED_FILTERS))),
    "{% for a in {0} | split %}{% for b in {0} | split('a') %}{{ a }}{{ b | title }}{% endfor %}{% endfor %}",
    *(f"{{% if {{0}} is {name} %}}x{{% endif %}}" for name in ALLOWED_TESTS),
]
PATTERNS_OF_TWO = [
    *(f"{{{{ {{0}} | {name}({{1}}) | length }}}}" for name in (*ALLOWED_FILTERS, *sorted(LOCALISED_FILTERS))),
    *("{{ {0} | plural(other={1}) | length }}", "{{ {0} | number(decimals={1}) }}"),
    *(f"{{% if {{0}} is {name}({{1}}) %}}x{{% endif %}}" for name in ALLOWED_TESTS),
    *(
        f"{{% if {{0}} {operator} {{1}} %}}x{{% endif %}}"
        for operator in ("==", "<", ">=", "in", "not in", "and", "or")
    ),
    *("{{ {0}[{1}] }}", "{{ {0}[{1}:] | length }}", "{{ {0}[::{1}] | length }}", "{{ -{0} if {1} else {1} }}"),
]
PATTERNS_OF_THREE = [
    *("{{ {0} | round({1}, {2}) }}", "{{ {0} | truncate({1}, true, {2}) | length }}"),
    *("{{ {0} | int({1}, {2}) }}", "{{ {0} | truncate({1}, leeway={2}) | length }}", "{{ {0} | default({1}, {2}) }}"),
]
FEW = ["data.plain", "data.needle", "data.digits", "999999999", "-999999999", "1e308", "'%999999999d'"]
METHODS = ["'ceil'", "'common'"]
# Templates of this length that are slowest for Jinja's lexer, parser and compiler, or need the deepest Python stack.
LENGTH = 199_000
SOURCES = [
    *(start * (LENGTH // len(start)) for start in ("{", "{{", "{%", "{#", "{{ a }}", "{% if 1 %}")),
    *("{{ " + opened * LENGTH for opened in "([{-"),
    *("{# " + "-" * LENGTH, "{% raw %}" + "{% " * 60_000, "{{ '" + "\\" * LENGTH, "{{ '" + "' '" * 60_000 + "' }}"),
    *("{{ " + "not " * 49_000 + "1 }}", "{{ 1" + " or 1" * 39_000 + " }}", "{{ 1" + " == 1" * 39_000 + " }}"),
    *("{{ data" + ".a" * 99_000 + " }}", "{{ data" + "|e" * 99_000 + " }}", "{{ [" + "1," * 99_000 + "] }}"),
    *(
        "{{ 0x" + "f" * LENGTH + " }}",
        "{{ " + "9" * LENGTH + " }}",
        "{{ 1" + "_1" * 90_000 + " }}",
        "{{ 1.1e9999999 }}",
    ),
    "{% if 1 %}" * 9_000 + "{% endif %}" * 9_000,
    "{% for a in [1, 2, 3] %}" * 19 + "{{ data.plain }}" + "{% endfor %}" * 19,
    "{% for a in data.spaces | split(' ') %}{{ data.tags | striptags }}{% endfor %}" * 20,
    "{% if 0 %}" + "{% elif 0 %}x" * 15_000 + "{% endif %}",
    "{% if 0 %}" + "{% elif 0 %}x" * 300 + "{% endif %}",
    "{{ data.plain | urlencode" + " | urlencode" * 16 + " | length }}",
    "{% if data.tags | striptags %}{% endif %}" * 150,
    "{% if data.plain in data.needle %}{% endif %}" * 150,
    "{{ data.tags | e | title | e | title | e | title | e | length }}" * 20,
]


def attempt(source: str) -> None:
    """Compile a template and render it once, as the HTML of one recipient."""
    steps = Steps(200_000)
    with suppress(RenderError):
        write, *_ = compile_source(source, escaped=True, steps=steps)
        render(write, {"data": DATA, "user": {}}, steps)


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for source in SOURCES:
        attempt(source)
    chosen = [(PATTERNS, [VALUES]), (PATTERNS_OF_TWO, [FEW] * 2), (PATTERNS_OF_THREE, [FEW, FEW, FEW + METHODS])]
    for patterns, values in chosen:
        for pattern, operands in itertools.product(patterns, itertools.product(*values)):
            source = pattern
            for place, value in enumerate(operands):
                source = source.replace(f"{{{place}}}", value)
            attempt(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
