"""The tests that every directory (users, settings, devices, templates) must pass, in memory and real."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from functions.device_registrar.endpoints import endpoint_arn
from masscomm.directory.layers import related_to
from masscomm.directory.person import DirectoryRow
from masscomm.directory.phones import users_of_phone
from masscomm.directory.port import Directory, Layers, MembersPage, TemplateQuery
from masscomm.domain.audiences import Audience, read_audience
from masscomm.domain.memberships import Membership
from masscomm.domain.preference_changes import PreferenceChanges, QuietHoursWish, Wish
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.suppressions import Suppression
from masscomm.domain.tenant_preferences import EVERY_CLUB, TenantPreferences
from masscomm.domain.users import Device, Template, User, UserSettings
from masscomm.errors import Retry
from tests.support.sms import sms_settings

NOW = 1_700_000_000_000


def suppression(address: str) -> Suppression:
    """Return a suppression for club 7 that lasts one second."""
    return Suppression(club_id=7, address=address, reason=Reason.COMPLAINED, at_ms=NOW - 1_000, expires_ms=NOW + 1_000)


type Row = User | UserSettings | Device | Template


class Tables(ABC):
    """The rows of the monolith's tables in a directory, with methods that make the directory incomplete or stale."""

    directory: Directory

    @abstractmethod
    def put(self, *rows: Row) -> None: ...

    @abstractmethod
    def remove(self, *rows: Row) -> None: ...

    @abstractmethod
    def suppress(self, *several: Suppression) -> None:
        """Put addresses on the suppression list."""

    @abstractmethod
    def change(self, changes: PreferenceChanges) -> None:
        """Store a user's changes through masscomm."""

    @abstractmethod
    def put_rules(self, *several: Mapping[str, Any]) -> None:
        """Store documents with the rules of clubs, each for the first time."""

    @abstractmethod
    def put_optional(self, table: str, *documents: tuple[str, Mapping[str, Any]]) -> None:
        """Insert rows of an optional table: (id, columns)."""

    @abstractmethod
    def not_ready(self) -> None:
        """Mark the snapshot as incomplete, although rows are present."""

    @abstractmethod
    def caught_up_to(self, ts_ms: int) -> None:
        """Mark all changes that were committed up to a time as captured."""


USER = User(
    user_id=1,
    club_id=7,
    first_name="Ada",
    email="ada@club.example",
    locale="de",
    time_zone="Europe/Berlin",
    attributes={"plan": "gold", "points": 7},
)
SETTINGS = UserSettings(user_id=1, channels={"push": False}, categories={"news": {"push": True}})
RULES = TenantPreferences(club_id=7, channels={"email": False}, categories={"news": {"push": True}}, version=NOW)
DEVICE = Device(device_id=11, user_id=1, platform="gcm", endpoint_arn=endpoint_arn("gcm", "t11"))
TEMPLATE = Template(
    template_id=5,
    club_id=7,
    type="news",
    channel="push",
    locale="en",
    title="t",
    body="b",
    html="<b>b</b>",
    version=3,
    url="app://b",
)


def audience(value: Mapping[str, Any]) -> Audience:
    found, errors = read_audience(value)
    assert not errors
    return found


FOLLOWERS = Audience(follows="team:42", document={"follows": "team:42"})
EVERYBODY = audience({"all_users": True})
GERMAN = {"field": "locale", "is": "de"}


def follow(
    user_id: int, *, kind: str = "team", name: str = "42", club_id: int | None = 7, muted: bool | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the id and the columns of a row: the user follows an object."""
    row = {"user_id": user_id, "kind": kind, "object": name, "club_id": club_id, "muted": muted}
    return f"{user_id}:{kind}:{name}", row


def unfollow(tables: "Tables", user_id: int) -> None:
    (id_, _) = follow(user_id)
    tables.put_optional("memberships", (id_, {"deleted": True, "deleted_at_ms": 1}))


def member_ids(pages: Iterable[MembersPage]) -> list[int]:
    return [user_id for page in pages for user_id in page.user_ids]


def members_of(tables: "Tables", value: Mapping[str, Any]) -> list[int]:
    return member_ids(tables.directory.members_of_club(7, audience(value)))


def counted(tables: "Tables", value: Mapping[str, Any], channels: list[str]) -> tuple[int, int, dict[str, int]]:
    """Return the sums of the counts: examined users, members, and members by channel."""
    counts = list(tables.directory.count_members(7, audience(value), channels))
    by_channel = {name: sum(count.channels[name] for count in counts) for name in channels}
    return sum(count.examined for count in counts), sum(count.users for count in counts), by_channel


def deciding(directory: Directory, channel: str) -> tuple[str | None, bool]:
    """Return (table of the row, wanted) of the decision about match_reminder on a channel for user 1."""
    person = directory.person(1, NOW)
    assert person is not None
    decision = decide_by_user_settings(person.settings, club_id=7, type="match_reminder", channel=channel)
    row = person.deciding_row(decision, type="match_reminder", channel=channel)
    return None if row is None else row.table, decision.status is None


class DirectoryContract:
    """Subclasses define the fixtures `tables` and `mapped_tables`; these have all optional tables."""

    def test_known_rows_are_found_and_others_absent(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS)
        assert tables.directory.users([1, 2, 1]) == {1: USER}
        found = tables.directory.user_settings([2, 1])
        assert found.keys() == {1}
        assert (found[1].channels, found[1].categories) == (SETTINGS.channels, SETTINGS.categories)
        users, user_settings = tables.directory.users_and_settings([1, 2])
        assert (users, user_settings) == ({1: USER}, found)
        assert tables.directory.users([]) == {}

    @pytest.mark.kills(guard="audiences.own_tenant")
    def test_members_of_a_club_are_paged_by_id(self, tables: Tables) -> None:
        """Without the users of other clubs, deleted users and those up to the given id."""
        users = [USER._replace(user_id=user_id) for user_id in (12, 3, 1, 25, 7, 8, 40)]
        tables.put(*users, USER._replace(user_id=4, club_id=8))
        tables.remove(USER._replace(user_id=7))
        pages = list(tables.directory.members_of_club(7, EVERYBODY))
        assert member_ids(pages) == [1, 3, 8, 12, 25, 40]
        assert [page.up_to for page in pages] == [8, 40]
        assert member_ids(tables.directory.members_of_club(7, EVERYBODY, after=8)) == [12, 25, 40]
        assert list(tables.directory.members_of_club(9, EVERYBODY)) == []

    def test_pages_show_one_moment(self, tables: Tables) -> None:
        tables.put(*(USER._replace(user_id=user_id) for user_id in range(1, 5)))
        pages = tables.directory.members_of_club(7, EVERYBODY)
        first = next(pages)
        tables.put(USER._replace(user_id=9))
        tables.remove(USER._replace(user_id=4))
        assert member_ids((first, *pages)) == [1, 2, 3, 4]

    @pytest.mark.kills(guard="audiences.exceptions")
    def test_members_match_the_audience(self, tables: Tables) -> None:
        german = [USER._replace(user_id=user_id) for user_id in (1, 2, 5)]
        tables.put(*german, *(USER._replace(user_id=user_id, locale="en") for user_id in (3, 6)))
        tables.put(SETTINGS, SETTINGS._replace(user_id=2, categories={}))
        assert members_of(tables, {"where": GERMAN, "except_users": [2, 900]}) == [1, 5]
        assert members_of(tables, {"where": {"field": "settings.categories.news", "exists": True}}) == [1]
        (*_, last) = tables.directory.members_of_club(7, audience({"where": {"field": "locale", "is": "fr"}}))
        assert (list(last.user_ids), last.up_to) == ([], 6)
        tables.put(USER._replace(user_id=1, locale="en"))
        tables.remove(USER._replace(user_id=5))
        assert members_of(tables, {"where": GERMAN}) == [2]

    def test_members_are_counted_by_channel(self, tables: Tables) -> None:
        tables.put(*(USER._replace(user_id=user_id) for user_id in (1, 2, 3)))
        tables.put(USER._replace(user_id=4, email=None), USER._replace(user_id=5, locale="en"))
        disabled = DEVICE._replace(device_id=12, user_id=2, enabled=False)
        tables.put(DEVICE, disabled, DEVICE._replace(device_id=13, user_id=4), DEVICE._replace(device_id=14, user_id=5))
        assert counted(tables, {"where": GERMAN}, ["push", "email"]) == (5, 4, {"push": 2, "email": 3})
        assert counted(tables, {"where": GERMAN}, []) == (5, 4, {})
        tables.put(DEVICE._replace(enabled=False), disabled._replace(device_id=13, user_id=3, enabled=True))
        assert counted(tables, {"where": GERMAN}, ["push"]) == (5, 4, {"push": 1})

    def test_members_in_no_complete_snapshot_are_a_retry(self, tables: Tables) -> None:
        tables.put(USER)
        tables.not_ready()
        with pytest.raises(Retry):
            next(tables.directory.members_of_club(7, EVERYBODY))
        with pytest.raises(Retry):
            next(tables.directory.count_members(7, EVERYBODY, []))

    @pytest.mark.kills(guard="tenancy.listed_users")
    def test_users_of_a_club_are_listed_by_page(self, tables: Tables) -> None:
        """Without the users of other clubs, deleted users and those up to the given id."""
        tables.put(*(USER._replace(user_id=user_id) for user_id in (12, 3, 7, 1)), USER._replace(user_id=4, club_id=8))
        tables.remove(USER._replace(user_id=7))
        listed = tables.directory.list_users
        assert listed(7, limit=2) == [USER, USER._replace(user_id=3)]
        assert [user.user_id for user in listed(7, after=3, limit=2)] == [12]
        assert [user.user_id for user in listed(7, after=2, limit=10)] == [3, 12]
        assert listed(9, limit=2) == []

    def test_users_are_found_by_phone_in_any_form(self, tables: Tables) -> None:
        forms = ["0151 23456789", "+49 (0)151/23456789", "0049-151-2345-6789", "0151 13456789", None, "call me"]
        users = [User(user_id=n, club_id=7, phone=phone) for n, phone in enumerate(forms, 1)]
        tables.put(*users, User(user_id=7, club_id=8, phone="0151 23456789"))
        with sms_settings():  # Club 8 has no region for numbers without a country code.
            found = users_of_phone(tables.directory, "+4915123456789")
            assert [each.user_id for each in found] == [1, 2, 3]
            tables.put(users[1]._replace(phone="0151 13456789"))
            tables.remove(users[2])
            assert users_of_phone(tables.directory, "+4915123456789") == [users[0]]
            assert users_of_phone(tables.directory, "+6834002") == []

    def test_person_has_the_row_of_each_part(self, tables: Tables) -> None:
        address = "person@club.example"
        new = Device(device_id=12, user_id=1, platform="apns", changed_at_ms=NOW)
        tables.put(USER._replace(email=address), SETTINGS, DEVICE, new)
        tables.suppress(suppression(address))
        person = tables.directory.person(1, NOW)
        assert person is not None
        assert (person.user, person.row.table) == (USER._replace(email=address), "users")
        assert person.settings == person.own_settings
        assert [(device, row.table) for device, row in person.devices] == [(DEVICE, "device_state"), (new, "devices")]
        assert person.devices[1].row.changed_at_ms == NOW
        assert person.suppression is not None
        assert (person.suppression.row.table, person.suppression.expires_ms) == ("suppressions", NOW + 1_000)
        later = tables.directory.person(1, NOW + 1_000)
        assert later is not None
        assert later.suppression is None

    def test_newest_row_decides_about_a_channel(self, tables: Tables) -> None:
        """A change through masscomm decides until the monolith's row has it."""
        tables.put(USER, SETTINGS)
        assert deciding(tables.directory, "push") == ("user_settings", False)
        assert deciding(tables.directory, "email") == (None, True)
        (settings,) = tables.directory.user_settings([1]).values()
        wishes: list[Wish | QuietHoursWish] = [Wish(None, "email", False), QuietHoursWish("22:00", "07:00")]
        changes = PreferenceChanges(user_id=1, club_id=7).after(wishes, settings, NOW, source="api")
        tables.change(changes)
        tables.directory.await_changes(1, changes.version)
        assert deciding(tables.directory, "push") == ("user_settings", False)
        assert deciding(tables.directory, "email") == ("preference_changes", False)
        person = tables.directory.person(1, NOW)
        assert person is not None
        assert person.changes_row == person.quiet_hours_row == DirectoryRow("preference_changes", NOW, NOW)
        assert person.is_pending

    def test_changed_row_of_a_person_has_another_version(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS, DEVICE)
        before = tables.directory.person(1, NOW)
        tables.put(USER, SETTINGS, DEVICE)
        after = tables.directory.person(1, NOW)
        assert before is not None
        assert after is not None
        assert before.row.version < after.row.version
        assert before.settings_rows["channels"].version < after.settings_rows["channels"].version
        assert before.devices[0].row.version < after.devices[0].row.version

    def test_absent_user_is_no_person(self, tables: Tables) -> None:
        assert tables.directory.person(1, NOW) is None
        tables.put(USER, SETTINGS, DEVICE)
        tables.remove(USER)
        assert tables.directory.person(1, NOW) is None

    def test_deleted_rows_are_absent(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS, DEVICE, TEMPLATE)
        tables.remove(USER, SETTINGS, DEVICE, TEMPLATE)
        users, settings = tables.directory.users_and_settings([1])
        assert users == {}
        assert all(each.is_absent and each.channels == {} for each in settings.values())
        assert tables.directory.devices([1]) == {1: []}
        assert tables.directory.templates([(7, "news", "push")]) == {(7, "news", "push"): []}

    def test_changes_through_masscomm_are_awaited_and_seen(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS)
        wish = Wish(category="news", channel="push", wanted=False)
        (settings,) = tables.directory.user_settings([1]).values()
        changes = PreferenceChanges(user_id=1, club_id=7).after([wish], settings, NOW, source="api")
        tables.change(changes)
        tables.directory.await_changes(1, changes.version)
        assert tables.directory.user_settings([1])[1].categories == {"news": {"push": False}}

    def test_rules_of_clubs_are_read_with_users(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS)
        tables.put_rules(*(replace(RULES, club_id=each).document for each in (7, 8, EVERY_CLUB)))
        found = tables.directory.users_and_layers([1, 2], [7])
        assert (found.users, found.settings) == tables.directory.users_and_settings([1, 2])
        assert found.tenants == {7: RULES.settings, EVERY_CLUB: RULES.settings}
        assert tables.directory.layers([1], [7]).tenants == found.tenants
        assert tables.directory.layers([1], [9]).tenants.keys() == {EVERY_CLUB}

    def test_rules_of_clubs_are_read_with_many_users(self, tables: Tables) -> None:
        tables.put_rules(RULES.document)
        found = tables.directory.users_and_layers(range(1, 1_001), [7, 8])
        assert found == Layers({}, {}, {7: RULES.settings}, {}, {})

    @pytest.mark.kills(guard="preferences.owner_of_tenant_rules")
    def test_mapped_rules_of_clubs_are_those_of_the_monolith(self, mapped_tables: Tables) -> None:
        """The rules for every club stay masscomm's own."""
        tables = mapped_tables
        tables.put_rules(RULES.document, replace(RULES, club_id=EVERY_CLUB).document)
        tables.put_optional("tenant_settings", ("7", {"club_id": 7, "channels": {"push": False}, "categories": None}))
        tables.put_optional("tenant_settings", ("8", {"deleted": True, "deleted_at_ms": 1}))
        found = tables.directory.users_and_layers([1], [7, 8]).tenants
        assert found.keys() == {7, EVERY_CLUB}
        assert (found[7].channels, found[7].categories) == ({"push": False}, {})
        assert found[EVERY_CLUB] == RULES.settings

    def test_settings_of_users_for_clubs_are_read_with_users(self, mapped_tables: Tables) -> None:
        tables = mapped_tables
        tables.put(USER, SETTINGS)
        row = {"user_id": 1, "club_id": 7, "channels": {"email": True}, "categories": None}
        tables.put_optional("tenant_user_settings", ("1:7", row), ("1:8", row), ("2:7", row))
        related = related_to([(range(1, 600), 7, None)])
        for look_up in (tables.directory.users_and_layers, tables.directory.layers):
            found = look_up(range(1, 600), [7], related)
            assert found.tenant_users.keys() == {(1, 7), (2, 7)}
            assert found.tenant_users[1, 7].channels == {"email": True}
            assert found.settings == tables.directory.user_settings([1])
        assert tables.directory.user_settings([1])[1].channels == SETTINGS.channels

    @pytest.mark.kills(guard="tenancy.followers")
    def test_followers_of_an_object_are_paged_by_id(self, mapped_tables: Tables) -> None:
        """Without users of other clubs, those who follow other objects, and deleted rows."""
        tables = mapped_tables
        tables.put(*(USER._replace(user_id=number) for number in range(1, 12)), USER._replace(user_id=40, club_id=8))
        tables.put_optional("memberships", *(follow(number) for number in (11, 2, 5, 4, 9, 3, 40, 99)))
        tables.put_optional("memberships", follow(6, name="4"), follow(7, kind="player"), follow(8, club_id=8))
        tables.remove(USER._replace(user_id=3))
        unfollow(tables, 4)
        pages = list(tables.directory.members_of_club(7, FOLLOWERS))
        assert member_ids(pages) == [2, 5, 9, 11]
        assert member_ids(tables.directory.members_of_club(7, FOLLOWERS, after=5)) == [9, 11]
        assert member_ids(tables.directory.members_of_club(7, audience({"follows": "team:1"}))) == []
        assert member_ids(tables.directory.members_of_club(9, FOLLOWERS)) == []
        tables.put_optional("memberships", follow(4))
        assert member_ids(tables.directory.members_of_club(7, FOLLOWERS)) == [2, 4, 5, 9, 11]

    def test_followers_match_conditions(self, mapped_tables: Tables) -> None:
        tables = mapped_tables
        tables.put(*(USER._replace(user_id=number, locale="de" if number % 2 else "en") for number in range(1, 9)))
        tables.put_optional("memberships", *map(follow, range(1, 7)))
        wanted = {"follows": "team:42", "where": GERMAN, "except_users": [3, 7]}
        assert members_of(tables, wanted) == [1, 5]
        tables.put(DEVICE._replace(user_id=5))
        examined = 6
        assert counted(tables, wanted, ["push", "email"]) == (examined, 2, {"push": 1, "email": 2})

    def test_pages_of_followers_show_one_moment(self, mapped_tables: Tables) -> None:
        tables = mapped_tables
        tables.put(*(USER._replace(user_id=number) for number in range(1, 6)))
        tables.put_optional("memberships", *map(follow, range(1, 5)))
        pages = tables.directory.members_of_club(7, FOLLOWERS)
        first = next(pages)
        tables.put_optional("memberships", follow(5))
        unfollow(tables, 4)
        assert member_ids((first, *pages)) == [1, 2, 3, 4]

    def test_follows_are_read_with_users(self, mapped_tables: Tables) -> None:
        tables = mapped_tables
        tables.put(USER)
        tables.put_optional("memberships", follow(1), follow(2, muted=True, club_id=None), follow(3, kind="player"))
        found = tables.directory.layers([1, 2, 3, 4], [7], related_to([([1, 2, 3, 4], 7, "team:42")]))
        assert found.memberships == {
            "1:team:42": Membership(club_id=7, muted=False),
            "2:team:42": Membership(club_id=None, muted=True),
        }

    def test_mapped_layers_decide_about_a_person(self, mapped_tables: Tables) -> None:
        tables = mapped_tables
        tables.put(USER, SETTINGS)
        tables.put_optional("tenant_user_settings", ("1:7", {"user_id": 1, "channels": {"push": False}}))
        tables.put_optional("tenant_settings", ("7", {"club_id": 7, "channels": {"email": False}}))
        person = tables.directory.person(1, NOW)
        assert person is not None
        for channel, table in {"push": "tenant_user_settings", "email": "tenant_settings"}.items():
            decision = person.decide(type="match_reminder", channel=channel)
            row = person.deciding_row(decision, type="match_reminder", channel=channel)
            assert (decision.status, row and row.table) == (Status.SUPPRESSED, table)

    @pytest.mark.kills(guard="preferences.unreadable_rules_of_tenant")
    def test_unreadable_rules_of_a_club_are_a_retry(self, tables: Tables) -> None:
        tables.put(USER)
        tables.put_rules({"club_id": 7, "version": 1, "channels": {"push": False}})
        for look_up in (tables.directory.users_and_layers, tables.directory.layers):
            assert look_up([1], [8]).tenants == {}
            with pytest.raises(Retry, match="tenant 7 cannot be read"):
                look_up([1], [7])

    def test_rules_of_a_club_decide_about_a_person(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS)
        tables.put_rules(RULES.document, replace(RULES, club_id=EVERY_CLUB, channels={"push": False}).document)
        person = tables.directory.person(1, NOW)
        assert person is not None
        for channel, table in {"email": "tenant_preferences", "push": "user_settings"}.items():
            decision = person.decide(type="match_reminder", channel=channel)
            row = person.deciding_row(decision, type="match_reminder", channel=channel)
            assert (decision.status, row and row.table) == (Status.SUPPRESSED, table)
        assert person.tenant_rows["tenant"] == DirectoryRow("tenant_preferences", NOW, NOW)

    def test_suppression_applies_to_each_spelling_of_an_address(self, tables: Tables) -> None:
        tables.suppress(suppression("Ada@Club.example"), suppression("eve@bücher.example"))
        asked = ["ada@club.example", "ADA@club.example", "bob@club.example", "eve@xn--bcher-kva.example", "no address"]
        assert tables.directory.suppressed(7, asked, NOW) == {asked[0], asked[1], asked[3]}
        assert tables.directory.suppressed(7, [], NOW) == set()

    def test_suppression_applies_to_one_club_until_it_ends(self, tables: Tables) -> None:
        address = "until-it-ends@club.example"
        tables.suppress(suppression(address))
        assert tables.directory.suppressed(8, [address], NOW) == set()
        assert tables.directory.suppressed(7, [address], NOW + 999) == {address}
        assert tables.directory.suppressed(7, [address], NOW + 1_000) == set()

    def test_look_up_of_many_ids_is_sliced(self, tables: Tables) -> None:
        rows = [User(user_id=number, club_id=number % 3) for number in range(2_500)]
        tables.put(*rows)
        wanted = list(range(0, 5_000, 2))
        assert tables.directory.users(wanted) == {row.user_id: row for row in rows if row.user_id % 2 == 0}

    def test_devices_of_a_user_are_in_id_order(self, tables: Tables) -> None:
        devices = [
            Device(
                device_id=number,
                user_id=number % 2,
                platform="apns",
                endpoint_arn=endpoint_arn("apns", f"t{number}"),
            )
            for number in (40, 3, 21, 22, 5)
        ]
        tables.put(*devices)
        found = tables.directory.devices([0, 1, 2])
        assert {user: [d.device_id for d in own] for user, own in found.items()} == {0: [22, 40], 1: [3, 5, 21], 2: []}
        assert found[0][0] == devices[3]

    def test_unregistered_and_disabled_devices_differ(self, tables: Tables) -> None:
        new = Device(device_id=1, user_id=1, platform="gcm", changed_at_ms=1_700_000_000_000)
        arn = endpoint_arn("gcm", "gone")
        disabled = Device(device_id=2, user_id=1, platform="gcm", endpoint_arn=arn, enabled=False)
        refused = Device(device_id=3, user_id=1, platform="gcm", enabled=False)
        tables.put(new, disabled, refused)
        assert tables.directory.devices([1]) == {1: [new, disabled, refused]}

    def test_templates_of_the_club_and_of_all_clubs_are_found(self, tables: Tables) -> None:
        every = Template(template_id=6, club_id=None, type="news", channel="push", locale="de", title="t", body="b")
        tables.put(
            TEMPLATE,
            every,
            Template(template_id=7, club_id=8, type="news", channel="push", locale="en", title="t", body="b"),
            Template(template_id=8, club_id=7, type="news", channel="email", locale="en", title="t", body="b"),
        )
        mine, others, none = (7, "news", "push"), (9, "news", "push"), (7, "else", "push")
        found = tables.directory.templates([mine, others, none])
        assert found == {mine: [TEMPLATE, every], others: [every], none: []}

    @pytest.mark.kills(guard="tenancy.listed_templates")
    def test_templates_of_some_clubs_are_listed_by_page(self, tables: Tables) -> None:
        every = TEMPLATE._replace(template_id=6, club_id=None, type="welcome")
        others = TEMPLATE._replace(template_id=7, club_id=8)
        email = TEMPLATE._replace(template_id=9, channel="email")
        deleted = TEMPLATE._replace(template_id=10)
        tables.put(TEMPLATE, every, others, email, deleted)
        tables.remove(deleted)

        def listed(**query: Any) -> list[int]:
            options: dict[str, Any] = {"club_ids": (7,), "limit": 10} | query
            found = tables.directory.list_templates(TemplateQuery(**options))
            return [template.template_id for template in found]

        assert listed() == [5, 6, 9]
        assert listed(club_ids=None) == [5, 6, 7, 9]
        assert listed(club_ids=(8, 9)) == [6, 7]
        assert (listed(limit=2), listed(limit=2, after=6)) == ([5, 6], [9])
        assert (listed(types=("welcome", "none")), listed(channels=("email",))) == ([6], [9])
        assert tables.directory.list_templates(TemplateQuery(club_ids=(7,), limit=1)) == [TEMPLATE]

    def test_look_ups_before_a_complete_snapshot_are_a_retry(self, tables: Tables) -> None:
        tables.put(USER, SETTINGS, DEVICE, TEMPLATE)
        tables.not_ready()
        with pytest.raises(Retry, match="not ready"):
            tables.directory.users([1])
        with pytest.raises(Retry, match="not ready"):
            tables.directory.user_settings([1])
        with pytest.raises(Retry, match="not ready"):
            tables.directory.users_and_settings([1])
        with pytest.raises(Retry, match="not ready"):
            tables.directory.devices([1])
        with pytest.raises(Retry, match="not ready"):
            tables.directory.person(1, NOW)
        with pytest.raises(Retry, match="not ready"):
            tables.directory.list_users(7, limit=1)
        with pytest.raises(Retry, match="not ready"):
            tables.directory.templates([(7, "news", "push")])
        with pytest.raises(Retry):
            tables.directory.confirm(1)

    def test_confirm_accepts_only_passed_times_and_remembers_them(self, tables: Tables) -> None:
        assert tables.directory.position() is None
        tables.caught_up_to(1_000_000)
        with pytest.raises(Retry):
            tables.directory.confirm(1_000_001)
        assert tables.directory.position() is None
        position = tables.directory.confirm(999_000)
        assert position.ts_ms >= 999_000
        assert tables.directory.position() == position
        tables.caught_up_to(0)  # A later call for a known time needs no look-up.
        assert tables.directory.confirm(998_000) == position
        with pytest.raises(Retry):
            tables.directory.confirm(1_000_001)
