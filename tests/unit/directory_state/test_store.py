"""A transaction has every database that exists in it, whichever process has made it."""

from pathlib import Path
from typing import Any

import pytest

from directory_state.store import Store, prepare
from masscomm.directory.bulk_writes import VersionedDocument

USER = VersionedDocument(index="users-g1", id="7", version=1, source={"club_id": 1})


class _Overtaken:
    """The environment of a store, in which another transaction ends just before the first one begins."""

    def __init__(self, store: Store) -> None:
        self._store, self._env = store, store._env
        store._env = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, **options: Any) -> Any:
        self._store._env = self._env
        with self._store.writing() as writer:
            writer.put(USER)
        return self._env.begin(**options)


@pytest.mark.kills(guard="directory_state.databases_of_the_transaction")
def test_reader_sees_a_database_made_at_its_beginning(tmp_path: Path) -> None:
    prepare(tmp_path / "state", generations=["g1"], topic_ids={}, now_ms=0)
    store = Store(tmp_path / "state", writes=True)
    with store.reading():  # It knows the databases that exist by now.
        pass
    _Overtaken(store)
    with store.reading() as reader:
        assert reader.changes() == 1
        assert [user_id for user_id, _ in reader.rows("users-g1", after=0)] == [7]
    store.close()
