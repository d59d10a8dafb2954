"""`masscomm source init` proposes a mapping by names, types and samples; a doubtful wish opts out every user."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from masscomm.cdc.captured_tables import read_captured
from masscomm.cdc.change_events import column_value
from masscomm.domain.source_tables import read_source
from ops.provisioning.source_catalogue import CatalogueTable, Column, Samples
from ops.provisioning.source_init import Proposal, propose
from ops.provisioning.source_words import Wish, read_wish, words_of

TYPES = {"int": "int8", "text": "text", "bool": "bool", "json": "jsonb", "time": "timestamptz", "uuid": "uuid"}


class MadeUpSamples(Samples):
    """Samples of made-up rows, by column."""

    def __init__(self, words: Mapping[str, Sequence[str]], members: Mapping[str, Mapping[str, str]]) -> None:
        self._words = words
        self._members = members

    def words(self, table: CatalogueTable, column: str) -> Sequence[str]:
        return self._words.get(column, ())

    def members(self, table: CatalogueTable, column: str) -> Sequence[tuple[tuple[str, ...], str]]:
        return [(tuple(path.split(".")), kind) for path, kind in self._members.get(column, {}).items()]


def table(name: str, columns: str, **references: str) -> CatalogueTable:
    """Return a table of `name type` columns: a star after the type is for unique and not null, an exclamation mark for
    not null.
    """
    made = {}
    for each in columns.split(", "):
        column, kind = each.split()
        type_name = TYPES[kind.rstrip("*!")]
        made[column] = Column(
            sql_type=type_name, type_name=type_name, not_null=kind[-1] in "*!", unique=kind.endswith("*")
        )
    targets = {column: (f"app.{target.split('.')[0]}", target.split(".")[1]) for column, target in references.items()}
    return CatalogueTable(schema="app", name=name, columns=made, references=targets)


def proposed(
    *tables: CatalogueTable,
    words: Mapping[str, Sequence[str]] | None = None,
    members: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[Proposal, dict[str, Any]]:
    """Return a proposal, and the entries of its file, which the functions can read."""
    proposal = propose(tables, MadeUpSamples(words or {}, members or {}))
    entries: dict[str, Any] = yaml.safe_load(proposal.text())["tables"]
    read_captured(read_source({"tables": entries}))
    return proposal, entries


def effective(entries: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules for channels of a user who has this row in each table of settings, as look-ups merge them."""
    rules: dict[str, Any] = {}
    for name, source in read_source({"tables": entries}).items():
        value = source.columns.get("channels")
        if name.startswith("user_settings") and value is not None:
            rules = column_value(name, "object", value, row.get, strict=True) or rules
    return rules


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first_name", "first name"),
        ("firstName", "first name"),
        ("FCMToken", "fcm token"),
        ("USER_ID", "user id"),
        ("v2_email", "v 2 email"),
    ],
)
def test_names_are_read_word_by_word(name: str, words: str) -> None:
    assert words_of(name) == words


BOTH = ("push", "email", "sms")


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("wants push", Wish(("push",), True)),
        ("email notifications", Wish(("email",), True)),
        ("receive emails", Wish(("email",), True)),
        ("push", Wish(("push",), True)),
        ("newsletter", Wish(("email",), True)),
        ("is subscribed", Wish(BOTH, True)),
        ("marketing consent", Wish(BOTH, True)),
        ("email opt in", Wish(("email",), True)),
        ("no mail", Wish(("email",), False)),
        ("unsubscribed", Wish(BOTH, False)),
        ("opted out", Wish(BOTH, False)),
        ("email optout", Wish(("email",), False)),
        ("newsletter disabled", Wish(("email",), False)),
        ("do not contact", Wish(BOTH, False)),
        ("do not email", Wish(("email",), False)),
        ("notifications muted", Wish(BOTH, False)),
        ("push paused", Wish(("push",), False)),
        ("wants alerts", Wish(BOTH, True)),
        ("no reminders", Wish(BOTH, False)),
        # Two negations, a word that is not known, and an `opt` that says neither in nor out.
        ("not unsubscribed", Wish(BOTH, None)),
        ("email vacation", Wish(("email",), None)),
        ("push pauseable enabled", Wish(("push",), None)),
        ("marketing opt", Wish(BOTH, None)),
        ("sms enabled", Wish(("sms",), True)),
        # Names about something else.
        ("email verified", None),
        ("email confirmed", None),
        ("unsubscribe token", None),
        ("is staff", None),
        ("contact", None),
        ("phone number verified", None),
    ],
)
@pytest.mark.kills(guard="source_init.doubtful_wish")
@pytest.mark.kills(guard="source_init.inverted_wish")
def test_wish_has_the_direction_of_its_name(name: str, wish: Wish | None) -> None:
    assert read_wish(name, is_flag=True) == wish


@pytest.mark.parametrize("name", ["email", "mobile phone", "mailing address", "subscription status", "created at"])
def test_values_of_other_types_are_no_wishes(name: str) -> None:
    assert read_wish(name, is_flag=False) is None


@pytest.mark.parametrize(
    "name", ["unsubscribed at", "marketing consent", "notification frequency", "email opt out date"]
)
def test_wishes_of_other_types_are_doubtful(name: str) -> None:
    wish = read_wish(name, is_flag=False)
    assert wish is not None
    assert wish.wanted is None


USERS = "id int*, email text"
SAFE = {"push": False, "email": False, "sms": False}


@pytest.mark.parametrize(
    ("columns", "row", "rules"),
    [
        ("no_emails bool", {"no_emails": True}, {"email": False}),
        ("no_emails bool", {"no_emails": False}, {"email": True}),
        ("no_emails bool", {"no_emails": None}, {}),
        ("wants_email bool", {"wants_email": True}, {"email": True}),
        ("wants_email bool", {"wants_email": None}, {"email": False}),
        ("newsletter bool", {"newsletter": False}, {"email": False}),
        ("unsubscribed bool, email_enabled bool", {"unsubscribed": True, "email_enabled": True}, SAFE),
        ("unsubscribed bool, email_enabled bool", {"unsubscribed": False, "email_enabled": True}, {"email": True}),
        ("subscribed bool", {"subscribed": None}, SAFE),
        ("subscribed bool, push bool", {"subscribed": True, "push": True}, SAFE),
        ("subscribed bool!, push bool", {"subscribed": False, "push": True}, SAFE),
        ("subscribed bool!, push bool", {"subscribed": True, "push": True}, {"push": True}),
        ("is_active bool!, push bool", {"is_active": False, "push": True}, SAFE),
        ("banned bool, push bool", {"banned": True, "push": True}, SAFE),
        ("email_opt_in int", {"email_opt_in": 1}, {"email": True}),
        ("email_opt_in int", {"email_opt_in": 0}, {"email": False}),
        ("email_opt_out int", {"email_opt_out": 1}, {"email": False}),
        ("unsubscribed_at time", {"unsubscribed_at": None}, SAFE),
        ("marketing_consent text", {"marketing_consent": "since 2020"}, SAFE),
        ("email_vacation bool", {"email_vacation": False}, SAFE),
        ("wants_email bool, no_emails bool", {"wants_email": True, "no_emails": False}, SAFE),
        ("email_verified bool", {"email_verified": False}, {}),
    ],
)
@pytest.mark.kills(guard="source_init.undecided")
@pytest.mark.kills(guard="source_init.inverted")
@pytest.mark.kills(guard="source_init.null_is_no_consent")
def test_no_proposal_notifies_against_a_wish(columns: str, row: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
    _, entries = proposed(table("users", f"{USERS}, {columns}"))
    assert effective(entries, row) == rules


def test_column_named_like_a_category_only_opts_out() -> None:
    """A rule for a category would precede an opt-out of the channel."""
    _, entries = proposed(table("users", f"{USERS}, news bool!, no_push bool"))
    columns = entries["user_settings"]["columns"]
    assert columns["categories"] == {"object": {"news": {"column": "news", "values": {True: None, False: False}}}}
    assert columns["channels"]["object"].keys() == {"push"}
    _, entries = proposed(table("users", f"{USERS}, news bool"))
    assert effective(entries, {"news": None}) == SAFE


def test_doubtful_wishes_are_to_be_completed() -> None:
    proposal, entries = proposed(table("users", f"{USERS}, unsubscribed_at time"))
    assert "app.users.unsubscribed_at (timestamptz): its meaning is not certain" in "\n".join(proposal.todos)
    assert "# TODO app.users.unsubscribed_at" in proposal.text()
    assert list(entries)[1] == "user_settings"


def test_words_of_yes_and_no_are_mapped() -> None:
    _, entries = proposed(table("users", f"{USERS}, email_opt_in text"), words={"email_opt_in": ["Y", "N"]})
    assert entries["user_settings"]["columns"]["channels"]["object"]["email"] == {
        "column": "email_opt_in",
        "values": {"Y": True, "N": False},
        "default": False,
    }


@pytest.mark.parametrize(
    "other",
    [
        table("notification_preferences", "id int*, user_id int!, channel text, enabled bool", user_id="users.id"),
        table("unsubscribes", "id int*, email text"),
        table("user_settings", "id int*, user_key uuid*, email_enabled bool", user_key="users.key"),
        table("push_consents", "id int*, user_id int*, level text", user_id="users.id"),
        table("preferences", "id int*, user_id int!, name text, value text"),
    ],
)
def test_settings_that_cannot_be_mapped_opt_out_every_user(other: CatalogueTable) -> None:
    proposal, entries = proposed(table("users", f"{USERS}, key uuid*"), other)
    assert effective(entries, {}) == SAFE
    assert any(f"app.{other.name}" in todo for todo in proposal.todos)


def test_two_tables_with_rules_for_channels_are_undecided() -> None:
    one = table("email_choices", "user_id int*, wants_email bool", user_id="users.id")
    other = table("push_choices", "user_id int*, wants_push bool", user_id="users.id")
    proposal, entries = proposed(table("users", USERS), one, other)
    assert effective(entries, {"wants_email": True, "wants_push": True}) == SAFE
    assert any("app.push_choices.wants_push" in todo for todo in proposal.todos)


def test_json_settings_are_sampled_or_undecided() -> None:
    settings = table("profiles", "id int*, user_id int*, preferences json", user_id="users.id")
    members = {"notifications": "object", "notifications.email": "boolean", "theme": "string"}
    _, entries = proposed(table("users", USERS), settings, members={"preferences": members})
    assert entries["user_settings"]["columns"]["channels"]["object"]["email"]["path"] == "notifications.email"
    _, entries = proposed(table("users", USERS), settings)
    assert effective(entries, {}) == SAFE


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (("users", "admin_users"), "app.users"),
        (("auth_user", "auth_user_groups"), "app.auth_user"),
        (("user_entity", "realm"), "app.user_entity"),
        (("Person", "Company"), "app.Person"),
        (("shop_customers", "orders"), "app.shop_customers"),
        (("orders", "items"), "public.masscomm_users"),
    ],
)
def test_table_of_users_is_found_by_its_name(tables: Sequence[str], expected: str) -> None:
    _, entries = proposed(*(table(name, USERS) for name in tables))
    assert entries["users"]["table"] == expected


def test_most_referenced_table_of_users_is_chosen() -> None:
    orders = table("orders", "id int*, customer_id int", customer_id="customers.id")
    proposal, entries = proposed(table("users", USERS), table("customers", USERS), orders)
    assert entries["users"]["table"] == "app.customers"
    assert "other tables like it: app.users" in proposal.notes[0]


def test_users_without_a_number_are_to_be_completed() -> None:
    proposal, entries = proposed(table("user_entity", "id uuid*, email text, email_opt_out bool"))
    assert entries["users"]["key"] == "masscomm_no"
    assert "no unique column of whole numbers" in proposal.todos[0]
    assert effective(entries, {}) == SAFE


def test_tenant_that_is_no_number_has_no_user() -> None:
    proposal, entries = proposed(table("user_entity", "id int*, email text, realm_id text"))
    assert entries["users"]["columns"]["club_id"] == {"constant": None}
    assert any("app.user_entity" not in todo and "realm_id (text)" in todo for todo in proposal.todos)


DEVICES = "id int*, user_id int!, token text"


@pytest.mark.parametrize(
    ("other", "words", "platform"),
    [
        (table("devices", f"{DEVICES}, platform text"), ["android", "IOS"], "platform"),
        (
            table("devices", f"{DEVICES}, os text"),
            ["iphone", "android", "fax"],
            {"column": "os", "values": {"iphone": "apns", "android": "gcm"}},
        ),
        (table("devices", f"{DEVICES}, type text"), ["tablet"], None),
        (table("fcm_devices", DEVICES), [], {"constant": "gcm"}),
    ],
)
def test_platforms_are_found_by_words_or_the_name(other: CatalogueTable, words: list[str], platform: Any) -> None:
    _, entries = proposed(table("users", USERS), other, words=dict.fromkeys(("platform", "os", "type"), words))
    assert entries["devices"]["table"] == f"app.{other.name}"
    assert entries["devices"]["columns"].get("platform") == platform


@pytest.mark.parametrize(
    "name", ["api_tokens", "password_resets", "web_push_devices", "oauth_access_tokens", "sessions"]
)
def test_other_tokens_are_no_devices(name: str) -> None:
    _, entries = proposed(table("users", USERS), table(name, DEVICES))
    assert entries["devices"]["table"] == "app.masscomm_devices"


@pytest.mark.parametrize(
    ("column", "active"),
    [
        ("revoked bool", {"column": "revoked", "values": {True: False, False: True}}),
        ("enabled bool!", "enabled"),
        ("enabled bool", {"column": "enabled", "default": False}),
        ("revoked_at time", {"constant": False}),
    ],
)
def test_devices_that_were_given_up_are_inactive(column: str, active: Any) -> None:
    _, entries = proposed(table("users", USERS), table("devices", f"{DEVICES}, {column}"))
    assert entries["devices"]["columns"]["active"] == active
