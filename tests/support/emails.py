"""The senders of e-mails for tests."""

from masscomm.domain.email_settings import EmailTable, read_emails

# The environment's sender, and that of club 7 with its tenant of SES.
SENDER, OWN = "no-reply@masscomm.example", "Club 7 <news@club7.example>"


def emails_of_club_7() -> EmailTable:
    """Return the table in which club 7 has a sender and a tenant of SES of its own."""
    own = {
        "sender": OWN,
        "reply_to": "help@club7.example",
        "ses_tenant": "club-7",
        "categories": {"score": {"sender": "scores@club7.example"}},
    }
    return read_emails({"default": {"mandatory_ses_tenant": "accounts"}, "tenants": {7: own}}, sender=SENDER)
