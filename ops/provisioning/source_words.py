"""The words by which databases name the columns of the directory, and the wishes of users about notifications.

Names are compared word by word: `firstName`, `first_name` and `FIRST_NAME` are `first name`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_TENANT = "club id, club, tenant id, tenant, organisation id, organization id, organisation, organization, org id"
_UPDATED = "updated at, modified at, updated, modified, updated on, last modified, date modified"
_LOCALE = "locale, language, lang, language code, preferred language, preferred locale"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


# Table of the directory → column → the names that it has elsewhere, the most specific first.
COLUMNS: Mapping[str, Mapping[str, Sequence[str]]] = {
    table: {column: _listed(names) for column, names in columns.items()}
    for table, columns in {
        "users": {
            "club_id": f"{_TENANT}, company id, company, account id, workspace id, team id, site id, realm id, realm",
            "first_name": "first name, firstname, given name, forename, name, full name, display name",
            "last_name": "last name, lastname, family name, surname",
            "email": "email, email address, mail, mail address, e mail, contact email",
            "phone": "phone, phone number, mobile, mobile number, mobile phone, telephone, tel, msisdn",
            "locale": _LOCALE,
            "time_zone": "time zone, timezone, tz, zone, zone info, zoneinfo",
            "created_at": "created at, created, date joined, created on, inserted at, date created",
            "updated_at": _UPDATED,
        },
        "user_settings": {
            "club_id": _TENANT,
            "preference_version": "preference version",
            "updated_at": _UPDATED,
        },
        "devices": {
            "platform": "platform, os, device type, device platform, device os, kind, type, cloud message type",
            "token": "token, push token, device token, registration id, registration token, fcm token, apns token",
            "updated_at": _UPDATED,
        },
        "notification_templates": {
            "club_id": _TENANT,
            "type": "type, category, notification type, occasion, event, event type, message type, template type, kind",
            "channel": "channel, medium, transport, delivery method, notification channel",
            "locale": _LOCALE,
            "title": "title, subject, headline, heading",
            "body": "body, message, text, content, body text, plain text",
            "html": "html, body html, html body",
            "url": "url, link, deep link, target url",
            "version": "version, revision",
            "updated_at": _UPDATED,
        },
    }.items()
}
# JSON in tables of settings.
JSON_SETTINGS: Mapping[str, Sequence[str]] = {
    "channels": ("channels", "notification channels"),
    "categories": ("categories", "topics", "subscriptions", "interests", "notification types"),
    "quiet_hours": ("quiet hours", "quiet times", "do not disturb", "dnd"),
}
# The first and the last time of quiet hours, in tables or columns whose names have one of QUIET.
QUIET = frozenset(("quiet", "dnd", "disturb", "silence", "silent"))
QUIET_TIMES: Mapping[str, frozenset[str]] = {
    "start": frozenset(("start", "starts", "from", "begin", "begins", "since")),
    "end": frozenset(("end", "ends", "to", "until", "till")),
}
# The names of tables of users, the likeliest first. `user entity` counts as `user`.
USER_TABLES = _listed("user, person, member, customer, account, subscriber, contact, profile, client, player")
# The names by which other tables refer to a user.
USER_REFERENCES = frozenset(("user id", "userid", "user", "owner id", "member id", "customer id", "person id"))
# Names of tables with a token of a device, and of tables with other tokens.
DEVICE_TABLE = re.compile("device|handset|installation|push|fcm|gcm|apns|smartphone")
OTHER_TOKENS = re.compile("access|auth|password|reset|session|refresh|api|csrf|web_?push|wns|setting|preference")
# Names of tables with wishes that are not in one row for each user.
WISHES_TABLE = frozenset(
    _listed("unsubscribe, unsubscribes, unsubscribed, suppression, suppressions, optout, optouts, consent, consents")
    + _listed("preference, preferences, setting, settings")
)
# Flags of users' tables and of devices, by what true means.
ACTIVE: Mapping[bool, frozenset[str]] = {
    True: frozenset(("active", "is active", "enabled", "is enabled", "valid", "is valid")),
    False: frozenset(
        _listed("disabled, is disabled, banned, is banned, blocked, is blocked, suspended, is suspended, deactivated")
        + _listed("deleted, is deleted, inactive, is inactive, retired, revoked, is revoked, expired, logged out")
    ),
}
# Times whose presence has the meaning of false.
ENDED = frozenset(_listed("deleted at, disabled at, banned at, deactivated at, revoked at, retired at, discarded at"))
# Other systems' names of masscomm's channels and platforms.
CHANNEL_WORDS = {
    "push": "push",
    "app": "push",
    "mobile": "push",
    "email": "email",
    "mail": "email",
    "e-mail": "email",
    "sms": "sms",
}
PLATFORM_WORDS = {"iphone": "apns", "ipad": "apns", "google": "gcm"}
YES = frozenset(("yes", "y", "true", "t", "on", "1", "enabled"))
NO = frozenset(("no", "n", "false", "f", "off", "0", "disabled", "never", "none"))

# --- wishes ---

_CHANNELS = {
    "push": frozenset(("push",)),
    "email": frozenset(_listed("email, emails, mail, mails, mailing, newsletter, newsletters")),
    "sms": frozenset(("sms",)),
}
# Channels that masscomm does not have.
_FOREIGN = frozenset(_listed("phone, call, calls, whatsapp, fax, post, postal, telegram, slack"))
_NEGATIVE = frozenset(
    _listed("no, not, dont, never, without, unsubscribed, unsubscribe, unsub, out, disable, disabled, inactive")
    + _listed("mute, muted, block, blocked, stop, stopped, suppress, suppressed, reject, rejected, refuse, refused")
    + _listed("silenced, off, exclude, excluded, forbidden, deny, denied, pause, paused, snooze, snoozed, declined")
)
_POSITIVE = frozenset(
    _listed("want, wants, receive, receives, accept, accepts, accepted, allow, allows, allowed, enable, enabled, in")
    + _listed("subscribe, subscribed, consent, consents, agree, agreed, ok, active, on, send, granted, permitted")
)
# Words that make a name a wish without a channel.
_TOPIC = frozenset(
    _listed("notification, notifications, notify, marketing, promo, promotion, promotions, promotional, newsletter")
    + _listed("newsletters, subscribe, subscribed, unsubscribe, unsubscribed, unsub, opt, opted, consent, consents")
    + _listed("mute, muted, advertising, mailing, gdpr, contactable")
)
_NEUTRAL = frozenset(
    _listed(
        "is, has, do, does, to, for, from, by, via, me, user, get, be, weekly, daily, product, all, general, mobile"
    )
    + _listed("preference, preferences, prefs, setting, settings, options")
)
# Words that make a name a wish together with a word for yes or no.
_SUBJECT = frozenset(
    _listed("contact, digest, news, update, updates, offer, offers, reminder, reminders, event, events, comment")
    + _listed("comments, alert, alerts, message, messages, notice, notices, mailings")
)
# Names with one of these words are about something else, such as `email_verified`.
_OTHER = frozenset(
    _listed("verified, verify, verification, confirmed, confirmation, confirm, token, count, id, ids, hash, template")
    + _listed("last, sent, read, seen, address, provider, version, ip, source, reason, url, name, domain, login, code")
)


class Wish(NamedTuple):
    """The meaning of a name about notifications."""

    # The channels; both, if the name has none; none, if masscomm does not have the channel, and for a category.
    channels: tuple[str, ...]
    # Whether true means that the user wants the notifications; None: the name does not say it beyond doubt.
    wanted: bool | None


def words_of(name: str) -> str:
    """Return the words of a name in lower case, with a blank between them."""
    return " ".join(word.lower() for word in _WORD.findall(name))


def singular(word: str) -> str:
    """Return the singular of an English noun, as far as names of tables need it."""
    if word == "people":
        return "person"
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")


def read_wish(name: str, *, is_flag: bool) -> Wish | None:
    """Return the wish that a name is about; None if it is about something else.

    Args:
        name: The words of the name.
        is_flag: Whether the value is yes or no. Of other values, such as an address, only names with a further word
            about notifications are wishes.
    """
    spelled = name.replace("optin", "opt in").replace("optout", "opt out")
    words = set(spelled.split())
    channels = tuple(channel for channel, names in _CHANNELS.items() if words & names)
    marked = words & (_NEGATIVE | _POSITIVE | _TOPIC)
    about = words & _TOPIC or (words & _SUBJECT and words & (_NEGATIVE | _POSITIVE))
    if words & _OTHER or not (about or ((channels or words & _FOREIGN) and (is_flag or marked))):
        return None
    if words & _FOREIGN and not channels:
        return Wish((), None)
    known = frozenset().union(*_CHANNELS.values()) | _FOREIGN | _NEGATIVE | _POSITIVE | _TOPIC | _SUBJECT | _NEUTRAL
    negations = [word for word in spelled.split() if word in _NEGATIVE]
    # guard: source_init.doubtful_wish
    clear = words <= known and len(negations) < 2 and not ({"opt", "opted"} & words and not {"in", "out"} & words)
    # guard: source_init.inverted_wish
    return Wish(channels or tuple(_CHANNELS), (not negations) if is_flag and clear else None)
