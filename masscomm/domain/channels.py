"""The channels: push, e-mail and SMS. A new channel needs an entry here and a provider in masscomm/channels; every list
of channels is computed from the entries.

An entry has the fields of a message, how templates become these fields, the kind of address of a recipient, and the
provider's quota. The names of settings and metrics are derived from the channel's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from masscomm.domain.addresses import trimmed_address
from masscomm.domain.users import User

# The names that a send without a template must have in its data.
LITERAL = ("title", "body")


@dataclass(frozen=True, kw_only=True)
class MessageField:
    """One field of the messages of a channel, such as the title."""

    name: str
    # The column of the template from which this field is rendered: title, body, html or url. A send without a template
    # has title, body and url in its data.
    column: str
    # Whether the provider requires the field. A field that is not required is absent if the template's column is empty.
    required: bool = True
    # Whether the text is a single line, such as a subject or title: line breaks are removed, and the length is limited.
    one_line: bool = False
    # Whether inserted values are escaped for HTML.
    escaped: bool = False
    # Whether the text is an address that the device opens (masscomm.domain.deep_links); it may be empty.
    is_link: bool = False


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One channel, with its provider and its message fields."""

    name: str
    fields: tuple[MessageField, ...]
    # The attribute of masscomm.domain.users.User that has the recipient's address. None: the channel sends to each of
    # the user's devices.
    user_field: str | None
    # The default quota of a provider account, in messages per second; for SMS, that of a sender in segments per second.
    quota_per_s: float
    # The name of one message in a sentence; empty: the channel's name.
    noun: str = ""

    @property
    def to_devices(self) -> bool:
        """Return whether each device of a recipient gets the message."""
        return self.user_field is None

    @property
    def to_phone_numbers(self) -> bool:
        """Return whether the channel sends to phone numbers, which are compared in the form of E.164."""
        return self.user_field == "phone"

    @property
    def required_fields(self) -> frozenset[str]:
        """Return the fields that a delivery record must have."""
        return frozenset(field.name for field in self.fields if field.required)

    @property
    def literal_columns(self) -> frozenset[str]:
        """Return the names in a send's data that are its message if no template applies."""
        return frozenset(field.column for field in self.fields if field.column in LITERAL or field.is_link)

    @property
    def rate_setting(self) -> str:
        """Return the environment variable with one environment's share of the provider's quota."""
        return f"{self.name.upper()}_RATE_PER_S"

    def metric_name(self, what: str) -> str:
        """Return the name of a metric about the calls to the channel's provider, such as PushCalls."""
        return f"{self.name.capitalize()}{what}"

    def address_of(self, user: User) -> str:
        """Return the user's address on this channel, without invisible characters around it; empty for a channel of
        devices, and for a user without an address.
        """
        return "" if self.user_field is None else trimmed_address(getattr(user, self.user_field) or "")

    def reaches(self, user: User) -> bool:
        """Return whether the user has an address on this channel. Devices are not checked here; they are looked up
        right before publishing.
        """
        return self.to_devices or bool(self.address_of(user))


CHANNELS: Mapping[str, Channel] = MappingProxyType(
    {
        channel.name: channel
        for channel in (
            Channel(
                name="push",
                fields=(
                    MessageField(name="title", column="title", one_line=True),
                    MessageField(name="body", column="body"),
                    MessageField(name="url", column="url", required=False, one_line=True, is_link=True),
                ),
                user_field=None,
                quota_per_s=1500,
                noun="push message",
            ),
            Channel(
                name="email",
                fields=(
                    MessageField(name="subject", column="title", one_line=True),
                    MessageField(name="text", column="body"),
                    MessageField(name="html", column="html", required=False, escaped=True),
                ),
                user_field="email",
                quota_per_s=14,
                noun="e-mail",
            ),
            Channel(
                name="sms",
                fields=(MessageField(name="text", column="body"),),
                user_field="phone",
                # The segments of a long code: docs.aws.amazon.com/sms-voice/latest/userguide/sms-limitations-mps.html
                quota_per_s=10,
                noun="SMS",
            ),
        )
    }
)


def are_channels(value: object) -> bool:
    """Return whether a JSON value is a list of channels; it may be empty."""
    return isinstance(value, list) and all(isinstance(each, str) and each in CHANNELS for each in value)
