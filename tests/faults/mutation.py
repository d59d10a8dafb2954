"""Guards in the product code, and the changes that remove a guard.

A comment `# guard: subject.name` names a guard, at the end of a line or above it. It marks the statement that
begins on this line; if none begins there, the first expression on it, such as an argument, a dictionary's entry or an
operand; on a line of closing brackets, the statement around them. A change works on the syntax tree: a guard may be
renamed, reformatted and moved as long as its comment moves with it.
"""

import ast
import builtins
import io
import re
import textwrap
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import override

_MARKER = re.compile(r"# guard: ([a-z0-9_]+\.[a-z0-9_]+)")
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
# The name, in the code of a change, of the expression that the change replaces.
_GUARDED = re.compile(r"\bGUARDED\b")
_ALWAYS_KNOWN = {"GUARDED", *dir(builtins), *dir(str), *dir(list)}

type _Node = ast.stmt | ast.expr | ast.ExceptHandler


class DoesNotApply(Exception):
    """A guard's comment marks no code, or the change does not fit the marked code."""


def guards_in(text: str) -> Iterator[str]:
    """Return the names of the guards that comments of a module mark."""
    if "# guard:" not in text:
        return
    for comment in tokenize.generate_tokens(io.StringIO(text).readline):
        if comment.type == tokenize.COMMENT and comment.string.startswith("# guard:"):
            if (found := _MARKER.fullmatch(comment.string)) is None:
                raise DoesNotApply(f"{comment.string!r} is not of the form '# guard: subject.name'")
            yield found[1]


def find_guards(root: Path) -> dict[str, list[Path]]:
    """Return guard → modules below a folder that mark it; a name in two comments has two modules."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*.py")):
        for name in guards_in(path.read_text()):
            found.setdefault(name, []).append(path)
    return found


class Change(ABC):
    @abstractmethod
    def edit(self, module: "_Module", node: _Node) -> str:
        """Return the module's text after the change of the node. Raises DoesNotApply."""

    @property
    def code(self) -> str:
        return ""


@dataclass(frozen=True)
class Never(Change):
    """Make a condition false, or make a handler catch no exception."""

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        if isinstance(node, ast.ExceptHandler):
            return module.replaced(_expression(node), "()")
        return module.replaced(_condition(node), "False")


@dataclass(frozen=True)
class Always(Change):
    """Make a condition true."""

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        return module.replaced(_condition(node), "True")


@dataclass(frozen=True)
class Without(Change):
    """Remove one operand of an operation such as `a and b`."""

    operand: int

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        operation = _expression(node)
        if isinstance(operation, ast.BoolOp):
            operands, operator = list(operation.values), " and " if isinstance(operation.op, ast.And) else " or "
        elif isinstance(operation, ast.BinOp):
            operands, operator = [operation.left, operation.right], ""
        else:
            raise DoesNotApply(f"it is no operation: {module.source(operation)}")
        del operands[_index(self.operand, operands)]
        return module.replaced(operation, operator.join(f"({module.source(each)})" for each in operands))


@dataclass(frozen=True)
class Argument(Change):
    """Replace a call such as `masked(text)` by its argument."""

    number: int = 1

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        call = _expression(node)
        if not isinstance(call, ast.Call):
            raise DoesNotApply(f"it is no call: {module.source(call)}")
        return module.replaced(call, f"({module.source(call.args[_index(self.number, call.args)])})")


@dataclass(frozen=True)
class Removed(Change):
    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        return module.replaced(_statement(node), "pass")


@dataclass(frozen=True)
class Returns(Change):
    """Make a function or a return statement return this value."""

    value: str

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        if isinstance(node, ast.FunctionDef):
            return module.replaced(node.body[0], f"return {self.value}", to=node.body[-1])
        if isinstance(node, ast.Return):
            return module.replaced(node, f"return {self.value}")
        raise DoesNotApply("it is neither a function nor a return statement")

    @property
    @override
    def code(self) -> str:
        return self.value


@dataclass(frozen=True)
class Becomes(Change):
    """Replace the condition, the assigned value or the marked expression; GUARDED is the previous expression."""

    value: str

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        before = _expression(node)
        return module.replaced(before, f"({_GUARDED.sub(lambda _: f'({module.source(before)})', self.value)})")

    @property
    @override
    def code(self) -> str:
        return self.value


@dataclass(frozen=True)
class Replaced(Change):
    statements: str

    @override
    def edit(self, module: "_Module", node: _Node) -> str:
        statement = _statement(node)
        code = textwrap.indent(self.statements, " " * statement.col_offset).lstrip()
        return module.replaced(statement, code)

    @property
    @override
    def code(self) -> str:
        return self.statements


def without_guard(text: str, name: str, change: Change) -> str:
    """Return a module's text without one of its guards.

    Raises:
        DoesNotApply: The name is not marked exactly once, the change does not fit, or it uses a name that the module
            no longer has.
    """
    if list(guards_in(text)).count(name) != 1:
        raise DoesNotApply(f"{name} is not marked once")
    module = _module(text)
    changed = change.edit(module, module.marked(name))
    try:
        tree = ast.parse(changed)
    except SyntaxError as error:
        raise DoesNotApply(f"the changed module does not compile: {error}") from error
    if ast.dump(tree) == module.dump:
        raise DoesNotApply("it changes nothing")
    # A mutant with an undefined name would fail without proving anything about the guard.
    if unknown := _used(_nodes(change.code), of=module.imported) - module.known:
        raise DoesNotApply(f"the module does not use {', '.join(sorted(unknown))}")
    return changed


@lru_cache(maxsize=16)
def _module(text: str) -> "_Module":
    """Return a module; the guards of one follow each other."""
    return _Module(text)


class _Module:
    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.dump = ast.dump(tree)
        self._nodes = list(ast.walk(tree))
        self.imported = _imported(self._nodes)
        self.known = _used(self._nodes) | _bound(self._nodes) | _ALWAYS_KNOWN
        # The syntax tree counts columns in bytes.
        self._lines = [line.encode() for line in text.splitlines(keepends=True)]
        self._tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))

    def source(self, node: ast.expr) -> str:
        """Return a node's text without surrounding parentheses."""
        return self._text[self._start(node) : self._end(node)].decode()

    def replaced(self, node: _Node, code: str, *, to: _Node | None = None) -> str:
        """Replace a node, or all text between two nodes, by this code. Returns the module's text."""
        text = self._text
        return (text[: self._start(node)] + code.encode() + text[self._end(to or node) :]).decode()

    def marked(self, name: str) -> _Node:
        """Return the node that the guard's comment marks. Raises DoesNotApply."""
        at = next(
            index
            for index, each in enumerate(self._tokens)
            if each.type == tokenize.COMMENT and (found := _MARKER.fullmatch(each.string)) and found[1] == name
        )
        line = self._tokens[at].start[0]
        code = [each for each in self._tokens if each.type not in _LAYOUT]
        if all(each.start[0] != line for each in code):
            line = next(each.start[0] for each in code if each.start[0] > line)
        # A line may begin with an operator or the `if` of a comprehension, so each token is tried.
        for token in (each for each in code if each.start[0] == line):
            if node := self._beginning_at(line, len(token.line[: token.start[1]].encode())):
                return node
        around = [each for each in self._nodes if isinstance(each, ast.stmt) and _has(each, line)]
        return max(around, key=lambda each: each.lineno)

    def _beginning_at(self, line: int, column: int) -> _Node | None:
        """Return the statement or largest expression that begins there; of operands on several lines, that operand."""
        found = [
            node
            for node in self._nodes
            if isinstance(node, ast.stmt | ast.expr | ast.ExceptHandler | ast.keyword)
            and (node.lineno, node.col_offset) == (line, column)
        ]
        if not found:
            return None
        node = found[0].value if isinstance(found[0], ast.keyword) else self._value_of(found[0])
        while isinstance(node, ast.BoolOp | ast.BinOp) and node.end_lineno != line:
            node = node.values[0] if isinstance(node, ast.BoolOp) else node.left
        return node

    def _value_of(self, node: _Node) -> _Node:
        """Return the value of an entry if the node is the entry's key."""
        for each in self._nodes:
            if isinstance(each, ast.Dict) and node in each.keys:
                return each.values[each.keys.index(node)]
            if isinstance(each, ast.DictComp) and node is each.key:
                return each.value
        return node

    @property
    def _text(self) -> bytes:
        return b"".join(self._lines)

    def _start(self, node: _Node) -> int:
        return sum(map(len, self._lines[: node.lineno - 1])) + node.col_offset

    def _end(self, node: _Node) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return sum(map(len, self._lines[: node.end_lineno - 1])) + node.end_col_offset


def _expression(node: _Node) -> ast.expr:
    match node:
        case ast.If() | ast.While() | ast.Assert():
            return node.test
        case ast.For():
            return node.iter
        case ast.Return(value=ast.expr() as value) | ast.AnnAssign(value=ast.expr() as value):
            return value
        case ast.Assign() | ast.AugAssign() | ast.Expr():
            return node.value
        case ast.ExceptHandler(type=ast.expr() as caught):
            return caught
        case ast.expr():
            return node
    raise DoesNotApply(f"line {node.lineno} has no expression to change")


def _has(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _condition(node: _Node) -> ast.expr:
    expression = _expression(node)
    if isinstance(expression, ast.IfExp):
        return expression.test
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.expr):
        return expression
    raise DoesNotApply(f"line {node.lineno} has no condition")


def _statement(node: _Node) -> ast.stmt:
    if isinstance(node, ast.stmt):
        return node
    raise DoesNotApply(f"line {node.lineno} begins no statement")


def _index(number: int, parts: list[ast.expr]) -> int:
    if not 1 <= number <= len(parts):
        raise DoesNotApply(f"it has {len(parts)} parts, and no part {number}")
    return number - 1


def _used(code: Sequence[ast.AST], *, of: Collection[str] = ()) -> set[str]:
    """Return the names and attributes that a piece of code uses, without its own imports and modules' attributes."""
    names = {each.id for each in code if isinstance(each, ast.Name)}
    attributes = {
        each.attr
        for each in code
        if isinstance(each, ast.Attribute) and not (isinstance(each.value, ast.Name) and each.value.id in of)
    }
    return (names | attributes) - _imported(code)


def _bound(code: Sequence[ast.AST]) -> set[str]:
    """Return the names that a module imports or defines."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {each.name for each in code if isinstance(each, defined)}
    return names | {each.arg for each in code if isinstance(each, ast.arg)} | _imported(code)


def _imported(code: Sequence[ast.AST]) -> set[str]:
    return {each.asname or each.name for each in code if isinstance(each, ast.alias)}


def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))
