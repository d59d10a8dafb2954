"""tests/support/prose.py finds the excluded constructions, and hardly any in well-written libraries."""

import importlib.util
from pathlib import Path

import pytest

from tests.support import prose

EXCLUDED = {
    "tell": "The builder tells one of each recipient.",
    "hear": "A directory that never hears of a deletion keeps the row.",
    "is asked": "The provider is asked once a second.",
    "whoever": "Whoever is held waits; of everybody else it is the end.",
    "of whom": "A record some recipients of whom wait keeps its id.",
    "that which": "That which no rule covers is allowed.",
    "clause as subject": "What of it is not before a moment.",
    "what is …": "The queue keeps what is due.",
    "preposition + what": "A plan made of what the last batch needed.",
    "who is …": "Share the options between the job and who checks it.",
    "becomes of": "The outcome names each recipient and what became of it.",
    "beside": "A batch is staged beside the merge.",
    "the one before": "A batch is merged after the one before it.",
    "comes again": "A record that comes again has the same id.",
    "put aside": "A record of an unknown schema is put aside.",
    "done with": "What needs no look-up is done with here.",
    "goes on": "The others go on in a record of their own.",
    "is left": "The recipients that are left wait.",
    "taken back": "Kafka's records are taken back by the scheduler.",
    "given up": "A record that its mapping has given up on waits.",
    "stands": "The first decision stands.",
}
PLAIN = [
    "HELD recipients are deferred; any other decision is final.",
    "Finish items that need no look-up; append the rest to `pending`.",
    "Run both queries in parallel: round trips add to one-time-password latency.",
    "Best effort: one attempt, short time-outs.",
    "Schedule a retry record for recipients not delivered within the invocation's retry budget.",
    "The part of the span at or after `moment`.",
    "Share Kafka reader options between the job and recompute",
    "Ignore Kafka's zero topic id (topics created before topic ids)",
    "Return the recipients whose devices have no endpoint.",
    "Return what the provider answered.",
    "What does a send cost?",
    "An operator who replays the record gets the same ids.",
    "The code `nobody` is the name of a user.",
]


@pytest.mark.parametrize("construction", prose.EXCLUDED)
def test_excluded_construction_is_found(construction: str) -> None:
    assert construction in prose.constructions(EXCLUDED[construction])


@pytest.mark.parametrize("sentence", PLAIN)
def test_plain_sentence_is_accepted(sentence: str) -> None:
    assert prose.constructions(sentence) == []


@pytest.mark.parametrize(
    "library", ["httpx", "httpcore", "aws_lambda_powertools", "confluent_kafka", "fastavro", "click"]
)
def test_well_written_library_is_below_the_target(library: str) -> None:
    """The pattern must not match ordinary technical English, or the target would ask for artificial prose."""
    found = importlib.util.find_spec(library)
    assert found is not None
    assert found.origin is not None
    texts = [text for path in Path(found.origin).parent.rglob("*.py") for text in prose.texts_of(path, path.name)]
    assert len(texts) > 200
    assert prose.share(texts) < prose.TARGET


def test_comment_docstring_and_message_are_counted(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What is left of a record."""\n\n\n'
        "def refuse(name: str) -> None:\n"
        '    """Refuse a name that does not exist."""\n'
        "    # two lines of one comment: the second one\n"
        "    # names nobody\n"
        '    raise ValueError(f"{name} goes on without a name")  # noqa: TRY003\n'
    )
    found = {text.line: text.excluded for text in prose.texts_of(module, "module.py")}
    assert found == {1: ["clause as subject", "what is …", "is left"], 5: [], 6: ["whoever"], 8: ["goes on"]}


def test_markdown_is_counted_by_sentence(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title of a page\n\nOne sentence without fault. Nobody reads the second one.\n\n"
        "```\nnobody reads this block\n```\n\n    nobody reads this command\n\nA last sentence without fault.\n"
    )
    found = [(text.line, text.excluded) for text in prose.texts_of(page, "page.md")]
    assert found == [(1, []), (3, []), (3, ["whoever"]), (11, [])]


def test_share_above_the_limit_is_reported() -> None:
    """A package without a limit has the target."""
    texts = {"masscomm/kafka": [prose.Text("a.py", 1, "Nobody reads this record.")]}
    assert prose.above_limit(texts, {"masscomm/kafka": 1.0}) == []
    assert len(prose.above_limit(texts, {})) == 1


def test_limits_only_fall() -> None:
    bad, good = prose.Text("a.md", 1, "Nobody reads this record."), prose.Text("b.py", 1, "One plain sentence here.")
    assert prose.lowered({"docs": [bad], "infra": [good]}, {"docs": 0.3, "infra": 0.4}) == {"docs": 0.3}
