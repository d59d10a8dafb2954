"""Count the words of the documentation for users, or draw sentences from it.

The pages are those of web/site/sidebar.json under `users`. Words are separated by white space, as for `wc -w`.
Generated parts, such as the table of routes, are left out. Of an example in several languages the first one counts: a
reader reads one.

    python -m tests.support.docs_words                    print the words of each page and of all
    python -m tests.support.docs_words --draw 60 --seed 7  print sentences, each with its page
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence

from cli import reference
from tests.support import prose

SIDEBAR = prose.ROOT / "web" / "site" / "sidebar.json"
MOST_WORDS = 37_000
_GENERATED = re.compile(r"<!-- (?:(\w+): )?made by .*?<!-- end of [\w ]+ -->", re.DOTALL)
_TABS = re.compile(r"(^```\w+ sdk/[^`]*^```\n)(?:\n```\w+ sdk/.*?^```\n)+", re.DOTALL | re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```.*?^```|(?<=\n\n)(?: {4}[^\n]*\n)+", re.DOTALL | re.MULTILINE)
_SHORTEST = 6


def pages() -> list[str]:
    """Return the paths of the pages for users, in their order."""
    groups = json.loads(SIDEBAR.read_text())["users"]
    return [f"docs/{page}" for group in groups for page in group["pages"]]


def written(page: str) -> str:
    """Return a page without its generated parts, and with the first language of each example."""
    if prose.ROOT / page == reference.PAGE:
        return ""
    return _TABS.sub(r"\1", _GENERATED.sub("", (prose.ROOT / page).read_text()))


def sentences(page: str) -> list[str]:
    """Return the sentences and the rows of tables of a page that have enough words to be understood alone."""
    text = _CODE_BLOCK.sub("", written(page))
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*#>]|\d+\.)\s)|\n(?=\|)", text)
    texts = [" ".join(block.split()) for block in blocks if not block.lstrip().startswith("#")]
    found = [part for text in texts for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", text)]
    return [each for each in found if len(each.split()) >= _SHORTEST]


def drawn(number: int, seed: int) -> list[tuple[str, str]]:
    """Return that many (page, sentence) of all pages for users, each with the same probability."""
    every = [(page, sentence) for page in pages() for sentence in sentences(page)]
    return random.Random(seed).sample(every, number)  # noqa: S311 - no secret depends on it


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Count the words of the documentation for users.")
    parser.add_argument("--draw", type=int, help="print so many sentences instead")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.draw:
        lines = [f"{page}: {sentence}" for page, sentence in drawn(chosen.draw, chosen.seed)]
    else:
        counts = {page: len(written(page).split()) for page in pages()}
        lines = [f"{count:7,}  {page}" for page, count in counts.items()]
        lines.append(f"{sum(counts.values()):7,}  words for users on {len(counts)} pages; at most {MOST_WORDS:,}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
