"""Compiles a template into functions that count the steps of their work, so that rendering can be limited.

Jinja only parses the template: the code that Jinja would generate cannot be interrupted, and Jinja evaluates constant
expressions while it compiles. Here, each operation charges its steps before it begins, by the size of its operands. The
same template and values therefore have the same result on every machine. A step takes at most a microsecond on one core
of 2024 (`tests/unit/rendering/test_step_times.py` measures every operation with hostile values).

The template language has text, conditions, loops over short lists, attributes and items of mappings, slices,
comparisons, and the filters and tests below. Assignments, calls and arithmetic are refused.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, TemplateSyntaxError, Undefined, nodes
from jinja2.filters import FILTERS
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.tests import TESTS

from masscomm.domain.limits import MAX_SOURCE_CHARACTERS
from masscomm.rendering import graphemes
from masscomm.rendering.letters import CASES
from masscomm.texts import CodedText, Text, text_of

# The maximum number of tokens in one field of a template. Text between tags is one token of any length.
MAX_TOKENS = 2_000
MAX_OUTPUT_BYTES = 200_000
# The maximum nesting depth. Each nested operator or {% if %} is one level. Python's compiler and stack permit some
# hundreds of levels.
MAX_DEPTH = 20
# The maximum number of items of a list in a loop.
MAX_ITEMS = 100
# The maximum number of steps (units of work) for rendering one field once.
MAX_STEPS = 25_000

# The number of characters that an operation processes in one step (unit of work), for operations of different speed.
_SLOW, _SOURCE, _PLAIN, _TEXT = 4, 8, 50, 200
# The number of lines of a template that the lexer reads in one step, in addition to those of their characters.
_LINES = 4
_TEMPLATE_STEPS, _TOKEN_STEPS = 50, 10
_ITEM_STEPS = 5
# The steps of an entry of a list or mapping, in addition to those of its characters.
_ENTRY_STEPS = 2
# The least steps of a filter or test, and of a comparison.
_CALL_STEPS, _COMPARED_STEPS = 4, 2
# Rounding 1e308 takes 12 microseconds.
_ROUND_STEPS = 30
# An error takes 15 microseconds.
_ERROR_STEPS = 30
# The characters of the longest number, and of the quotes and the comma of an entry in the text of a list.
_NUMBER, _ENTRY = 20, 4
# Formatting a date or number takes 15 microseconds, loading the data of a language 9 ms.
_FORMAT_STEPS = 100
_LOCALE_STEPS = 10_000
# Numbers with this many digits are refused: the lexer's regular expressions take half a microsecond per digit.
_LONG_NUMBER = re.compile(r"(?<![\d_])(?:_?\d){100}|0[xX](?:_?[\da-fA-F]){100}")
# The controls that embed, override or isolate text (Unicode's UAX 9). In a value, one of them could reverse the
# template's text after it, or end an isolate of the template. Direction marks, such as U+200F, act as a letter does.
_DIRECTION_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_MAX_NUMBER_BITS = 64
_MAX_PRECISION = 20
# The maximum length of the name of a missing variable.
_LONGEST_KEY = 128
DEFAULT_LOCALE = "en"
# The key of the locale in the values of a template. It is not a name, so that a template can neither read nor bind it.
LOCALE = "@locale"
# The maximum number of distinct characters to trim: trim compares each character of the text with each of them.
_MAX_TRIMMED = 20


class RenderError(Exception):
    """A template cannot be compiled, or cannot be rendered for a recipient. The text contains the reason."""

    def __init__(self, text: CodedText) -> None:
        super().__init__(text)
        self.text = text


class MissingVariable(RenderError):
    """A template reads a variable that does not exist, and has no default for it."""

    def __init__(self, text: CodedText, path: str = "") -> None:
        super().__init__(text)
        # The variable, such as data.opponent.
        self.path = path


class OutOfSteps(RenderError):
    """A template needs more steps (units of work) than its limit permits."""


class Steps:
    """The remaining steps (units of work) of one template in one record, for compiling it and rendering it for all
    its recipients.
    """

    def __init__(self, total: float) -> None:
        self.remaining = total
        self._floor = 0.0

    def begin_rendering(self) -> None:
        """Limit the following operations to MAX_STEPS of the remaining steps."""
        self._floor = max(0.0, self.remaining - MAX_STEPS)

    def spend(self, steps: float) -> None:
        """Charge the steps (units of work) of an operation before it begins. Raises OutOfSteps."""
        self.remaining -= steps
        if self.remaining < self._floor:  # guard: templates.steps
            raise OutOfSteps(Text.RENDER_STEPS.filled())


type _Value = Callable[[Mapping[str, Any], Steps], Any]
type _Write = Callable[[Mapping[str, Any], Steps, list[str]], None]


class CompiledSource(NamedTuple):
    """A compiled template."""

    # Appends the text for given values to a list.
    write: _Write
    # The variables that the template reads, such as `data.opponent`; a variable read by a computed key is named by its
    # owner, such as `data`.
    reads: frozenset[str]
    # Whether the text depends on the locale of the values.
    localised: bool
    # The number of tokens of the source.
    tokens: int


def compile_source(source: str, *, escaped: bool, steps: Steps, dotted: bool = False) -> CompiledSource:
    """Compile a template.

    Args:
        source: The template's text.
        escaped: Whether values are escaped for HTML.
        steps: The remaining steps (units of work), from which compiling is charged.

    Raises:
        RenderError: The source is not a template of this language.
    """
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise RenderError(Text.RENDER_SOURCE.filled(maximum=MAX_SOURCE_CHARACTERS))
    compiler = _Compiler(escaped=escaped, steps=steps, dotted=dotted)
    try:
        tokens = _tokens(source, steps)
        parser = Parser(_ENVIRONMENT, "")
        # Environment.parse would read the tokens once more, which is half of the time of compiling.
        parser.stream = TokenStream(_ENVIRONMENT.lexer.wrap(tokens), None, None)
        parsed = parser.parse()
        write = compiler.write(parsed.body)
        return CompiledSource(write, frozenset(_variables(parsed)), compiler.localised, len(tokens))
    except RenderError:
        raise
    except TemplateSyntaxError as error:
        reason = Text.RENDER_ERROR.filled(error=type(error).__name__, reason=str(error.message))
        raise RenderError(Text.RENDER_AT_LINE.filled(line=error.lineno, reason=reason)) from error
    except Exception as error:
        # The possible errors are RecursionError and those of parsing Python numbers.
        raise RenderError(Text.RENDER_ERROR.filled(error=type(error).__name__, reason=str(error))) from error


def _tokens(source: str, steps: Steps) -> list[tuple[int, str, str]]:
    """Return the tokens of a template, and charge the steps of compiling before the recursive parser begins. Raises
    RenderError, and Jinja's errors for invalid tokens.
    """
    steps.spend(_TEMPLATE_STEPS + len(source) / _SOURCE + source.count("\n") / _LINES)
    if _LONG_NUMBER.search(source):
        raise RenderError(Text.RENDER_DIGITS.filled())
    tokens: list[tuple[int, str, str]] = []
    for token in _ENVIRONMENT.lexer.tokeniter(source, None):
        steps.spend(_TOKEN_STEPS)
        if len(tokens) == MAX_TOKENS:
            raise RenderError(Text.RENDER_TOKENS.filled(maximum=MAX_TOKENS))
        tokens.append(token)
    return tokens


def render(write: _Write, values: Mapping[str, Any], steps: Steps) -> str:
    """Return the text of a compiled template. Raises RenderError."""
    steps.begin_rendering()
    pieces: list[str] = []
    try:
        write(values, steps, pieces)
        text = "".join(pieces)
        size = len(text.encode())
    except OutOfSteps:
        raise
    except Exception as error:
        # An expression that a tenant wrote can raise any error of Python's operators.
        steps.spend(_ERROR_STEPS)
        if isinstance(error, RenderError):
            raise
        raise RenderError(Text.RENDER_ERROR.filled(error=type(error).__name__, reason=str(error))) from error
    if size > MAX_OUTPUT_BYTES:
        raise RenderError(Text.RENDER_OUTPUT.filled(maximum=MAX_OUTPUT_BYTES))
    return text


# The names of a template's variables, which no loop may bind.
_RESERVED = ("user", "data", "club_id", "loop")
_ENVIRONMENT = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - it only parses


# --- filters and tests ------------------------------------------------------------------------------------------------

_JINJA_FILTERS: Mapping[str, Callable[..., Any]] = FILTERS
_JINJA_TESTS: Mapping[str, Any] = TESTS
_escape = _JINJA_FILTERS["escape"]


def _charge(steps: Steps, value: Any, characters: int) -> None:
    """Charge an operation on a value, by the characters that it processes in one step, and by the entries of lists and
    mappings. Raises RenderError for numbers of more than 64 bits.
    """
    if isinstance(value, str):
        steps.spend(len(value) / characters)
    elif isinstance(value, list | tuple):
        _charge_entries(steps, value, len(value), characters)
    elif isinstance(value, Mapping):
        _charge_entries(steps, chain(value, value.values()), 2 * len(value), characters)
    else:
        steps.spend(_NUMBER / characters)
        _check_bits(value)


def _charge_entries(steps: Steps, entries: Iterable[Any], number: int, characters: int) -> None:
    steps.spend(number * (_ENTRY_STEPS + _ENTRY / characters))  # guard: templates.steps_of_entries
    for each in entries:
        _charge(steps, each, characters)


def _check_bits(value: Any) -> None:
    """Raise RenderError for a number of more than 64 bits."""
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER_BITS:
        raise RenderError(Text.RENDER_BITS.filled(maximum=_MAX_NUMBER_BITS))


def _cut_characters(value: Any) -> int:
    """Return the number of characters of a value that are cut in one step."""
    return _SLOW if isinstance(value, str) and not value.isascii() else _TEXT


def _text(value: Any, steps: Steps) -> str:
    """Return the text of a value."""
    if isinstance(value, str):
        return value
    steps.spend(1)
    _charge(steps, value, _SOURCE)
    return str(value)


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise RenderError(Text.RENDER_NO_NUMBER.filled(value=type(value).__name__))
    return value


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    if not -_MAX_PRECISION <= _number(precision) <= _MAX_PRECISION:  # guard: templates.filter_arguments
        raise RenderError(Text.RENDER_PRECISION.filled(maximum=_MAX_PRECISION))
    return _JINJA_FILTERS["round"](_number(value), precision, method)


def _trim(value: Any, chars: Any = None) -> Any:
    if chars is not None and len(set(chars)) > _MAX_TRIMMED:
        raise RenderError(Text.RENDER_TRIM.filled(maximum=_MAX_TRIMMED))
    return _JINJA_FILTERS["trim"](value, None if chars is None else "".join(set(chars)))


def _split(value: Any, separator: Any = ",") -> list[str]:
    """Return the parts of a text, for a loop."""
    if not isinstance(value, str) or not isinstance(separator, str):
        raise RenderError(Text.RENDER_SPLIT.filled())
    return [part.strip() for part in value.split(separator, MAX_ITEMS)]


def _with_environment(name: str) -> Callable[..., Any]:
    return partial(_JINJA_FILTERS[name], _ENVIRONMENT)


def _of_clusters(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter of a list for the grapheme clusters of a text as well."""
    return lambda value: run(graphemes.clusters(value) if isinstance(value, str) else value)


class _Called(NamedTuple):
    """A permitted filter or test."""

    run: Callable[..., Any]
    # The number of characters that it processes in one step.
    characters: int
    # The steps that it takes at least.
    least: int = _CALL_STEPS
    # Whether it works on the text of its value. The text of a list may be ten times as long as its entries.
    of_text: bool = False


def _of_text(name: str, characters: int) -> _Called:
    return _Called(_JINJA_FILTERS[name], characters, of_text=True)


# The permitted filters. Each returns a text of about the size of its input. The filter `safe` is missing, because a
# template must not disable escaping.
ALLOWED_FILTERS: Mapping[str, _Called] = {
    **{name: _Called(_JINJA_FILTERS[name], _PLAIN) for name in ("default", "d", "int", "float", "abs")},
    **{name: _of_text(name, _PLAIN) for name in ("upper", "lower", "capitalize", "escape", "e", "string")},
    **{name: _of_text(name, _SLOW) for name in ("title", "striptags")},
    "urlencode": _Called(_JINJA_FILTERS["urlencode"], _SLOW),
    "truncate": _Called(graphemes.shortened(_with_environment("truncate")), _SLOW),
    **{name: _Called(_of_clusters(_with_environment(name)), _SLOW) for name in ("first", "last")},
    "length": _Called(_of_clusters(_JINJA_FILTERS["length"]), _SLOW),
    "round": _Called(_round, _PLAIN, least=_ROUND_STEPS),
    "trim": _Called(_trim, _SLOW, of_text=True),
    "split": _Called(_split, _PLAIN),
}


# The filters of a language whose capital of i is İ.
_DOTTED_FILTERS = {name: ALLOWED_FILTERS[name]._replace(run=run) for name, run in CASES.items()}
# The filters that masscomm.rendering.localised_filters defines.
LOCALISED_FILTERS = frozenset({"date", "time", "datetime", "number", "percent", "currency", "plural"})


def _localised(name: str, locale: str, *args: Any, **kwargs: Any) -> str:
    # Babel takes 70 ms to import, which only templates with these filters need.
    from masscomm.rendering import localised_filters

    try:
        return localised_filters.FILTERS[name](locale, *args, **kwargs)
    except ValueError as error:
        raise RenderError(Text.FIELD_INVALID.filled(field=name, reason=text_of(error))) from error


def _of_numbers(name: str) -> Callable[..., bool]:
    """Return a template test that accepts numbers only. The test computes `value % number`; for a text, % would
    format the text with any width.
    """
    jinja_test = _JINJA_TESTS[name]
    return lambda *numbers: bool(jinja_test(*map(_number, numbers)))


ALLOWED_TESTS: Mapping[str, _Called] = {
    **{
        name: _Called(_JINJA_TESTS[name], _PLAIN)
        for name in (
            *("defined", "undefined", "none", "boolean", "false", "true", "integer", "float", "number", "string"),
            *("mapping", "sequence", "iterable", "sameas", "escaped", "eq", "equalto", "ne"),
            *("lt", "lessthan", "le", "gt", "greaterthan", "ge"),
        )
    },
    **{name: _Called(_JINJA_TESTS[name], _PLAIN, of_text=True) for name in ("lower", "upper")},
    "in": _Called(_JINJA_TESTS["in"], _SLOW),
    **{name: _Called(_of_numbers(name), _PLAIN) for name in ("odd", "even", "divisibleby")},
}

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda value, container: value in container,
    "notin": lambda value, container: value not in container,
}


# --- the compiler -----------------------------------------------------------------------------------------------------


class _Compiler:
    """Compiles the syntax nodes of one template."""

    def __init__(self, *, escaped: bool, steps: Steps, dotted: bool) -> None:
        self._escaped = escaped
        self._filters = {**ALLOWED_FILTERS, **_DOTTED_FILTERS} if dotted else ALLOWED_FILTERS
        self._steps = steps
        # Whether a filter that depends on the locale was compiled.
        self.localised = False

    def write(self, body: Sequence[nodes.Node], depth: int = 0) -> _Write:
        parts = [part for node in body for part in self._parts(node, depth + 1)]

        def write(values: Mapping[str, Any], steps: Steps, pieces: list[str]) -> None:
            for part in parts:
                part(values, steps, pieces)

        return write

    def _parts(self, node: nodes.Node, depth: int) -> list[_Write]:
        _check_depth(node, depth)
        match node:
            case nodes.Output():
                return [self._output(each, depth) for each in node.nodes]
            case nodes.If():
                return [self._if(node, depth)]
            case nodes.For(target=nodes.Name(name=str() as name), test=None, recursive=False) if name not in _RESERVED:
                return [self._for(node, name, depth)]
        raise _refused(node)

    def _output(self, node: nodes.Expr, depth: int) -> _Write:
        if isinstance(node, nodes.TemplateData):
            text = node.data

            def write_text(_values: Mapping[str, Any], steps: Steps, pieces: list[str]) -> None:
                steps.spend(1 + len(text) / _TEXT)
                pieces.append(text)

            return write_text
        value = self._written(node, depth + 1)
        written = _escape if self._escaped else str

        def write_value(values: Mapping[str, Any], steps: Steps, pieces: list[str]) -> None:
            text = _text(value(values, steps), steps)
            steps.spend(1 + len(text) / _PLAIN)
            # The methods of Markup would escape the text a second time, so the piece is converted to plain text.
            piece = str.__str__(written(text))
            if not piece.isascii() and _DIRECTION_CONTROLS.search(piece):  # guard: templates.direction_controls
                steps.spend(len(piece) / _SLOW)
                piece = _DIRECTION_CONTROLS.sub("", piece)
            pieces.append(piece)

        return write_value

    def _if(self, node: nodes.If, depth: int) -> _Write:
        branches = [
            (self.value(each.test, depth + 1), self.write(each.body, depth + 1)) for each in (node, *node.elif_)
        ]
        otherwise = self.write(node.else_, depth + 1)

        def write(values: Mapping[str, Any], steps: Steps, pieces: list[str]) -> None:
            for test, body in branches:
                steps.spend(1)
                if test(values, steps):
                    return body(values, steps, pieces)
            return otherwise(values, steps, pieces)

        return write

    def _for(self, node: nodes.For, name: str, depth: int) -> _Write:
        items, body = self.value(node.iter, depth + 1), self.write(node.body, depth + 1)
        otherwise = self.write(node.else_, depth + 1)

        def write(values: Mapping[str, Any], steps: Steps, pieces: list[str]) -> None:
            several = items(values, steps)
            if isinstance(several, Undefined):
                str(several)
            if not isinstance(several, list | tuple):
                raise _at(node, Text.RENDER_NO_LIST.filled(value=type(several).__name__))
            if len(several) > MAX_ITEMS:  # guard: templates.loop_items
                raise _at(node, Text.RENDER_ITEMS.filled(maximum=MAX_ITEMS))
            if not several:
                return otherwise(values, steps, pieces)
            for index, item in enumerate(several, 1):
                steps.spend(_ITEM_STEPS)
                loop = {"index": index, "first": index == 1, "last": index == len(several)}
                body({**values, name: item, "loop": loop}, steps, pieces)
            return None

        return write

    def _written(self, node: nodes.Node | None, depth: int) -> _Value:
        """Return a function that evaluates an expression for a text. A variable with null is a missing one, because
        the text would have the word None.
        """
        value, path = self.value(node, depth), "" if node is None else _path(node)
        if not path:
            return value

        def read(values: Mapping[str, Any], steps: Steps) -> Any:
            found = value(values, steps)
            return _missing(None, path, path) if found is None else found  # guard: templates.null

        return read

    def value(self, node: nodes.Node | None, depth: int) -> _Value:
        """Return a function that evaluates an expression. Raises RenderError for syntax that is not permitted."""
        if node is None:
            return _constant(None)
        _check_depth(node, depth)
        match node:
            case nodes.Const():
                _check_bits(node.value)
                return _constant(node.value)
            case nodes.List() | nodes.Tuple():
                if not all(isinstance(item, nodes.Const) for item in node.items):
                    raise _at(node, Text.RENDER_CONSTANTS.filled())
                items = [item.value for item in node.items if isinstance(item, nodes.Const)]
                return _constant(items if isinstance(node, nodes.List) else tuple(items))
            case nodes.Name():
                return self._name(node.name)
            case nodes.Getattr():
                return self._item(node.node, nodes.Const(node.attr, lineno=node.lineno), depth)
            case nodes.Getitem():
                return self._item(node.node, node.arg, depth)
            case nodes.Filter() if node.node is not None and node.name in LOCALISED_FILTERS:
                self._steps.spend(_LOCALE_STEPS)
                self.localised = True
                localised = _Called(partial(_localised, node.name), _SLOW, least=_FORMAT_STEPS)
                return self._call(node, localised, depth, [_locale_of])
            case nodes.Filter() if node.node is not None:
                if node.name not in self._filters:
                    raise _at(node, Text.RENDER_FILTER.filled(name=repr(node.name)))
                return self._call(node, self._filters[node.name], depth)
            case nodes.Test():
                if node.name not in ALLOWED_TESTS:
                    raise _at(node, Text.RENDER_TEST.filled(name=repr(node.name)))
                return self._call(node, ALLOWED_TESTS[node.name], depth)
            case nodes.Compare():
                return self._compare(node, depth)
            case nodes.CondExpr():
                return self._choice(node, depth)
            case nodes.And() | nodes.Or():
                return self._logic(node, depth)
            case nodes.Not():
                return self._unary(lambda value: not value, node.node, depth)
            case nodes.Neg():
                return self._unary(lambda value: -_number(value), node.node, depth)
        raise _refused(node)

    def _name(self, name: str) -> _Value:
        def read(values: Mapping[str, Any], steps: Steps) -> Any:
            steps.spend(1)
            return values[name] if name in values else _missing(None, name, name)

        return read

    def _item(self, node: nodes.Expr, key: nodes.Expr, depth: int) -> _Value:
        owner = self.value(node, depth + 1)
        if isinstance(key, nodes.Slice):
            bounds = [self.value(bound, depth + 1) for bound in (key.start, key.stop, key.step)]

            def cut(values: Mapping[str, Any], steps: Steps) -> Any:
                found = owner(values, steps)
                part = slice(*(bound(values, steps) for bound in bounds))
                steps.spend(1)
                _charge(steps, found, _cut_characters(found))
                return graphemes.cut(found, part) if isinstance(found, str) else found[part]

            return cut
        wanted, path = self.value(key, depth + 1), _path(node)

        def look_up(values: Mapping[str, Any], steps: Steps) -> Any:
            steps.spend(1)
            found, place = owner(values, steps), wanted(values, steps)
            if isinstance(found, str) and isinstance(place, int) and not found.isascii():
                _charge(steps, found, _SLOW)
                return _looked_up(graphemes.clusters(found), place, path)
            return _looked_up(found, place, path)

        return look_up

    def _call(
        self,
        node: nodes.Filter | nodes.Test,
        called: _Called,
        depth: int,
        before: Sequence[_Value] = (),
    ) -> _Value:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise _at(node, Text.RENDER_ARGUMENTS.filled(name=node.name))
        of_filter = self._written if isinstance(node, nodes.Filter) else self.value
        operands = [*before, of_filter(node.node, depth + 1), *(self.value(each, depth + 1) for each in node.args)]
        options = [
            (str(pair.key), self.value(pair.value, depth + 1))
            for pair in node.kwargs
            if isinstance(pair, nodes.Keyword)
        ]

        def call(values: Mapping[str, Any], steps: Steps) -> Any:
            args = [operand(values, steps) for operand in operands]
            kwargs = {key: option(values, steps) for key, option in options}
            steps.spend(called.least)
            if called.of_text:
                args[0] = _text(args[0], steps)
            for value in (*args, *kwargs.values()):
                _charge(steps, value, called.characters)
            result = called.run(*args, **kwargs)
            _check_bits(result)
            return result

        return call

    def _compare(self, node: nodes.Compare, depth: int) -> _Value:
        first = self.value(node.expr, depth + 1)
        rest = [(each.op, _OPERATORS[each.op], self.value(each.expr, depth + 1)) for each in node.ops]

        def compare(values: Mapping[str, Any], steps: Steps) -> Any:
            left, result = first(values, steps), True
            for name, compared, operand in rest:
                right = operand(values, steps)
                characters = _SLOW if name in ("in", "notin") else _TEXT
                steps.spend(_COMPARED_STEPS)
                _charge(steps, left, characters)
                # Searching in a mapping uses the hash of the value.
                if not (characters == _SLOW and isinstance(right, Mapping)):
                    _charge(steps, right, characters)
                result = compared(left, right)
                if not result:
                    break
                left = right
            return result

        return compare

    def _choice(self, node: nodes.CondExpr, depth: int) -> _Value:
        test, then = self.value(node.test, depth + 1), self.value(node.expr1, depth + 1)
        # The value is Undefined, not StrictUndefined: as in Jinja, a false condition without an else renders nothing.
        missing = Undefined(f"line {node.lineno}: the condition is false and there is no else")
        otherwise = _constant(missing) if node.expr2 is None else self.value(node.expr2, depth + 1)

        def choose(values: Mapping[str, Any], steps: Steps) -> Any:
            steps.spend(1)
            return (then if test(values, steps) else otherwise)(values, steps)

        return choose

    def _unary(self, run: Callable[[Any], Any], node: nodes.Expr, depth: int) -> _Value:
        operand = self.value(node, depth + 1)

        def apply(values: Mapping[str, Any], steps: Steps) -> Any:
            steps.spend(1)
            return run(operand(values, steps))

        return apply

    def _logic(self, node: nodes.And | nodes.Or, depth: int) -> _Value:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        is_and = isinstance(node, nodes.And)

        def decide(values: Mapping[str, Any], steps: Steps) -> Any:
            steps.spend(1)
            first = left(values, steps)
            return right(values, steps) if bool(first) is is_and else first

        return decide


def _locale_of(values: Mapping[str, Any], _steps: Steps) -> str:
    locale: str = values.get(LOCALE, DEFAULT_LOCALE)
    return locale


def _constant(value: Any) -> _Value:
    return lambda _values, _steps: value


def _variables(node: nodes.Node, bound: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the variables that a syntax tree reads, without those that its loops bind."""
    if path := _path(node):
        if path.partition(".")[0] not in bound:
            yield path
        return
    inside = bound | {node.target.name, "loop"} if isinstance(node, nodes.For) else bound  # type: ignore[attr-defined]
    for child in node.iter_child_nodes():
        of_list = isinstance(node, nodes.For) and child is node.iter
        yield from _variables(child, bound if of_list else inside)


def _path(node: nodes.Node) -> str:
    """Return the variable that an expression reads, such as user.attributes.plan; "" if its name is computed."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            key = node.attr
        case nodes.Getitem(arg=nodes.Const(value=str() as key)):
            pass
        case _:
            return ""
    owner = _path(node.node)
    return owner and f"{owner}.{key}"


def _missing(owner: Any, key: Any, path: str) -> StrictUndefined:
    """Return the value of a variable that does not exist: any use but a default or a test raises MissingVariable."""

    def failure(message: str | None) -> MissingVariable:
        return MissingVariable(Text.RENDER_UNDEFINED.filled(reason=str(message)), path)

    # Jinja's type of `exc` is an exception class; it is called with the message.
    exc: Any = failure
    return StrictUndefined(name=key, exc=exc) if owner is None else StrictUndefined(obj=owner, name=key, exc=exc)


def _looked_up(owner: Any, key: Any, path: str) -> Any:
    """Return an entry of a mapping, text or list at `path`. Attributes of Python objects are never read."""
    for value in (owner, key):
        if isinstance(value, Undefined):
            # Converting StrictUndefined to a text raises UndefinedError, which names the variable.
            str(value)
            raise RenderError(Text.RENDER_CHOICE.filled())
    if isinstance(owner, Mapping) and isinstance(key, str) and key in owner:
        return owner[key]
    if isinstance(owner, str | list | tuple) and isinstance(key, int) and -len(owner) <= key < len(owner):
        return owner[key]
    # A key that the template computes may be a long text, or a mapping.
    if not isinstance(key, str | int) or (isinstance(key, str) and len(key) > _LONGEST_KEY):
        return _missing(owner, type(key).__name__, "")
    return _missing(owner, key, f"{path}.{key}" if path and isinstance(key, str) else "")


def _check_depth(node: nodes.Node, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _at(node, Text.RENDER_DEPTH.filled(maximum=MAX_DEPTH))


def _refused(node: nodes.Node) -> RenderError:
    return _at(node, Text.RENDER_SYNTAX.filled(syntax=type(node).__name__))


def _at(node: nodes.Node, reason: CodedText) -> RenderError:
    """Return the error of a syntax node, with its line."""
    return RenderError(Text.RENDER_AT_LINE.filled(line=node.lineno, reason=reason))
