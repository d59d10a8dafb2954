"""Counts and lists the users of audiences from their values in memory.

A value that conditions can read is a column, such as a user's locale. The users of a club are in the order of their
ids; each column has a number for each of them, which stands for one of the column's values. So a condition is evaluated
once for all users with the same values (measured: docs/internals/directory-state.md).

The values are those of one moment of the store. Before each answer, those of the users that have changed are read.
"""

import marshal
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import batched, compress, filterfalse
from typing import Any

from directory_state.store import Reader, Store, source_of
from masscomm import fast_json
from masscomm.cdc.captured_tables import DEVICES, USERS, captured_tables, settings_tables
from masscomm.directory import device_states, documents
from masscomm.directory.changed_documents import index_of
from masscomm.directory.documents import Read
from masscomm.directory.members import reached_on
from masscomm.domain import preference_changes
from masscomm.domain.audiences import ATTRIBUTES, PERSONAL, SETTINGS, Audience, read_audience
from masscomm.domain.channels import CHANNELS
from masscomm.domain.source_tables import MEMBERSHIPS, source_tables
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.json_reader import read_json
from masscomm.observability.unreadable_items import read_each

# The users that are read from the store at a time.
_USERS_READ = 500
# The users that are made to compare them with an audience, at a time.
_USERS_MADE = 10_000
# The values that are compared between two looks at the clock.
_COMPARED = 1_000
# The values of users that have changed stay in memory until they outnumber those of all users by so many.
_UNUSED_VALUES = 100_000
_FIRST = -(2**63)

# Which of the personal data a user has, and the channels that reach the user.
_HAS, _REACHED = "has", "reached"
# The columns of user settings.
_OF_SETTINGS = ("channels", "categories", "quiet_hours")

# The codes of a user's values, in the order of some columns.
type _Codes = tuple[int, ...]


class _Values:
    """The distinct values of a column. A value's code is its place among them."""

    def __init__(self) -> None:
        # A text is its own key.
        self._codes: dict[bytes | str, int] = {}
        self._values: list[bytes | str] = []

    def __len__(self) -> int:
        return len(self._values)

    def code(self, value: Any) -> int:
        # Unlike equality and JSON, marshal keeps 1, 1.0, true and infinity apart.
        key = value if type(value) is str else marshal.dumps(value, 2)
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = len(self._values)
            self._values.append(key)
        return found

    def __getitem__(self, code: int) -> Any:
        key = self._values[code]
        return key if isinstance(key, str) else marshal.loads(key)  # noqa: S302 - it was written by this process


class _Club:
    """The users of a club, in the order of their ids, with the codes of their values by column."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.ids = array("q")
        self.codes = {name: array("I") for name in columns}

    def put(self, user_id: int, codes: Iterable[int]) -> None:
        place = len(self.ids)
        if self.ids and user_id <= self.ids[-1]:
            place = bisect_left(self.ids, user_id)
            if self.ids[place] == user_id:
                for column, code in zip(self.codes.values(), codes, strict=True):
                    column[place] = code
                return
        self.ids.insert(place, user_id)
        for column, code in zip(self.codes.values(), codes, strict=True):
            column.insert(place, code)

    def remove(self, user_id: int) -> None:
        """Remove a user. One that does not exist is ignored."""
        place = self.place_of(user_id)
        if place is not None:
            del self.ids[place]
            for column in self.codes.values():
                del column[place]

    def place_of(self, user_id: int) -> int | None:
        return _place_of(user_id, self.ids)


def _place_of(user_id: int, ids: "array[int]") -> int | None:
    place = bisect_left(ids, user_id)
    return place if place < len(ids) and ids[place] == user_id else None


class _Candidates:
    """The users of a club that are compared with an audience, at some places in ascending order."""

    def __init__(self, club: _Club, places: slice | Sequence[int]) -> None:
        self._club = club
        self._places = places
        self.ids = self._at(club.ids)

    def columns(self, names: Iterable[str]) -> list["array[int]"]:
        """Return the codes of the users' values in columns."""
        return [self._at(self._club.codes[name]) for name in names]

    def _at(self, column: "array[int]") -> "array[int]":
        if isinstance(self._places, slice):
            return column[self._places]
        return array(column.typecode, map(column.__getitem__, self._places))


class Audiences:
    """Answers requests about audiences. Not thread-safe.

    Args:
        store: The store, which is only read.
        attributes: The attributes of users; None: those of schemas/source.yaml.
    """

    def __init__(self, store: Store, attributes: Collection[str] | None = None) -> None:
        self._store = store
        self._attributes = sorted(source_tables()["users"].attributes if attributes is None else attributes)
        self._columns = (
            "locale",
            "time_zone",
            _HAS,
            _REACHED,
            *_OF_SETTINGS,
            *(f"{ATTRIBUTES}{name}" for name in self._attributes),
        )
        # The generation whose values are in memory; None: there are none.
        self._generation: str | None = None
        # The number of the store's changes that the values contain.
        self._changes = 0
        self._values: dict[str, _Values] = {}
        self._clubs: defaultdict[int, _Club] = defaultdict(partial(_Club, self._columns))

    def refresh(self, generation: str) -> None:
        """Bring the values up to the present moment of the store."""
        with self._store.reading() as reader:
            changed = None if generation != self._generation else reader.changed_after(self._changes)
            if changed is None or self._has_many_unused_values():
                self._read_all(reader, generation)
            else:
                self._read_changed(reader, generation, changed)
            self._changes = reader.changes()

    def members(self, generation: str, club_id: int, audience: str, after: int, until: float) -> bytes:
        """Return the JSON of the ids of the users above `after` that belong to an audience, and the last user that was
        compared.

        Args:
            audience: The JSON of the audience.
            until: The time of the monotonic clock at which the caller no longer waits.

        Raises:
            ValueError: The audience is not valid.
            Retry: The time is over.
        """
        wanted = self._audience_in(audience)
        self.refresh(generation)
        users = self._candidates(generation, club_id, wanted, after)
        # Without a condition, any column will do.
        names = _columns_of(wanted) or [_REACHED]
        columns = users.columns(names)
        matching = set(self._matching(wanted, names, set(zip(*columns, strict=True)), until))
        found = compress(users.ids, map(matching.__contains__, zip(*columns, strict=True)))
        # guard: directory_state.exceptions
        ids = list(filterfalse(wanted.except_users.__contains__, found))
        up_to = users.ids[-1] if users.ids else after
        return fast_json.encoded({"generation": generation, "user_ids": ids, "up_to": up_to})

    def count(self, generation: str, club_id: int, audience: str, channels: Sequence[str], until: float) -> bytes:
        """Return the JSON of the number of users that belong to an audience, and by channel of those that it reaches.
        Arguments and errors are those of `members`.
        """
        wanted = self._audience_in(audience)
        self.refresh(generation)
        among = self._candidates(generation, club_id, wanted, 0)
        names = [*_columns_of(wanted), _REACHED]
        columns = among.columns(names)
        numbers = Counter(zip(*columns, strict=True))
        for user_id in wanted.except_users:
            if (place := _place_of(user_id, among.ids)) is not None:
                # guard: directory_state.counted_exceptions
                numbers[tuple(column[place] for column in columns)] -= 1
        by_reached: Counter[int] = Counter()
        for codes in self._matching(wanted, names, numbers, until):
            by_reached[codes[-1]] += numbers[codes]
        users, reached = by_reached.total(), dict.fromkeys(channels, 0)
        for code, number in by_reached.items():
            for name in reached.keys() & set(self._values[_REACHED][code]):
                reached[name] += number
        answer = {"generation": generation, "examined": len(among.ids), "users": users, "channels": reached}
        return fast_json.encoded(answer)

    def _candidates(self, generation: str, club_id: int, audience: Audience, after: int) -> _Candidates:
        """Return the users of a club above `after` that are compared with an audience."""
        club = self._clubs.get(club_id) or _Club(self._columns)
        if audience.follows is None:
            return _Candidates(club, slice(bisect_right(club.ids, after), None))
        has_club = "club_id" in captured_tables()[MEMBERSHIPS].source.columns
        with self._store.reading() as reader:
            followers = reader.followers(generation, audience.follows, club_id if has_club else None, after=after)
            # A follower may be of another club, or deleted.
            places = [place for user_id in followers if (place := club.place_of(user_id)) is not None]
        return _Candidates(club, places)

    def _audience_in(self, text: str) -> Audience:
        """Return the audience in a JSON text. Raises ValueError if it is not valid."""
        document = read_json(text, bounded=False)
        # This process does not know the categories that operators have put; the caller has checked them.
        audience, errors = read_audience(document, attributes=self._attributes, checks_categories=False)
        if errors:  # guard: directory_state.valid_audience
            raise ValueError(f"the audience is invalid: {errors[0].path}: {errors[0].message}")
        return audience

    def _matching(
        self, audience: Audience, names: Sequence[str], distinct: Iterable[_Codes], until: float
    ) -> Iterator[_Codes]:
        """Yield the codes that match an audience. Raises Retry.

        Args:
            names: The columns, those of attributes first.
        """
        split = sum(name.startswith(ATTRIBUTES) for name in names)
        read = [(name.removeprefix(ATTRIBUTES), self._values[name]) for name in names[:split]]
        # Attributes may differ for each user. All others have few values: one user is made for equal ones.
        attributes: dict[str, Any] = {}

        @lru_cache(_USERS_MADE)
        def user_with(codes: _Codes) -> tuple[User, UserSettings]:
            known = {name: self._values[name][code] for name, code in zip(names[split:], codes, strict=True)}
            return _user(known, attributes), _settings(known)

        for number, codes in enumerate(distinct):
            if number % _COMPARED == 0 and time.monotonic() > until:  # guard: directory_state.audience_time
                raise Retry("too many different users to compare with the audience in time")
            for (name, values), code in zip(read, codes, strict=False):
                attributes[name] = values[code]
            if audience.condition(*user_with(codes[split:])):
                yield codes

    def _has_many_unused_values(self) -> bool:
        users = sum(len(club.ids) for club in self._clubs.values())
        return any(len(values) > users + _UNUSED_VALUES for values in self._values.values())

    def _read_all(self, reader: Reader, generation: str) -> None:
        self._generation = None
        self._values = {name: _Values() for name in self._columns}
        self._clubs.clear()
        rows = reader.rows(index_of(USERS, generation), after=_FIRST)
        for some in batched(rows, _USERS_READ, strict=False):
            for user, codes in self._read(reader, generation, some):
                self._clubs[user.club_id].put(user.user_id, codes)
        self._generation = generation

    def _read_changed(self, reader: Reader, generation: str, changed: Iterable[tuple[int, int | None]]) -> None:
        # User id → the clubs that the user may have left.
        clubs: defaultdict[int, set[int]] = defaultdict(set)
        for user_id, club_id in changed:
            clubs[user_id].update(() if club_id is None else (club_id,))
        for some in batched(clubs, _USERS_READ, strict=False):
            rows = zip(some, reader.values(index_of(USERS, generation), some), strict=True)
            found = {user.user_id: (user, codes) for user, codes in self._read(reader, generation, rows)}
            for user_id in some:
                user, codes = found.get(user_id, (None, ()))
                for club_id in clubs[user_id] - {user and user.club_id}:
                    self._clubs[club_id].remove(user_id)
                if user is not None:
                    self._clubs[user.club_id].put(user_id, codes)

    def _read(
        self, reader: Reader, generation: str, rows: Iterable[tuple[int, bytes | None]]
    ) -> Iterator[tuple[User, list[int]]]:
        """Return the users in rows that are not deleted and can be read, with the codes of their values."""
        sources = [(user_id, fast_json.parsed(row)[1]) for user_id, row in rows if row is not None]
        users = documents.users((user_id, source) for user_id, source in sources if not source.get("deleted"))
        settings = _settings_of(reader, generation, list(users))
        with_device = _with_device(reader, generation, list(users))
        columns = list(self._values.values())

        def coded(user: User) -> tuple[User, list[int]]:
            own = settings.get(user.user_id, _NO_SETTINGS)
            # In the order of the columns.
            values = (
                user.locale,
                user.time_zone,
                tuple([name for name in PERSONAL if getattr(user, name)]),
                reached_on(CHANNELS, user, has_device=user.user_id in with_device),
                *(own.channels, own.categories, own.quiet_hours),
                *[user.attributes.get(name) for name in self._attributes],
            )
            return user, [column.code(value) for column, value in zip(columns, values, strict=True)]

        return read_each(users.values(), coded, store=USERS, key=lambda user: {"id": str(user.user_id)})


_NO_SETTINGS = UserSettings(user_id=0)


def _settings_of(reader: Reader, generation: str, user_ids: Sequence[int]) -> dict[int, UserSettings]:
    found: dict[tuple[str, int], Read] = {}
    for table in (*settings_tables(), preference_changes.INDEX):
        index = f"{table}-{generation}"
        for user_id, row in zip(user_ids, reader.values_of_table(table, generation, user_ids), strict=True):
            if row is None:
                continue
            version, source = fast_json.parsed(row)
            if documents.is_answered(table, source):
                found[table, user_id] = source, version, index
    return documents.merged_settings(found)


def _with_device(reader: Reader, generation: str, user_ids: Sequence[int]) -> set[int]:
    """Return the users with an enabled device. Of each, no device after the first enabled one is read."""
    found: set[int] = set()
    rows = reader.devices_of(generation, user_ids)
    states = reader.values(device_states.INDEX, [str(device_id) for _, device_id, _ in rows])

    def read(each: tuple[tuple[int, int, bytes], bytes | None]) -> tuple[int, bool]:
        (user_id, device_id, row), known = each
        state = {} if known is None else source_of(known)
        return user_id, documents.device(device_id, source_of(row), state, generation=generation).enabled

    unknown = (each for each in zip(rows, states, strict=True) if each[0][0] not in found)
    devices = read_each(unknown, read, store=DEVICES, key=lambda each: {"id": str(each[0][1])})
    for user_id, enabled in devices:
        if enabled:
            found.add(user_id)
    return found


def _columns_of(audience: Audience) -> list[str]:
    """Return the columns that an audience reads, those of attributes first."""
    return sorted({_column_of(name) for name in audience.fields}, key=lambda name: not name.startswith(ATTRIBUTES))


def _column_of(field: str) -> str:
    if field in PERSONAL:
        return _HAS
    return field.split(".")[1] if field.startswith(SETTINGS) else field


def _user(known: Mapping[str, Any], attributes: Mapping[str, Any]) -> User:
    """Return a user with the values of some columns."""
    return User(
        user_id=0,
        club_id=0,
        locale=known.get("locale", ""),
        time_zone=known.get("time_zone", ""),
        attributes=attributes,
        **dict.fromkeys(known.get(_HAS, ()), "some"),
    )


def _settings(known: Mapping[str, Any]) -> UserSettings:
    return _NO_SETTINGS._replace(**{name: known[name] for name in _OF_SETTINGS if name in known})
