"""The documents of the directory in LMDB, a memory-mapped B+ tree that one process writes at a time and any number of
processes read, each from the snapshot at which its transaction began.

Each document is kept as the bytes that are answered: `[version,source]`, in JSON. An index of OpenSearch is a database
here. Five more databases find documents by other values: the users of a club and of the end of a phone number, the
devices of a user, the templates of a category and channel, and the followers of an object. One transaction writes
documents with the offsets up to which the topics have been applied, so that a process that is killed continues where
the documents end. It also numbers the users whose values may have changed, so that a reader that keeps values in memory
reads the changed ones alone.

The file is not flushed to the disk, because it can be rebuilt from the topics. It survives the death of a process, but
not that of the machine: `prepare` empties a store that was written before the machine's last start.
"""

import hashlib
import shutil
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import lmdb

from masscomm import fast_json
from masscomm.cdc.captured_tables import DEVICES, TEMPLATES, USERS, captured_tables, settings_tables
from masscomm.directory import device_states
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.directory.changed_documents import index_of
from masscomm.directory.own_documents import INDICES
from masscomm.domain import preference_changes
from masscomm.domain.memberships import kind_and_object
from masscomm.domain.phone_ends import PHONE_END
from masscomm.domain.row_ids import SEPARATOR
from masscomm.domain.source_tables import MEMBERSHIPS, source_file
from masscomm.domain.time_limits import DIRECTORY_STATE_AGE_MS
from masscomm.integers import integer

# The file in the folder of a store.
FILE = "data.mdb"
# The form of the stored values. A store of another form is emptied.
_FORM = 3
# The most that the file may contain. It is address space, not memory.
_MAP_BYTES = 2**40
_MAX_DATABASES = 128
# The database of all other values.
_META = "meta"
# The name under which the store has the times at which feeders have last read from Kafka.
FED_AT = "fed_at"
# The name under which it has whether its topics had all of masscomm's own documents.
FILLED = "filled"
# The database of the last changes of users, by their numbers modulo the second, and the name of the number of changes.
_CHANGED, CHANGES_KEPT = "changed", 2**18
_CHANGES = "changes"
# A change: the user, and the club that the user may have left, if there is one.
_CHANGE = struct.Struct(">qq?")
_NUMBER = struct.Struct(">Q")
# LMDB's limit for a key, as py-lmdb is compiled.
_KEY_BYTES = 511

# The databases that find documents by other values end with these.
_OF_CLUB, _OF_USER, _OF_KIND, _OF_OBJECT, _OF_PHONE = ".of_club", ".of_user", ".of_kind", ".of_object", ".of_phone"


class UnstorableKey(ValueError):
    """The id of a document is longer than a key of the store may be."""


def _number(value: int) -> bytes:
    """Return eight bytes that are ordered as the signed numbers are."""
    return _NUMBER.pack(value + 2**63)


def number_in(key: bytes) -> int:
    """Return the number in a key."""
    (value,) = _NUMBER.unpack(key)
    return int(value) - 2**63


def _kind(category: Any, channel: Any, club_id: Any) -> bytes:
    return hashlib.sha256(fast_json.encoded([category, channel, club_id])).digest()


def _object(kind: str, name: str, club_id: int | None) -> bytes:
    return hashlib.sha256(fast_json.encoded([kind, name, club_id])).digest()


def version_of(value: bytes) -> int:
    """Return the version in a stored value."""
    return int(value[1 : value.index(b",")])


def source_of(value: bytes) -> dict[str, Any]:
    """Return the source in a stored value."""
    source: dict[str, Any]
    _, source = fast_json.parsed(value)
    return source


class Store:
    """One LMDB file. A process opens it once.

    Args:
        folder: The folder of the file.
        writes: Whether this process writes.
    """

    def __init__(self, folder: Path, *, writes: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._env = lmdb.open(
            str(folder),
            map_size=_MAP_BYTES,
            max_dbs=_MAX_DATABASES,
            readonly=not writes,
            sync=False,
            metasync=False,
            max_spare_txns=4,
        )
        self._writes = writes
        # The database of the names of all others.
        self._main = self._env.open_db(None)
        self._databases: dict[str, Any] = {}
        # LMDB opens one database at a time.
        self._opening = threading.Lock()

    def close(self) -> None:
        self._env.close()

    def copy(self, folder: Path) -> None:
        """Write the store as it is at this moment to a file in another folder. Raises OSError."""
        # LMDB 0.9.36 crashes when it compacts databases with several values for a key.
        self._env.copy(str(folder), compact=False)

    @contextmanager
    def reading(self) -> "Iterator[Reader]":
        """Read the documents as they are at this moment."""
        databases, transaction = self._begin(write=False)
        with transaction:
            yield Reader(databases, transaction)

    @contextmanager
    def writing(self) -> "Iterator[Writer]":
        """Write in one transaction, which is dropped after an error. A second writer waits for its end."""
        databases, transaction = self._begin(write=True)
        with transaction:
            # The databases that the transaction makes exist once it has ended.
            writer = Writer(dict(databases), transaction, self._env)
            yield writer
            writer.store_changes()

    def _begin(self, *, write: bool) -> tuple[dict[str, Any], Any]:
        """Begin a transaction; return all databases that exist in it, and the transaction.

        A transaction cannot use a database that was opened later, and another process may make one at any time.
        """
        while True:
            databases = self._databases
            transaction = self._env.begin(write=write)
            # guard: directory_state.databases_of_the_transaction
            if transaction.stat(self._main)["entries"] == len(databases):
                return databases, transaction
            transaction.abort()
            self._open_databases()

    def _open_databases(self) -> None:
        with self._opening:
            # Without a transaction, py-lmdb would wait for a writer of this process with Python's global lock held.
            with self._env.begin(write=self._writes) as transaction:
                names = [key.decode() for key in transaction.cursor().iternext(values=False)]
                own = transaction if self._writes else None
                databases = {name: self._databases.get(name) or _opened(self._env, name, own) for name in names}
            self._databases = databases


def _opened(env: lmdb.Environment, name: str, transaction: Any = None) -> Any:
    """Open a database; only a transaction that writes makes it."""
    # Those that find documents have several values for a key, in their order.
    several = name.endswith((_OF_CLUB, _OF_USER, _OF_KIND, _OF_OBJECT, _OF_PHONE))
    created = transaction is not None
    return env.open_db(name.encode(), txn=transaction, create=created, dupsort=several, dupfixed=several)


class Reader:
    """The documents at one moment."""

    def __init__(self, databases: Mapping[str, Any], transaction: Any) -> None:
        self._databases = databases
        self._transaction = transaction

    def meta(self, name: str) -> Any:
        """Return a value that `set_meta` has stored; None if there is none."""
        database = self._databases.get(_META)
        found = None if database is None else self._transaction.get(name.encode(), db=database)
        return None if found is None else fast_json.parsed(found)

    def offset(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next record of a partition; None: no record has been applied."""
        found = self.meta(f"offset/{topic}/{partition}")
        return None if found is None else int(found)

    def values(self, index: str, ids: Iterable[int | str]) -> list[bytes | None]:
        """Return the stored values of documents, in the order of the ids; None for one that does not exist."""
        database = self._databases.get(index)
        keys = [self._key(each) for each in ids]
        if database is None:
            return [None] * len(keys)
        get = self._transaction.get
        return [get(key, db=database) for key in keys]

    def values_of_table(self, table: str, generation: str, ids: Sequence[int | str]) -> list[bytes | None]:
        """Return as `values` the documents of a captured table, or of one of masscomm's own."""
        if table in captured_tables():
            return self.values(index_of(table, generation), ids)
        return self.values(table, map(str, ids))

    def changes(self) -> int:
        """Return the number of changes of users until now."""
        return int(self.meta(_CHANGES) or 0)

    def changed_after(self, number: int) -> list[tuple[int, int | None]] | None:
        """Return (user id, club that the user may have left) of all changes after the first ones; None if they are too
        many.
        """
        changes = self.changes()
        if changes - number > CHANGES_KEPT:  # guard: directory_state.changes_kept
            return None
        database, found = self._databases.get(_CHANGED), []
        for each in range(number, changes):
            user_id, club_id, has_left = _CHANGE.unpack(
                self._transaction.get(_number(each % CHANGES_KEPT), db=database)
            )
            found.append((user_id, club_id if has_left else None))
        return found

    def devices_of(self, generation: str, user_ids: Iterable[int]) -> list[tuple[int, int, bytes]]:
        """Return the active devices of users, as (user id, id, stored value), each user's in the order of the ids."""
        index = index_of(DEVICES, generation)
        documents, ids = self._databases.get(index), self._databases.get(f"{index}{_OF_USER}")
        if documents is None or ids is None:
            return []
        with self._transaction.cursor(db=ids) as cursor:
            found = cursor.getmulti([_number(each) for each in dict.fromkeys(user_ids)], dupdata=True, dupfixed_bytes=8)
        with self._transaction.cursor(db=documents) as cursor:
            rows = dict(cursor.getmulti([device for _, device in found]))
        return [(number_in(user), number_in(device), rows[device]) for user, device in found]

    def templates_of(
        self, generation: str, club_id: int | None, category: str, channel: str
    ) -> list[tuple[int, bytes]]:
        """Return the templates of exactly this club, category and channel, as (id, stored value) in the order of the
        ids. None: those for every club.
        """
        return self._several(index_of(TEMPLATES, generation), _OF_KIND, _kind(category, channel, club_id))

    def users_of_club(self, generation: str, club_id: int, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the users of a club whose ids are above `after`, as (id, stored value) in the order of the ids."""
        return self._several(index_of(USERS, generation), _OF_CLUB, _number(club_id), after=after, limit=limit)

    def users_of_phone(self, generation: str, end: str, *, limit: int) -> list[tuple[int, bytes]]:
        """Return the users whose phone ends with these digits, as (id, stored value) in the order of the ids."""
        return self._several(index_of(USERS, generation), _OF_PHONE, self._key(end), limit=limit)

    def followers(self, generation: str, follows: str, club_id: int | None, *, after: int) -> Iterator[int]:
        """Yield the users above `after` who follow an object, in the order of their ids.

        Args:
            club_id: The club in their rows; None: that of rows without one.
        """
        ids = self._databases.get(f"{index_of(MEMBERSHIPS, generation)}{_OF_OBJECT}")
        if ids is None:
            return
        with self._transaction.cursor(db=ids) as cursor:
            exists = cursor.set_range_dup(_object(*kind_and_object(follows), club_id), _number(after))
            for value in cursor.iternext_dup() if exists else ():
                if (user_id := number_in(value)) > after:
                    yield user_id

    def rows(self, index: str, *, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the documents of a captured table whose ids are above `after`, in the order of the ids."""
        database = self._databases.get(index)
        if database is None:
            return
        with self._transaction.cursor(db=database) as cursor:
            found = cursor.set_range(_number(after))
            for key, value in cursor if found else ():
                if (number := number_in(key)) > after:
                    yield number, value

    def _several(
        self, index: str, by: str, key: bytes, *, after: int | None = None, limit: int | None = None
    ) -> list[tuple[int, bytes]]:
        documents, ids = self._databases.get(index), self._databases.get(f"{index}{by}")
        if documents is None or ids is None:
            return []
        found: list[tuple[int, bytes]] = []
        with self._transaction.cursor(db=ids) as cursor:
            if after is None:
                exists = cursor.set_key(key)
            else:
                exists = cursor.set_range_dup(key, _number(after))
                if exists and number_in(cursor.value()) == after:
                    exists = cursor.next_dup()
            for value in cursor.iternext_dup() if exists else ():
                document = self._transaction.get(value, db=documents)
                if document is not None:
                    found.append((number_in(value), document))
                if limit is not None and len(found) == limit:
                    break
        return found

    @staticmethod
    def _key(id_: int | str) -> bytes:
        key = _number(id_) if isinstance(id_, int) else id_.encode()
        if not 1 <= len(key) <= _KEY_BYTES:
            raise UnstorableKey(f"the id of a document has {len(key)} bytes")
        return key


class Writer(Reader):
    """One transaction of a writer."""

    def __init__(self, databases: dict[str, Any], transaction: Any, env: Any) -> None:
        super().__init__(databases, transaction)
        self._made = databases
        self._env = env
        # The changes of users in this transaction, in their order, each once.
        self._changed: dict[tuple[int, int | None], None] = {}

    def _database(self, name: str) -> Any:
        """Return a database, which is made if it does not exist."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = _opened(self._env, name, self._transaction)
        return found

    def set_meta(self, name: str, value: Any) -> None:
        """Store a value of JSON."""
        database = self._database(_META)
        self._transaction.put(name.encode(), fast_json.encoded(value), db=database)

    def set_offset(self, topic: str, partition: int, offset: int) -> None:
        self.set_meta(f"offset/{topic}/{partition}", offset)

    def put(self, document: VersionedDocument) -> bool:
        """Store a document unless the stored one has a higher version; return whether it was stored.

        Raises UnstorableKey.
        """
        table, _, generation = document.index.partition("-")
        is_captured = bool(generation) and table in captured_tables()
        key = self._key(captured_tables()[table].id_of(document.id) if is_captured else document.id)
        database = self._database(document.index)
        known = self._transaction.get(key, db=database)
        if known is not None and version_of(known) > document.version:
            return False
        value = b"[%d,%b]" % (document.version, fast_json.encoded(document.source))
        if known == value:
            return True
        self._transaction.put(key, value, db=database)
        places = self._find_by(document.index, table, key, known, document.source) if is_captured else ()
        self._note_change(table, document.id, places)
        return True

    def remove(self, index: str, id_: str) -> None:
        """Remove one of masscomm's own documents, and forget its version."""
        self._transaction.delete(self._key(id_), db=self._database(index))
        self._note_change(index, id_, ())

    def drop_generations(self, *, kept: Sequence[str]) -> None:
        """Remove all documents of other generations. No other process may have the store open."""
        for name in list(self._made):
            table, _, rest = name.partition("-")
            if table in captured_tables() and rest.partition(".")[0] not in kept:
                self._transaction.drop(self._made.pop(name))

    def store_changes(self) -> None:
        """Store which users have changed in this transaction."""
        if not self._changed:
            return
        first, database = self.changes(), self._database(_CHANGED)
        for number, (user_id, club_id) in enumerate(self._changed, first):
            change = _CHANGE.pack(user_id, club_id or 0, club_id is not None)
            self._transaction.put(_number(number % CHANGES_KEPT), change, db=database)
        self.set_meta(_CHANGES, first + len(self._changed))

    def _note_change(self, table: str, id_: str, places: Sequence[bytes | None]) -> None:
        """Note whose values a document of a table may have changed.

        Args:
            places: The values by which it was found before, and is found now.
        """
        if table == USERS:
            club = None if places[0] is None else number_in(places[0])
            self._changed[int(id_), club] = None
        elif table == DEVICES:
            self._changed.update(((number_in(each), None), None) for each in places if each is not None)
        elif table in settings_tables() or table == preference_changes.INDEX:
            self._changed[int(id_), None] = None
        elif table == device_states.INDEX and not id_.startswith(device_states.HOLDERS_PREFIX):
            self._changed.update(((user_id, None), None) for user_id in self._users_of_device(int(id_)))

    def _users_of_device(self, device_id: int) -> Iterator[int]:
        """Yield the user of an active device in each generation."""
        for index in [name for name in self._made if name.startswith(f"{DEVICES}-") and not name.endswith(_OF_USER)]:
            (row,) = self.values(index, [device_id])
            user = None if row is None else _user_of(source_of(row))
            if user is not None:
                yield number_in(user)

    def _find_by(self, index: str, table: str, key: bytes, known: bytes | None, after: Any) -> tuple[bytes | None, ...]:
        """Update the database that finds documents of this table by another value. Return the value before and now."""
        if table not in _FINDING:
            return ()
        before = None if known is None else source_of(known)
        if table == USERS:
            self._find_by_value(index, key, (_OF_PHONE, _phone_end_of), before, after)
        if captured_tables()[table].key:
            # The users who follow an object, whose number is the first value of the key.
            key = _number(integer(key[: key.index(SEPARATOR.encode())]))
        return self._find_by_value(index, key, _FINDING[table], before, after)

    def _find_by_value(
        self, index: str, key: bytes, finding: tuple[str, Callable[[Any], bytes | None]], before: Any, after: Any
    ) -> tuple[bytes | None, bytes | None]:
        by, place = finding
        old, new = None if before is None else place(before), place(after)
        if old == new:
            return old, new
        database = self._database(f"{index}{by}")
        if old is not None:
            self._transaction.delete(old, key, db=database)
        if new is not None:
            self._transaction.put(new, key, db=database)
        return old, new


def _club_of(source: Any) -> bytes | None:
    if source.get("deleted") or not isinstance(source.get("club_id"), int):
        return None
    return _number(source["club_id"])


def _phone_end_of(source: Any) -> bytes | None:
    end = source.get(PHONE_END)
    return end.encode() if isinstance(end, str) and end and not source.get("deleted") else None


def _user_of(source: Any) -> bytes | None:
    if source.get("deleted") or source.get("active") is not True:
        return None
    return _number(source["user_id"])


def _kind_of(source: Any) -> bytes | None:
    if source.get("deleted"):
        return None
    return _kind(source.get("type"), source.get("channel"), source.get("club_id"))


def _object_of(source: Any) -> bytes | None:
    if source.get("deleted"):
        return None
    return _object(source["kind"], source["object"], source.get("club_id"))


# The tables whose documents are found by another value: the database for it, and the value of a source.
_FINDING = {
    USERS: (_OF_CLUB, _club_of),
    DEVICES: (_OF_USER, _user_of),
    TEMPLATES: (_OF_KIND, _kind_of),
    MEMBERSHIPS: (_OF_OBJECT, _object_of),
}


def _boot() -> str:
    """Return the id of the machine's last start; where the system has none, one that is never the same."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(uuid4())


def empty(folder: Path) -> None:
    """Delete the store."""
    shutil.rmtree(folder, ignore_errors=True)


def adopt(folder: Path) -> None:
    """Let this machine continue a store that another one has copied whole."""
    store = Store(folder, writes=True)
    with store.writing() as writer:
        writer.set_meta("store", (writer.meta("store") or {}) | {"boot": _boot()})
    store.close()


def prepare(folder: Path, *, generations: Sequence[str], topic_ids: Mapping[str, str], now_ms: int) -> None:
    """Make the store, or empty one that cannot be continued: of another form, of other tables or topics, written before
    the machine's last start, or not fed for so long that the topics may have lost deletes.

    Args:
        generations: The captured generations. The documents of all others are removed.
        topic_ids: Kafka's ids of the topics that the store is fed from.
        now_ms: The time in ms since the epoch.
    """
    wanted = {"form": _FORM, "boot": _boot(), "tables": _tables_digest()}
    if folder.exists() and not _continues(folder, wanted, topic_ids, now_ms):
        empty(folder)
    store = Store(folder, writes=True)
    with store.writing() as writer:
        writer.drop_generations(kept=generations)
        writer.set_meta("store", wanted)
        writer.set_meta("topics", topic_ids)
    store.close()


def _continues(folder: Path, wanted: Mapping[str, Any], topic_ids: Mapping[str, str], now_ms: int) -> bool:
    try:
        store = Store(folder, writes=True)
    except lmdb.Error:
        return False
    with store.reading() as reader:
        known, topics, fed_at = reader.meta("store"), reader.meta("topics") or {}, reader.meta(f"{FED_AT}/0")
    store.close()
    if any(topic_ids.get(topic, id_) != id_ for topic, id_ in topics.items()):  # guard: directory_state.topic_ids
        return False
    if fed_at is not None and now_ms - fed_at >= DIRECTORY_STATE_AGE_MS:  # guard: directory_state.age
        return False
    return bool(known == wanted)


def _tables_digest() -> str:
    """Return a digest of the mapping from rows to documents, and of the indices of masscomm's own documents: a store
    has not applied the documents of an index that it did not know.
    """
    content = source_file().read_bytes() + repr((captured_tables(), INDICES)).encode()
    return hashlib.sha256(content).hexdigest()
