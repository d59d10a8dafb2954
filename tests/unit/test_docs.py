"""Paths that the documentation, docstrings and comments name exist."""

import json
import re
from pathlib import Path

import pytest

from tests.support import docs_words, prose

ROOT = Path(__file__).resolve().parents[2]
PAGES = [name for name in prose.files_of_repository() if name.endswith(".md")]
# Paths that commands create; the repository does not have them.
MADE = ("infra/package", "infra/cdk/node_modules", "web/node_modules", "web/dist")
# The name of a secret, which looks like a path.
NO_PATHS = {"masscomm/monolith"}
FOLDERS = sorted({name.split("/")[0] for name in prose.files_of_repository() if "/" in name and name[0] != "."})
SUFFIXES = (".py", ".md", ".yaml", ".sql", ".avsc", ".json", ".tsv", ".toml")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
PAGE = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)(?:#([\w-]+))?")
# The file whose texts name absent pages.
TESTED_HERE = "tests/unit/test_docs.py"
PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./*-]*\w")


def missing(names: set[str]) -> set[str]:
    """The paths that match no file or folder; `*` matches any name, and a decision's number its record."""
    patterns = {name: re.sub(r"(docs/decisions/\d{3})$", r"\1-*", name) for name in names - NO_PATHS}
    return {name for name, pattern in patterns.items() if not name.startswith(MADE) and not any(ROOT.glob(pattern))}


def paths(text: str) -> set[str]:
    """Return the paths in a text, without an attribute or a test's name after them."""
    return {re.sub(rf"({'|'.join(map(re.escape, SUFFIXES))})\..*", r"\1", found) for found in PATH.findall(text)}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [link for link in LINK.findall(text) if not ((ROOT / page).parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_anchors_of_links_are_headings(page: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)]+)\)", (ROOT / page).read_text())
    targets = {(link, anchor): (ROOT / page).parent / link if link else ROOT / page for link, anchor in links}
    assert [link for link, path in targets.items() if path.suffix == ".md" and link[1] not in anchors(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_named_by_a_page_exist(page: str) -> None:
    code = set(re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()))
    assert missing({path for words in code for path in paths(words)}) == set()


def test_paths_named_by_comments_exist() -> None:
    wrong = {}
    for name in prose.files_of_repository():
        if name.endswith(".py") and missing_files((ROOT / name).read_text()):
            for text in prose.texts_of(ROOT / name, name):
                if absent := missing_files(text.words):
                    wrong[f"{text.path}:{text.line}"] = absent
    assert wrong == {}


def missing_files(text: str) -> set[str]:
    """Return the paths in a text that look like a file's and match no file."""
    return missing({path for path in paths(text) if path.endswith(SUFFIXES)})


def test_pages_named_by_messages_and_by_the_console_exist() -> None:
    """Error messages, alarms, settings and the console name pages by path, some with an anchor."""
    named: dict[tuple[str, str], str] = {}
    for name in prose.files_of_repository():
        if name.endswith((".py", ".ts", ".vue", ".js", ".yaml", ".toml", ".json", ".sql")) and name != TESTED_HERE:
            named |= dict.fromkeys(PAGE.findall((ROOT / name).read_text()), name)
    assert len(named) >= 20
    absent = {
        page: name
        for (page, anchor), name in named.items()
        if not (ROOT / page).exists() or (anchor and anchor not in anchors(ROOT / page))
    }
    assert absent == {}


def test_path_without_a_file_is_missing() -> None:
    text = "in `docs/absent.md`, docs/decisions/010, masscomm/kafka/*.py and functions/absent/handler.py.MAXIMUM"
    assert missing(paths(text)) == {"docs/absent.md", "functions/absent/handler.py"}


def test_sidebar_has_each_page_once() -> None:
    """The order of the site (web/site/sidebar.json): pages for users, runbooks, internals."""
    sidebar = json.loads((ROOT / "web" / "site" / "sidebar.json").read_text())
    groups = [*sidebar["users"], sidebar["runbooks"], *sidebar["internals"]]
    listed = [f"docs/{page}" for group in groups for page in group["pages"]]
    assert sorted(listed) == [page for page in PAGES if page.startswith("docs/")]


def test_documentation_for_users_is_short() -> None:
    assert sum(len(docs_words.written(page).split()) for page in docs_words.pages()) <= docs_words.MOST_WORDS


def test_each_change_of_the_table_has_a_place_to_start() -> None:
    text = (ROOT / "docs" / "internals" / "contributing.md").read_text()
    table = text.split("| to change | start at | then |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) >= 12
    assert [change for change, start, _ in rows if not paths(start)] == []
