"""Proposes a source.yaml for a monolith's database, from its catalogue and bounded samples of its rows.

A comment says how each value was found. Doubts are resolved against sending: a column about the wishes of users whose
meaning is not certain opts out every user until the file is corrected. No value of a row gets into the file, except
the words that name channels, platforms, yes and no.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from masscomm.cdc.change_events import columns_of
from masscomm.domain.categories import DEFAULT, categories
from masscomm.domain.channels import CHANNELS
from masscomm.domain.platforms import platform_named
from ops.provisioning import source_words as words
from ops.provisioning.source_catalogue import (
    CatalogueTable,
    DatabaseSamples,
    Samples,
    read_only_connection,
    read_tables,
)
from ops.provisioning.source_check import ACCEPTED, INTEGERS, JSON, TEXTS
from ops.provisioning.source_words import Wish, read_wish, singular, words_of

_TIMES = ("date", "time", "timestamp")
# The names of tables that a message lists.
_LISTED = 5
_HEADER = """\
# Proposed by `masscomm source init` from the catalogue of a database. docs/your-data.md explains the keys.
# Read each line and its comment, complete the lines with TODO, and run `masscomm source check`.
"""


class Place(NamedTuple):
    """A column, or a member of the JSON in a column."""

    column: str
    path: tuple[str, ...]
    # The words of the column's name, or of the members' names.
    name: str
    # The PostgreSQL name of the type; of a member, that of the corresponding type.
    type_name: str
    not_null: bool

    def value(self, **options: Any) -> Any:
        """Return the entry of a source.yaml for this place, with these options."""
        made = {"column": self.column, **({"path": ".".join(self.path)} if self.path else {}), **options}
        return self.column if len(made) == 1 else made

    def __str__(self) -> str:
        return ".".join((self.column, *self.path))


@dataclass
class Line:
    """A line of the file: a value, and why it is proposed. The value of an object has a line for each member."""

    value: Any
    why: str
    members: "dict[str, Line]" = field(default_factory=dict)


@dataclass
class Entry:
    """An entry of the file."""

    name: str
    table: str
    key: str
    why: str
    columns: dict[str, Line] = field(default_factory=dict)
    todos: list[str] = field(default_factory=list)


@dataclass
class Proposal:
    """A proposed source.yaml."""

    entries: list[Entry] = field(default_factory=list)
    # What was not found, and has to be completed; and what was decided without a name in the database that says it.
    todos: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def todo(self, entry: Entry, text: str) -> None:
        entry.todos.append(text)
        self.todos.append(f"{entry.name}: {text}")

    def text(self) -> str:
        """Return the file."""
        return "\n".join(
            [_HEADER + "create_publication: true", "", "settings_names: []", "", "tables:", *self._lines()]
        )

    def _lines(self) -> Iterator[str]:
        for entry in self.entries:
            yield f"  # {entry.why}"
            yield f"  {entry.name}:"
            yield f"    table: {entry.table}"
            yield f"    key: {_flow(entry.key)}"
            yield "    columns:"
            for todo in entry.todos:
                yield f"      # TODO {todo}"
            for name, line in entry.columns.items():
                if not line.members:
                    yield f"      {name}: {_flow(line.value)}  # {line.why}"
                    continue
                yield f"      {name}:  # {line.why}"
                yield "        object:"
                for member, each in line.members.items():
                    yield f"          {_flow(member)}: {_flow(each.value)}  # {each.why}"
        yield ""


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def propose_source(database_url: str) -> Proposal:
    """Return a source.yaml for a database, which is only read.

    Raises:
        psycopg.Error: The database cannot be reached, or refuses a query.
    """
    with read_only_connection(database_url) as connection:
        tables, unnamed = read_tables(connection)
        samples = DatabaseSamples(connection)
        proposal = propose(tables, samples)
    if unnamed:
        listed = ", ".join(json.dumps(name) for name in sorted(unnamed)[:_LISTED])
        proposal.notes.append(
            f"{len(unnamed)} tables have names with other characters than letters, digits and underscores, and cannot"
            f" be mapped: {listed}"
        )
    proposal.notes += samples.refused
    return proposal


def propose(tables: Sequence[CatalogueTable], samples: Samples) -> Proposal:
    """Return a source.yaml for the tables of a catalogue."""
    return _Proposer(tables, samples).proposal()


class _Proposer:
    def __init__(self, tables: Sequence[CatalogueTable], samples: Samples) -> None:
        self._tables = tables
        self._samples = samples
        self._made = Proposal()
        self._references = Counter(
            target for table in tables for target in table.references.values() if target[0] != table.qualified
        )
        self._users = self._users_table()
        self._key = _key(self._users, self._references) if self._users is not None else None
        # Wishes of users that the file cannot express: `user_settings.undecided` opts out every user because of them.
        self._undecided: list[str] = []

    def proposal(self) -> Proposal:
        users = self._of_users()
        devices, device_table = self._of_devices()
        templates, template_table = self._of_templates()
        settings = self._of_settings({devices.table, templates.table})
        self._made.entries = [users, *settings, devices, templates]
        for table in (self._users, device_table, template_table):
            if table is not None and not table.readable:
                self._made.notes.append(f"{table.qualified}: no rows were sampled, because the user may not read them")
        return self._made

    # --- users ---

    def _users_table(self) -> CatalogueTable | None:
        ranked = []
        for table in self._tables:
            names = [singular(word) for word in words_of(table.name).split()]
            if names[-1:] == ["entity"]:
                names = names[:-1]
            if not names or names[-1] not in words.USER_TABLES:
                continue
            known = {words_of(column) for column in table.columns}
            evidence = sum(bool(known & set(names)) for names in words.COLUMNS["users"].values())
            references = sum(self._references[table.qualified, column] for column in table.columns)
            if evidence:
                ranked.append((-references, words.USER_TABLES.index(names[-1]), len(names), -evidence, table.qualified))
        ranked.sort()
        if len(ranked) > 1:
            others = ", ".join(each[-1] for each in ranked[1 : _LISTED + 1])
            self._made.notes.append(f"users: {ranked[0][-1]} has the most references; other tables like it: {others}")
        by_name = {table.qualified: table for table in self._tables}
        return by_name[ranked[0][-1]] if ranked else None

    def _of_users(self) -> Entry:
        table = self._users
        if table is None:
            return self._missing("users", "public", "no table of users was found by its name and columns")
        references = sum(self._references[table.qualified, column] for column in table.columns)
        entry = Entry(
            "users", table.qualified, self._key or "masscomm_no", f"{_named(table)}; {references} foreign keys"
        )
        if self._key is None:
            self._made.todo(
                entry,
                "the table has no unique column of whole numbers: `masscomm source check` prints the statement"
                " that adds masscomm_no, by which sends name users",
            )
        places = self._places(table)
        self._fill(entry, table, places, ("club_id",))
        if "club_id" not in entry.columns:
            if (other := self._named_place(table, places, words.COLUMNS["users"]["club_id"])) is not None:
                entry.columns["club_id"] = Line({"constant": None}, "TODO: no user has a tenant, so none gets anything")
                self._made.todo(
                    entry,
                    f"club_id: {other} ({other.type_name}) looks like the tenant, which must be a whole number:"
                    " map its values, or add a column; until then no user belongs to a tenant",
                )
            else:
                entry.columns["club_id"] = Line({"constant": 1}, "no column names a tenant: all users are of tenant 1")
                self._made.notes.append("users.club_id: no column names a tenant, so all users are of tenant 1")
        self._fill(entry, table, places, [name for name in words.COLUMNS["users"] if name != "club_id"])
        for name in ("first_name", "last_name", "email", "phone", "locale", "time_zone"):
            if name not in entry.columns:
                self._made.todo(entry, f"{name}: no column was found{self._elsewhere(name)}")
        for column in table.columns:
            if words_of(column) in words.ENDED:
                self._made.notes.append(f"users: rows of {table.qualified} with {column} are users like all others")
        return entry

    def _elsewhere(self, name: str) -> str:
        """Return where another table of users has the column, as the end of a sentence."""
        for table in self._tables:
            if table is not self._users and self._user_column(table) is not None:
                place = self._named_place(table, self._columns(table), words.COLUMNS["users"][name])
                if place is not None and place.type_name in TEXTS:
                    return f"; {table.qualified}.{place} has it: copy it into the table of users by a trigger"
        return ""

    def _user_column(self, table: CatalogueTable) -> str | None:
        """Return the column of whole numbers with the user of a row."""
        if self._users is None or self._key is None:
            return None
        numbers = [name for name, column in table.columns.items() if column.type_name in INTEGERS]
        target = (self._users.qualified, self._key)
        named = words.USER_REFERENCES | {f"{singular(words_of(self._users.name))} id"}
        named |= {words_of(self._key)} - {"id"}
        for column in numbers:
            if table.references.get(column) == target:
                return column
        return next((each for each in numbers if words_of(each) in named and each not in table.references), None)

    def _refers_to_users(self, table: CatalogueTable) -> bool:
        if self._users is None:
            return False
        named = (words_of(column) in words.USER_REFERENCES for column in table.columns)
        return any(target == self._users.qualified for target, _ in table.references.values()) or any(named)

    # --- settings ---

    def _of_settings(self, used: set[str]) -> list[Entry]:
        """Return the entries of user settings. The first one with `channels` decides; each later one only opts out."""
        found: list[Entry] = []
        vetoes: list[Entry] = []
        owner: dict[str, str] = {}
        for table in sorted(self._tables, key=lambda each: (each is self._users, each.qualified)):
            if table.qualified in used:
                continue
            column = self._key if table is self._users else self._user_column(table)
            if table is not self._users and not self._may_be_settings(table, column):
                continue
            places = self._wish_places(table)
            if column is None:
                self._undecided += [f"{table.qualified}.{place}: the users have no number" for place, _ in places]
                continue
            entry = Entry("user_settings", table.qualified, column, f"{_named(table)}, one row for each user")
            _labelled(entry, table.name)
            entry.columns["user_id"] = Line(column, "the key")
            self._fill_wishes(entry, table, places, owner, vetoes)
            self._fill(entry, table, self._columns(table), ("club_id", "preference_version"))
            if entry.columns.keys() & words.JSON_SETTINGS.keys():
                if table is not self._users and not table.columns[column].unique:
                    self._made.todo(entry, f"{column} is not unique: the table must have one row for each user")
                self._fill(entry, table, self._columns(table), ("updated_at",))
                found.append(entry)
            elif set(words_of(table.name).split()) & words.WISHES_TABLE and not places:
                self._undecided.append(f"{table.qualified}: no column about wishes is known by its name")
        found += vetoes
        if self._undecided:  # guard: source_init.undecided
            found.append(self._undecided_entry())
        if not found:
            schema = self._users.schema if self._users is not None else "public"
            return [self._missing("user_settings", schema, "no settings of users were found")]
        if not any("preference_version" in entry.columns for entry in found):
            self._made.notes.append(
                "user_settings.preference_version: no column was found; users who change their preferences through"
                " masscomm need it (docs/your-data.md)"
            )
        _name_entries(found)
        return found

    def _may_be_settings(self, table: CatalogueTable, column: str | None) -> bool:
        """Return whether a table can have settings in one row for each user. Wishes in other rows are undecided.

        Only catalogues are read: the rows of these tables are sampled later.
        """
        about = set(words_of(table.name).split()) & words.WISHES_TABLE
        unique = column is not None and table.columns[column].unique
        by_row = {"channel", "category", "topic", "key", "name", "type", "kind", "notification type"}
        if unique or (about and column is not None and not by_row & {words_of(each) for each in table.columns}):
            return True
        by_address = any(words_of(each) in ("email", "email address", "phone") for each in table.columns)
        if about and (self._refers_to_users(table) or (by_address and not about & {"setting", "settings"})):
            self._undecided.append(f"{table.qualified} has wishes of users, and not one row for each user's number")
        return False

    def _wish_places(self, table: CatalogueTable) -> list[tuple[Place, Wish | None]]:
        """Return the places with a wish of users, and the columns of JSON with settings (None)."""
        found: list[tuple[Place, Wish | None]] = []
        for place in self._columns(table):
            if place.type_name in JSON:
                if any(place.name in names for names in words.JSON_SETTINGS.values()):
                    found.append((place, None))
                    continue
                members = list(self._members(table, place))
                wishes = [(each, self._wish(table, each, f"{place.name} {each.name}")) for each in members]
                found += [(each, wish) for each, wish in wishes if wish is not None]
                about = set(place.name.split()) & words.WISHES_TABLE or read_wish(place.name, is_flag=False)
                if not members and about:
                    found.append((place, Wish(tuple(CHANNELS), None)))
            elif (wish := self._wish(table, place, place.name)) is not None:
                found.append((place, wish))
        return found

    def _wish(self, table: CatalogueTable, place: Place, name: str) -> Wish | None:
        wish = read_wish(name, is_flag=place.type_name == "bool" or self._flags(table, place) is not None)
        if wish is None and place.type_name == "bool" and _category(place) is not None:
            return Wish((), wanted=True)
        return wish

    def _flags(self, table: CatalogueTable, place: Place) -> dict[Any, bool] | None:
        """Return the value of a column → whether it is yes; None if its values are not those of yes and no."""
        if place.type_name == "bool":
            return {True: True, False: False}
        if place.path or read_wish(place.name, is_flag=True) is None:
            return None
        if place.type_name in INTEGERS:
            return {1: True, 0: False}
        known = self._words(table, place) if place.type_name in TEXTS else []
        if not known or not {word.lower() for word in known} <= words.YES | words.NO:
            return None
        return {word: word.lower() in words.YES for word in known}

    def _words(self, table: CatalogueTable, place: Place) -> Sequence[str]:
        if place.column in table.allowed:
            return table.allowed[place.column]
        return self._samples.words(table, place.column) if table.readable else ()

    def _fill_wishes(
        self,
        entry: Entry,
        table: CatalogueTable,
        places: Sequence[tuple[Place, Wish | None]],
        owner: dict[str, str],
        vetoes: list[Entry],
    ) -> None:
        """Add the wishes in a table to its entry, and to entries that only opt out.

        Args:
            entry: The entry of the table.
            table: The table.
            places: Its places with wishes.
            owner: The column of the directory → the table that has it. A second table would replace the first one's.
            vetoes: The entries that only opt out.
        """
        channels: dict[str, Line] = {}
        rules: dict[str, Line] = {}
        # Rules for one channel come first: a wish about all channels can be an opt-out in addition to them.
        for place, wish in sorted(places, key=lambda each: len(each[1].channels) if each[1] is not None else 0):
            if wish is None:
                name = next(name for name, names in words.JSON_SETTINGS.items() if place.name in names)
                if owner.setdefault(name, table.qualified) == table.qualified and name not in entry.columns:
                    entry.columns[name] = Line(
                        place.value(), f"JSON named like {name}; unknown names in it are opt-outs"
                    )
                else:
                    self._undecided.append(f"{table.qualified}.{place}: {name} are already in {owner[name]}")
                continue
            if not wish.channels and wish.wanted is None:
                self._made.notes.append(f"{table.qualified}.{place}: masscomm has no such channel")
                continue
            category = _category(place)
            free = owner.get("channels", table.qualified) == table.qualified and "channels" not in entry.columns
            is_all = len(wish.channels) == len(CHANNELS)
            if wish.wanted is None:
                self._undecided.append(f"{table.qualified}.{place} ({place.type_name}): its meaning is not certain")
            elif is_all and self._vetoes(place, wish) and (not wish.wanted or not free or channels):
                vetoes.append(self._veto(table, entry.key, place, wanted=wish.wanted))
            elif wish.channels and free and not channels.keys() & set(wish.channels):
                owner["channels"] = table.qualified
                channels |= {channel: self._rule(table, place, wanted=wish.wanted) for channel in wish.channels}
            elif category is not None and "categories" not in owner and self._vetoes(place, wish):
                # A rule for a category would precede an opt-out of the channel, so it only opts out.
                values = {wish.wanted: None, not wish.wanted: False}
                rules[category] = Line(place.value(values=values), f"{_type(place)}, named like the category")
                self._made.notes.append(
                    f"{table.qualified}.{place} decides about sends of the category {category} only"
                )
            else:
                reason = "another column decides about the same channel, or a null would be no opt-out"
                self._undecided.append(f"{table.qualified}.{place}: {reason}")
        if channels:
            entry.columns["channels"] = Line(None, "a column for each channel", channels)
        if rules:
            owner["categories"] = table.qualified
            entry.columns["categories"] = Line(None, "a column for each category", rules)
        self._fill_quiet_hours(entry, table, owner)
        if table is self._users:
            for place in self._columns(table):
                meaning = next((active for active, names in words.ACTIVE.items() if place.name in names), None)
                if meaning is not None and place.type_name == "bool" and (place.not_null or not meaning):
                    vetoes.append(self._veto(table, entry.key, place, wanted=meaning))

    def _vetoes(self, place: Place, wish: Wish) -> bool:
        """Return whether a place can opt out only: an absent value must not mean that the user has no wish."""
        return place.type_name == "bool" and (not wish.wanted or (place.not_null and not place.path))

    def _rule(self, table: CatalogueTable, place: Place, *, wanted: bool) -> Line:
        """Return the rule that a place has: true means that the user wants the notifications."""
        flags = self._flags(table, place) or {}
        options: dict[str, Any] = {}
        why = f"{_type(place)}, true means yes by its name"
        if not wanted or place.type_name != "bool":
            options["values"] = {value: flag is wanted for value, flag in flags.items()}  # guard: source_init.inverted
            why = f"{_type(place)}, {'yes' if wanted else 'no'} by its name"
        if wanted and not place.not_null:
            options["default"] = False  # guard: source_init.null_is_no_consent
            why += "; no value counts as no"
        return Line(place.value(**options), why)

    def _veto(self, table: CatalogueTable, key: str, place: Place, *, wanted: bool) -> Entry:
        """Return an entry that opts out of every channel, and has no rule for all other users."""
        values = {wanted: None, not wanted: False}
        state = str(not wanted).lower()
        entry = Entry("user_settings", table.qualified, key, f"opts out of every channel where {place} is {state}")
        _labelled(entry, str(place))
        entry.columns["user_id"] = Line(key, "the key")
        why = f"{_type(place)}, {state} is an opt-out by its name"
        members = {channel: Line(place.value(values=values), why) for channel in CHANNELS}
        entry.columns["channels"] = Line(None, "null is no rule, so that the entries before decide", members)
        return entry

    def _undecided_entry(self) -> Entry:
        # Every user has a row here, and a later entry replaces the rules of the earlier ones.
        table = self._users.qualified if self._users is not None else "public.masscomm_users"
        entry = Entry("user_settings", table, self._key or "masscomm_no", "nobody gets anything that is not mandatory")
        entry.columns["user_id"] = Line(entry.key, "the key")
        members = {channel: Line({"constant": False}, "until the TODOs are resolved") for channel in CHANNELS}
        entry.columns["channels"] = Line(None, "remove this entry when the TODOs are resolved", members)
        _labelled(entry, "undecided")
        for reason in self._undecided:
            self._made.todo(entry, f"{reason}. Map it, or decide that it is no wish about notifications")
        return entry

    def _fill_quiet_hours(self, entry: Entry, table: CatalogueTable, owner: dict[str, str]) -> None:
        in_table = bool(words.QUIET & set(words_of(table.name).split()))
        times: dict[str, Line] = {}
        for place in self._columns(table):
            of = set(place.name.split())
            end = next((end for end, names in words.QUIET_TIMES.items() if of & names), None)
            if end is None or end in times or not (in_table or words.QUIET & of):
                continue
            if place.type_name == "time":
                times[end] = Line(place.value(format="time"), f"{_type(place)}, the {end} by its name")
            elif place.type_name in TEXTS:
                times[end] = Line(place.value(), f"{_type(place)}, the {end} by its name: a time such as 22:00")
        if times.keys() < words.QUIET_TIMES.keys() or "quiet_hours" in owner:
            if times:
                self._made.todo(entry, f"quiet_hours: {table.qualified} has a second start or end, or only one of them")
            return
        owner["quiet_hours"] = table.qualified
        entry.columns["quiet_hours"] = Line(None, "in the time zone of the user", times)

    # --- devices and templates ---

    def _of_devices(self) -> tuple[Entry, CatalogueTable | None]:
        tokens = words.COLUMNS["devices"]["token"]
        found = []
        for table in self._tables:
            name = table.name.lower()
            token = self._named_place(table, self._columns(table), tokens)
            if token is None or words.OTHER_TOKENS.search(name):
                continue
            specific = token.name not in ("token", "registration id")
            if self._refers_to_users(table) and (words.DEVICE_TABLE.search(name) or specific):
                found.append(table)
        if not found:
            schema = self._users.schema if self._users is not None else "public"
            return self._missing("devices", schema, "no table of devices with tokens was found"), None
        # A table with platforms has the devices of all; without one, its name tells the platform.
        found.sort(key=lambda each: (self._platform(each) is None, each.qualified))
        table = found[0]
        key, user = _key(table, self._references), self._user_column(table)
        entry = Entry("devices", table.qualified, key or "masscomm_no", _named(table))
        for other in found[1:]:
            self._made.todo(entry, f"{other.qualified} has devices, too: copy them into one table by a trigger")
        if key is None:
            self._made.todo(entry, "the table has no unique column of whole numbers: add masscomm_no")
        if user is None:
            self._made.todo(
                entry, "user_id: no column has the number of the user: add user_no, and fill it by a trigger"
            )
        entry.columns["user_id"] = Line(user or "user_no", "refers to the user" if user else "TODO: a column to add")
        if (platform := self._platform(table)) is not None:
            entry.columns["platform"] = platform
        else:
            self._made.todo(entry, "platform: no column was found, so that no device gets push")
        self._fill(entry, table, self._columns(table), ("token", "updated_at"))
        self._fill_active(entry, table)
        return entry, table

    def _platform(self, table: CatalogueTable) -> Line | None:
        for name in words.COLUMNS["devices"]["platform"]:
            for place in self._columns(table):
                if place.name != name or place.type_name not in TEXTS:
                    continue
                listed = self._words(table, place)
                known = {word: words.PLATFORM_WORDS.get(word.lower()) or platform_named(word) for word in listed}
                values = {word: each for word, each in known.items() if each is not None and word.isprintable()}
                source = "all its values" if place.column in table.allowed else "sampled values"
                unknown = f"; {len(known) - len(values)} others are dead-lettered" if len(values) < len(known) else ""
                if not values and (known or name in ("kind", "type")):
                    continue
                # Words that masscomm knows need no list, which would dead-letter those that come later.
                if all(platform_named(word) == word for word in values) or (
                    place.column not in table.allowed and all(map(platform_named, known))
                ):
                    return Line(place.value(), f"a name for platform; {source}: {', '.join(values) or 'none'}")
                return Line(place.value(values=values), f"a name for platform; {source}{unknown}")
        by_name = next(
            (p for w in ("gcm", "fcm", "android", "apns", "ios") if w in table.name and (p := platform_named(w))), None
        )
        return Line({"constant": by_name}, "by the name of the table") if by_name else None

    def _fill_active(self, entry: Entry, table: CatalogueTable) -> None:
        for place in self._columns(table):
            meaning = next((active for active, names in words.ACTIVE.items() if place.name in names), None)
            if meaning is not None and place.type_name == "bool":
                entry.columns["active"] = self._rule(table, place, wanted=meaning)
                return
            if place.name in words.ENDED:
                entry.columns["active"] = Line({"constant": False}, "TODO: no device is active")
                self._made.todo(
                    entry,
                    f"active: {place} is a time, and its absence cannot be mapped: add a column of true and false;"
                    " until then no device gets push",
                )
                return
        self._made.notes.append(f"devices.active: {table.qualified} has no such column, so every device is active")

    def _of_templates(self) -> tuple[Entry, CatalogueTable | None]:
        required = ("type", "channel", "locale", "title", "body")
        found = []
        near: list[str] = []
        for table in self._tables:
            entry = Entry("notification_templates", table.qualified, "", _named(table))
            self._fill(entry, table, self._columns(table), required, silent=True)
            key = _key(table, self._references)
            lacking = [name for name in required if name not in entry.columns]
            if "template" in table.name.lower() and lacking:
                near.append(f"{table.qualified} lacks {', '.join(lacking)}")
            if key is not None and not lacking and not self._refers_to_users(table):
                entry.key = key
                found.append((("template" not in table.name.lower()), table.qualified, entry, table))
        if not found:
            schema = self._users.schema if self._users is not None else "public"
            reason = "; ".join(["no table of templates was found", *near[:_LISTED]])
            return self._missing("notification_templates", schema, reason), None
        found.sort(key=lambda each: each[:2])
        *_, entry, table = found[0]
        for _, other, _, _ in found[1:]:
            self._made.notes.append(f"notification_templates: {other} looks like a table of templates, too")
        places = self._columns(table)
        texts, entry.columns = entry.columns, {}
        self._fill(entry, table, places, ("club_id",))
        tenant = self._named_place(table, places, words.COLUMNS["users"]["club_id"])
        if tenant is not None and not entry.columns:
            self._made.todo(
                entry, f"club_id: {tenant} ({tenant.type_name}) is no whole number; such rows are for no tenant"
            )
            entry.columns["club_id"] = Line({"constant": -1}, "TODO: the templates are for no tenant")
        entry.columns.setdefault("club_id", Line({"constant": None}, "no column names a tenant: for every tenant"))
        entry.columns |= texts
        self._fill_channel(entry, table)
        self._fill(entry, table, places, ("html", "url", "version", "updated_at"))
        entry.columns.setdefault("version", Line({"constant": 1}, "no column has a version"))
        return entry, table

    def _fill_channel(self, entry: Entry, table: CatalogueTable) -> None:
        line = entry.columns["channel"]
        place = next(each for each in self._columns(table) if each.value() == line.value)
        listed = self._words(table, place)
        values = {word: words.CHANNEL_WORDS[word.lower()] for word in listed if word.lower() in words.CHANNEL_WORDS}
        if not values:
            self._made.todo(entry, f"channel: no value of {place} names push or email: map its values")
        elif any(word != channel for word, channel in values.items()):
            unknown = len(listed) - len(values)
            rest = f"; {unknown} others are dead-lettered" if unknown else ""
            entry.columns["channel"] = Line(place.value(values=values), f"{line.why}; by its values{rest}")

    # --- columns ---

    def _fill(
        self,
        entry: Entry,
        table: CatalogueTable,
        places: Sequence[Place],
        names: Sequence[str],
        *,
        silent: bool = False,
    ) -> None:
        """Add the columns of the directory that a table has by their names and types."""
        kinds = columns_of(entry.name)
        synonyms = words.COLUMNS[entry.name.partition(".")[0]]
        taken: set[Place] = set()
        for name in names:
            fitting = [place for place in places if place not in taken and _value(place, kinds[name]) is not None]
            place = self._named_place(table, fitting, synonyms[name])
            if place is not None:
                taken.add(place)
                entry.columns[name] = Line(_value(place, kinds[name]), f"a name for {name}, {_type(place)}")
            elif not silent and (other := self._named_place(table, places, synonyms[name])) is not None:
                self._made.notes.append(
                    f"{entry.name}.{name}: {table.qualified}.{other} ({other.type_name}) does not fit"
                )

    def _named_place(self, table: CatalogueTable, places: Sequence[Place], synonyms: Sequence[str]) -> Place | None:
        prefixes = {singular(word) for word in words_of(table.name).split()}
        for synonym in synonyms:
            for place in places:
                first, _, rest = place.name.partition(" ")
                last = words_of(place.path[-1]) if place.path else ""
                if synonym in (place.name, last) or (first in prefixes and rest == synonym):
                    return place
        return None

    def _columns(self, table: CatalogueTable) -> list[Place]:
        return [
            Place(name, (), words_of(name), column.type_name, column.not_null) for name, column in table.columns.items()
        ]

    def _places(self, table: CatalogueTable) -> list[Place]:
        """Return the columns of a table, and the members of its JSON."""
        found = self._columns(table)
        return [*found, *(each for place in found for each in self._members(table, place))]

    def _members(self, table: CatalogueTable, place: Place) -> Iterator[Place]:
        if place.type_name not in JSON or not table.readable:
            return
        types = {"string": "text", "boolean": "bool", "number": "number"}
        seen: dict[tuple[str, ...], str] = {}
        for path, kind in self._samples.members(table, place.column):
            # A member has several types in different rows: only a uniform one is proposed. Null is no type.
            if kind != "null":
                seen[path] = kind if seen.get(path, kind) == kind else "mixed"
        for path, kind in seen.items():
            if kind in types and all("." not in name and name.isprintable() for name in path):
                yield Place(place.column, path, words_of(" ".join(path)), types[kind], not_null=False)

    def _missing(self, name: str, schema: str, reason: str) -> Entry:
        """Return the entry of a table that has to be created."""
        key = "user_id" if name == "user_settings" else "id"
        entry = Entry(name, f"{schema}.masscomm_{name}", key, f"{reason}. TODO: create the table, or name yours")
        entry.columns = {
            column: Line(column, "a column of the table to be created") for column in columns_of(name) if column != "id"
        }
        self._made.todo(entry, f"{reason}: name yours, or create the one that `masscomm source check` prints")
        return entry


def _value(place: Place, kind: str) -> Any:
    """Return the entry of a source.yaml for a column of the directory; None if the types differ."""
    if place.path:
        return place.value() if place.type_name in TEXTS and kind in ("keyword", "text") else None
    if place.type_name in ACCEPTED[kind]:
        return place.value()
    return place.value(format=place.type_name) if place.type_name in _TIMES and kind == "date" else None


def _key(table: CatalogueTable, references: Mapping[tuple[str, str], int]) -> str | None:
    """Return the column of unique whole numbers, the most referenced one first."""
    found = [
        name
        for name, column in table.columns.items()
        if column.type_name in INTEGERS and column.unique and column.not_null
    ]
    return min(found, key=lambda name: (-references.get((table.qualified, name), 0), name != "id"), default=None)


def _labelled(entry: Entry, label: str) -> Entry:
    """Give an entry of user settings a name from the name of a table or column."""
    letters = "".join(each for each in words_of(label).replace(" ", "_") if each.isalpha() or each == "_")
    entry.name = f"user_settings.{letters or 'more'}"
    return entry


def _name_entries(entries: Sequence[Entry]) -> None:
    """Name the first entry of user settings as the table of the directory, and make the other names unique."""
    taken: set[str] = set()
    for number, entry in enumerate(entries):
        if number == 0:
            entry.name = "user_settings"
        while entry.name in taken:
            entry.name += "_more"
        taken.add(entry.name)


def _named(table: CatalogueTable) -> str:
    return f"{table.qualified} by its name and columns"


def _category(place: Place) -> str | None:
    """Return the listed category that a place has the name of."""
    name = place.name.replace(" ", "_")
    return name if name in categories() and name != DEFAULT else None


def _type(place: Place) -> str:
    return f"{place.type_name} in sampled JSON" if place.path else place.type_name
