"""A new task begins with the newest snapshot of the store."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, create_autospec

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from directory_state import processes
from directory_state.processes import keep_snapshots
from directory_state.snapshots import KEY, Snapshots
from directory_state.store import FED_AT, Store, empty, prepare, source_of
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.domain.time_limits import DIRECTORY_STATE_AGE_MS
from masscomm.errors import Retry
from masscomm.observability import logs

BUCKET = "snapshots"
FED_MS = 1_700_000_000_000
TOPICS = {"cdc.g1.users": "an id"}


@dataclass
class Task:
    """A store of its own."""

    folder: Path

    def prepare(self, *, topic_ids: dict[str, str] = TOPICS, now_ms: int = FED_MS) -> Store:
        prepare(self.folder, generations=["g1"], topic_ids=topic_ids, now_ms=now_ms)
        return Store(self.folder, writes=True)

    def name(self, store: Store) -> Any:
        with store.reading() as reader:
            (found,) = reader.values("users-g1", [7])
        store.close()
        return None if found is None else source_of(found)["first_name"]


def _write(store: Store, name: str) -> None:
    user = VersionedDocument(index="users-g1", id="7", version=1, source={"club_id": 1, "first_name": name})
    with store.writing() as writer:
        writer.put(user)
        writer.set_offset("cdc.g1.users", 0, 12)
        writer.set_meta(f"{FED_AT}/0", FED_MS)


@pytest.fixture
def snapshots() -> Iterator[Snapshots]:
    with mock_aws():
        client = boto3.client("s3", region_name="eu-central-1")
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        yield Snapshots(client, BUCKET)


@pytest.fixture
def new(snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task on another machine, after a snapshot was kept."""
    store = Task(tmp_path / "first").prepare()
    _write(store, "Ada")
    assert snapshots.keep(store, tmp_path / "copy")
    store.close()
    monkeypatch.setattr("directory_state.store._boot", lambda: "another machine")
    return Task(tmp_path / "new")


@pytest.mark.kills(guard="directory_state.adopted_snapshot")
def test_new_task_continues_the_snapshot(new: Task, snapshots: Snapshots) -> None:
    assert snapshots.fetch(new.folder)
    store = new.prepare()
    with store.reading() as reader:
        assert reader.offset("cdc.g1.users", 0) == 12
    assert new.name(store) == "Ada"
    assert [each.name for each in new.folder.parent.iterdir() if each.name not in ("first", "new")] == []


def test_old_snapshot_is_not_continued(new: Task, snapshots: Snapshots) -> None:
    snapshots.fetch(new.folder)
    assert new.name(new.prepare(now_ms=FED_MS + DIRECTORY_STATE_AGE_MS)) is None


def test_snapshot_of_other_topics_is_not_continued(new: Task, snapshots: Snapshots) -> None:
    snapshots.fetch(new.folder)
    assert new.name(new.prepare(topic_ids={"cdc.g1.users": "of a new topic"})) is None


def test_missing_snapshot_is_no_error(snapshots: Snapshots, tmp_path: Path) -> None:
    assert not snapshots.fetch(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_damaged_snapshot_is_a_retry(snapshots: Snapshots, tmp_path: Path) -> None:
    boto3.client("s3", region_name="eu-central-1").put_object(Bucket=BUCKET, Key=KEY, Body=b"no store" * 1_000)
    with pytest.raises(Retry):
        snapshots.fetch(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_bucket_that_does_not_answer_is_a_retry(tmp_path: Path) -> None:
    options = Config(connect_timeout=1, retries={"total_max_attempts": 1})
    client = boto3.client("s3", endpoint_url="http://127.0.0.1:9", region_name="eu-central-1", config=options)
    away = Snapshots(client, BUCKET)
    with pytest.raises(Retry):
        away.fetch(tmp_path / "new")
    store = Task(tmp_path / "first").prepare()
    with pytest.raises(Retry):
        away.keep(store, tmp_path / "copy")
    store.close()
    assert [each.name for each in tmp_path.iterdir()] == ["first"]


@pytest.mark.kills(guard="directory_state.snapshot_of_another_task")
def test_snapshot_of_another_task_is_enough(new: Task, snapshots: Snapshots) -> None:
    store = new.prepare()
    assert not snapshots.keep(store, new.folder.with_name("copy"))
    store.close()
    empty(new.folder)
    snapshots.fetch(new.folder)
    assert new.name(new.prepare()) == "Ada"


@pytest.mark.kills(guard="directory_state.gap_of_the_snapshot")
def test_store_with_a_gap_begins_without_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older snapshot has the same gap."""
    monkeypatch.setenv("DIRECTORY_STATE_FOLDER", str(tmp_path / "state"))
    run = create_autospec(processes._run, side_effect=[processes._GAP, processes._GAP, 0])
    monkeypatch.setattr(processes, "_run", run)
    assert processes.main() == 0
    assert [each.kwargs["with_snapshot"] for each in run.call_args_list] == [True, False, False]


@dataclass
class _Kept:
    """The snapshots of a test, which fail once."""

    stores: list[Any] = field(default_factory=list)
    failing: bool = True

    def keep(self, store: Any, _: Path) -> bool:
        self.failing, failed = False, self.failing
        if failed:
            raise Retry("S3 is away")
        self.stores.append(store)
        return True


@pytest.mark.kills(guard="directory_state.snapshot_of_all")
def test_no_snapshot_is_kept_before_the_topics_are_read(tmp_path: Path) -> None:
    kept, answers = _Kept(), MagicMock(logger=logs.logger("directory_state"))
    answers.caught_up.side_effect = [None, "g1", "g1"]
    rounds = iter([False, False, False, True])
    keep_snapshots(kept, answers, tmp_path, lambda _: next(rounds))  # type: ignore[arg-type]
    assert kept.stores == [answers.store]
