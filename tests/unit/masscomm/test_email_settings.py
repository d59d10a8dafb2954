from pathlib import Path
from typing import Any

import pytest

from masscomm.domain.email_settings import EMAIL_VARIABLE, EmailError, EmailOrigin, email_table, read_emails, table_of

SENDER = "no-reply@masscomm.example"
OWN = "Club 7 <news@club7.example>"
TENANTS: dict[str, Any] = {
    "default": {"mandatory_ses_tenant": "accounts", "categories": {"newsletter": {"reply_to": "help@clubs.example"}}},
    "tenants": {
        7: {
            "sender": OWN,
            "configuration_set": "club-7",
            "ses_tenant": "club-7",
            "categories": {"newsletter": {"ses_tenant": "club-7-news"}, "fan_shop": {"sender": "shop@club7.example"}},
        }
    },
}


def test_shipped_file_keeps_the_sender_of_the_environment() -> None:
    table = table_of(SENDER, "masscomm-prod")
    origin = EmailOrigin(sender=SENDER, configuration_set="masscomm-prod")
    assert table.origins == [origin]
    assert table.club(7).of("newsletter", is_mandatory=True) == origin


@pytest.mark.kills(guard="email.sender_of_tenant")
def test_tenant_has_its_sender_and_no_other_tenant_has_it() -> None:
    table = read_emails(TENANTS, sender=SENDER, configuration_set="set")
    own = EmailOrigin(sender=OWN, configuration_set="club-7", ses_tenant="club-7")
    assert table.club(7).of("score", is_mandatory=False) == own
    assert table.club(8).of("score", is_mandatory=False) == EmailOrigin(sender=SENDER, configuration_set="set")


def test_category_replaces_single_keys_of_its_tenant() -> None:
    club = read_emails(TENANTS, sender=SENDER).club(7)
    news = club.of("newsletter", is_mandatory=False)
    assert (news.sender, news.reply_to, news.ses_tenant) == (OWN, "help@clubs.example", "club-7-news")
    assert club.of("fan_shop", is_mandatory=False).sender == "shop@club7.example"


@pytest.mark.kills(guard="email.mandatory_tenant")
def test_mandatory_category_has_a_tenant_of_ses_of_its_own() -> None:
    table = read_emails(TENANTS, sender=SENDER)
    assert table.club(7).of("newsletter", is_mandatory=True).ses_tenant == "accounts"
    assert table.club(8).of("otp", is_mandatory=True).ses_tenant == "accounts"
    assert (table.club_of("club-7"), table.club_of("club-7-news"), table.club_of("accounts")) == (7, 7, None)


@pytest.mark.kills(guard="email.mandatory_goes_on")
@pytest.mark.kills(guard="email.one_line")
@pytest.mark.parametrize(
    ("document", "key"),
    [
        ([], "the file must be a mapping"),
        ({"tenant": {}}, "has tenant"),
        ({"default": {"from": SENDER}}, "default has from"),
        ({"default": {"ses_tenant": "one", "mandatory_ses_tenant": "two"}}, "default: each tenant needs"),
        ({"tenants": {"7": {}}}, "tenants.7"),
        ({"tenants": {7: {"sender": 7}}}, "tenants.7.sender"),
        ({"tenants": {7: {"sender": ""}}}, "tenants.7.sender"),
        (
            {"tenants": {7: {"sender": "A <a@b.example>\r\nBcc: c@d.example"}}},
            "tenants.7.sender must be .* in one line",
        ),
        ({"tenants": {7: {"reply_to": "nobody"}}}, "tenants.7.reply_to"),
        ({"tenants": {7: {"reply_to": f"{'x' * 320}@b.example"}}}, "tenants.7.reply_to"),
        ({"tenants": {7: {"configuration_set": "a b"}}}, "tenants.7.configuration_set"),
        ({"tenants": {7: {"ses_tenant": "a"}}}, "tenants.7.mandatory_ses_tenant is required"),
        ({"tenants": {7: {"ses_tenant": "a", "mandatory_ses_tenant": "a"}}}, "tenants.7.ses_tenant: a is"),
        ({"tenants": {7: {"ses_tenant": "x" * 65}}}, "tenants.7.ses_tenant"),
        ({"tenants": {7: {"categories": {"score": {"mandatory_ses_tenant": "a"}}}}}, "tenants.7.categories.score has"),
        ({"tenants": {7: {"categories": {1: {}}}}}, "tenants.7.categories.1"),
        (
            {
                "default": {"mandatory_ses_tenant": "m"},
                "tenants": {7: {"ses_tenant": "a"}, 8: {"categories": {"score": {"ses_tenant": "a"}}}},
            },
            "tenants.8.ses_tenant: a is that of tenants.7",
        ),
    ],
)
def test_wrong_file_is_refused_with_the_name_of_its_key(document: Any, key: str) -> None:
    with pytest.raises(EmailError, match=key):
        read_emails(document, sender=SENDER)


@pytest.mark.kills(guard="email.sender")
@pytest.mark.parametrize("sender", ["no-reply", f"Club, Inc <{SENDER}>", "no-reply@müller.example", "a b@c.example"])
def test_sender_without_an_address_is_a_stop(sender: str) -> None:
    with pytest.raises(EmailError, match="SES_SENDER: the sender has no address"):
        read_emails({}, sender=sender)


def test_other_file_replaces_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "email.yaml"
    file.write_text('tenants: {7: {sender: "Club 7 <news@club7.example>"}}')
    monkeypatch.setenv(EMAIL_VARIABLE, str(file))
    monkeypatch.setenv("SES_SENDER", SENDER)
    email_table.cache_clear()
    try:
        assert email_table().club(7).origin.name == "Club 7"
        assert email_table().club(8).origin.name == "masscomm.example"
    finally:
        email_table.cache_clear()
