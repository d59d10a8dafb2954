"""Count the constructions that masscomm's prose avoids, in comments, docstrings, messages and Markdown.

docs/internals/contributing.md ("Words") has the rules. EXCLUDED has one pattern for each construction, with its rule.
At most 5 % of a package's comments, docstrings, messages and Markdown sentences may contain one.

    python -m tests.support.prose                     print the packages above the target, as `make check` does
    python -m tests.support.prose PATH …              print each text below these paths, with its constructions
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = 0.05

_VERB = r"(?:is|are|was|were|has|had|have|does|do|did|can|cannot|may|must|will|would|needs?|gets?|wants?|waits?|asks?)"

# Name of a construction → its pattern. Each is rare in well-written libraries. `^` is the
# beginning of a sentence; case does not matter.
EXCLUDED: dict[str, str] = {
    # Rule 3: data is produced, logged, returned, counted, stored. Only people tell, hear and are asked.
    "tell": r"\b(?:tell|tells|telling|told)\b",
    "hear": r"\b(?:hears?|heard|learnt)\b",
    "is asked": r"\b(?:is|are|was|were|be|been|being) asked\b",
    # Rule 4: a pronoun or a clause in the place of a noun. Name the thing: the recipient, the record, the caller.
    "whoever": r"\b(?:whoever|whomever|nobody|everybody|anybody|somebody|no one)\b",
    "of whom": r"\bwhom\b",
    "that which": r"\bthat which\b",
    "clause as subject": r"^(?:what|who|whose|whom)\b(?![^?]*\?)",
    "what is …": (
        r"\bwhat(?: of (?:it|them|these|this))? (?:it|they|is|are|was|were|has|had|have|does|did|no|none|came|comes)\b"
        r"(?![^.]*\?)"
    ),
    "preposition + what": r"\b(?:of|from|for|with|by|to|than|in|about|as) what\b",
    "who is …": rf"\bwho {_VERB}\b|\b(?:of|from|for|with|by|to|than|and|or) who\b",
    "becomes of": r"\b(?:becomes?|became) of\b",
    # Rule 5: a preposition in the place of a noun, "the batch before" for "the previous batch".
    "beside": r"\bbeside\b",
    "the one before": r"\bthe ones? (?:before|after|behind|below|above|with|without)\b",
    # Rules 2 and 6: a paraphrase for a term: redelivered, dead-lettered, finished, continued, remaining, rescheduled.
    "comes again": r"\b(?:comes?|came|coming) again\b",
    "put aside": r"\b(?:put|puts) aside\b",
    "done with": r"\b(?:is|are|was|were) done with\b",
    "goes on": r"\b(?:go|goes|went|gone) on\b(?! to\b)",
    "is left": r"\b(?:is|are|was|were|nothing|anything|none) left\b",
    "taken back": r"\b(?:taken|takes|took) back\b",
    "given up": r"\b(?:given|gives|gave) up\b",
    "stands": r"\b(?:stands|stood)\b(?! for\b)",
}  # fmt: skip
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in EXCLUDED.items()}
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern in EXCLUDED.values()), re.IGNORECASE)

_MESSAGE_CALLS = re.compile(
    r"(?:^|\.)(?:print|echo|secho|log|debug|info|warning|error|exception|critical|warn|Option|Argument|add_argument|add_parser)$"
)
_NO_PROSE = re.compile(r"^(?:noqa|type:|pragma|fmt:|mypy:|nosec|-+$)")
_CODE = re.compile(r"``.+?``|`[^`]*`|https?://\S+")
# Code between fences, or paragraphs indented by four spaces.
_CODE_BLOCK = re.compile(r"^```.*?^```|(?<=\n\n)(?: {4}[^\n]*\n)+", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"(\n\s*\n|\n(?=\s*(?:[-*#>]|\d+\.)\s)|\||^---$)", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")
_MINIMUM_WORDS = 4


@dataclass(frozen=True)
class Text:
    path: str
    line: int
    words: str

    @property
    def excluded(self) -> list[str]:
        return constructions(self.words)


@cache
def constructions(text: str) -> list[str]:
    """Names of the excluded constructions in a text."""
    sentences = [part.strip(" \n\t*#->([\"'") for part in _SENTENCE.split(_CODE.sub("X", text))]
    sentences = [sentence for sentence in sentences if _ANY.search(sentence)]
    return [name for name, pattern in _PATTERNS.items() if any(pattern.search(sentence) for sentence in sentences)]


def share(texts: Iterable[Text]) -> float:
    """The part of the texts that contain an excluded construction; 0 of none."""
    counted = [bool(text.excluded) for text in texts]
    return sum(counted) / max(1, len(counted))


def texts_of(path: Path, name: str) -> Iterator[Text]:
    """Yield the texts of a Python or Markdown file. name: the path that the texts have."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = list(_sentences(content))
    else:
        nodes = list(ast.walk(ast.parse(content)))  # The walk takes most of the time of the check.
        found = [*_comments(content), *_docstrings(nodes), *_messages(nodes)]
    return (Text(name, line, words) for line, words in found if len(words.split()) >= _MINIMUM_WORDS)


def files_of_repository() -> list[str]:
    """The paths of every tracked or new file, from the root of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(name for name in set(listed.splitlines()) if (ROOT / name).is_file())


def texts_of_repository() -> list[Text]:
    names = [name for name in files_of_repository() if name.endswith((".py", ".md"))]
    return [text for name in names for text in texts_of(ROOT / name, name)]


def package_of(path: str) -> str:
    """Return the package in whose share a file counts: two levels of masscomm, functions, tests and docs, else one."""
    parts = path.split("/")
    if len(parts) > 2 and parts[0] in ("masscomm", "functions", "tests", "docs"):
        return "/".join(parts[:2])
    return parts[0]


def by_package(texts: Iterable[Text]) -> dict[str, list[Text]]:
    packages: dict[str, list[Text]] = defaultdict(list)
    for text in texts:
        packages[package_of(text.path)].append(text)
    return dict(sorted(packages.items()))


def _comments(content: str) -> Iterator[tuple[int, str]]:
    """Yield comments with their first line; consecutive lines of one indentation are one comment."""
    block: list[str] = []
    first, last = 0, (-1, -1)
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        words = token.string.lstrip("#!: ").strip()
        if token.type != tokenize.COMMENT or _NO_PROSE.match(words):
            continue
        row, column = token.start
        own_line = not token.line[:column].strip()
        if block and own_line and last == (row - 1, column):
            block.append(words)
        else:
            if block:
                yield first, " ".join(block)
            block, first = [words], row
        last = (row, column) if own_line else (-1, -1)
    if block:
        yield first, " ".join(block)


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring


def _messages(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the texts of raised exceptions, and of calls that log, print or describe a command's options."""
    raised = {id(node.exc) for node in nodes if isinstance(node, ast.Raise)}
    for node in nodes:
        if isinstance(node, ast.Call) and (id(node) in raised or _MESSAGE_CALLS.search(_called(node.func))):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if words := _literal(argument):
                    yield argument.lineno, words


def _called(function: ast.expr) -> str:
    """Return `.name` for a method or attribute, the name for a function, otherwise an empty text."""
    if isinstance(function, ast.Attribute):
        return f".{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or "X" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _literal(node.left) + _literal(node.right)
    return ""


def _sentences(content: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of paragraphs, list entries and cells of tables, without blocks of code."""
    line = 1
    content = _CODE_BLOCK.sub(lambda code: "\n" * code[0].count("\n"), content)
    for block in _BLOCK.split(content):
        within = line
        for sentence in re.split(r"((?<=[.!?])\s+)", block):
            if sentence.strip(" |-\n"):
                yield within + (len(sentence) - len(sentence.lstrip("\n"))), " ".join(sentence.split())
            within += sentence.count("\n")
        line += block.count("\n")


def main(paths: list[str]) -> int:
    """Run the command. Returns the exit code: 1 if a package is above the target."""
    texts = texts_of_repository()
    for text in texts:
        if paths and text.path.startswith(tuple(paths)) and text.excluded:
            sys.stdout.write(f"{text.path}:{text.line}: {text.excluded} {' '.join(text.words.split())}\n")
    above = {package: share(found) for package, found in by_package(texts).items() if share(found) > TARGET}
    sys.stdout.write(f"prose {share(texts):.1%}, target {TARGET:.0%} {above or ''}\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
