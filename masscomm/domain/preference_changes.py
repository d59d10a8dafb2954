"""Preferences that users change through masscomm: they apply at once, before the monolith's tables have them.

Each user has at most one document of changes. A change applies until the user's settings name its version, or a newer
one, as applied (`preference_version` in schemas/source.yaml). If the order of a change and of the monolith's row is not
known, silence wins: a change that opts in, or that removes quiet hours, applies only to the version of the settings
that it was made for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from masscomm.domain.channels import CHANNELS
from masscomm.domain.setting_names import setting_under, without_spellings
from masscomm.domain.sms_answers import Word
from masscomm.domain.users import UserSettings

# The index, whose documents have the user's id as their id.
INDEX = "preference_changes"
# The ways to change preferences: by the API, by an unsubscribe link, and by an answer to an SMS.
API, UNSUBSCRIBE, SMS = "api", "unsubscribe", "sms"
# The `source` of the document that replaces the changes of an erased user, until a sweep removes it.
ERASURE = "erasure"
# User settings without an applied change that can be read: they opt out of everything.
_UNREADABLE: Any = "unreadable"


class Wish(NamedTuple):
    """Whether a user wants a category on a channel. None stands for every category, or for every channel."""

    category: str | None
    channel: str | None
    wanted: bool

    @property
    def is_silence(self) -> bool:
        """Whether the user wants fewer notifications."""
        return not self.wanted

    def replaces(self, other: "Wish | QuietHoursWish") -> bool:
        """Return whether an earlier wish has no effect after this one. A wish about a category as a whole replaces the
        wishes about its channels.
        """
        return isinstance(other, Wish) and other.category == self.category and self.channel in (None, other.channel)


_SMS_OUT, _SMS_IN = Wish(None, "sms", False), Wish(None, "sms", True)


class QuietHoursWish(NamedTuple):
    """The quiet hours that a user wants, as HH:MM; None: no quiet hours."""

    start: str | None
    end: str | None

    @property
    def is_silence(self) -> bool:
        """Whether the user wants quiet hours."""
        return self.start is not None

    def replaces(self, other: "Wish | QuietHoursWish") -> bool:
        """Return whether an earlier wish has no effect after this one."""
        return isinstance(other, QuietHoursWish)

    @property
    def setting(self) -> dict[str, str | None] | None:
        """The value of `user_settings.quiet_hours`."""
        return None if self.start is None else self._asdict()


class PreferenceChange(NamedTuple):
    """One wish, with its version."""

    wish: Wish | QuietHoursWish
    version: int
    # The version of the user settings at the time of the change; 0: the user had none.
    settings_version: int
    # Their snapshot generation.
    settings_generation: str
    # How the change was made; empty if an earlier version stored it.
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class PreferenceChanges:
    """The stored changes of a user."""

    user_id: int
    club_id: int
    # The version of the newest change: its time in ms since the epoch, or one more than the previous version.
    version: int = 0
    changes: tuple[PreferenceChange, ...] = ()
    # The newest version that is on the topic for the monolith.
    produced_version: int = 0
    # How the newest change was made: `api`, `unsubscribe` or `sms`.
    source: str = ""
    # The id of the API key with which the newest change was made.
    principal: str = ""

    def after(
        self, wishes: Iterable[Wish | QuietHoursWish], settings: UserSettings | None, now_ms: int, **values: str
    ) -> Self:
        """Return the changes after further wishes, without the changes that they replace or that are applied.

        Args:
            wishes: The wishes.
            settings: The user's settings, as the directory has them now.
            now_ms: The present time.
            values: The new `source` and `principal`.
        """
        version = max(now_ms, self.version + 1)
        wishes = tuple(wishes)
        kept = tuple(
            change
            for change in self.changes
            if change.version > self.applied_version(settings)
            and not any(wish.replaces(change.wish) for wish in wishes)
        )
        source = values.get("source", "")
        added = tuple(PreferenceChange(wish, version, *_row_of(settings), source) for wish in wishes)
        return type(self)(
            user_id=self.user_id,
            club_id=self.club_id,
            version=version,
            changes=kept + added,
            produced_version=self.produced_version,
            **values,
        )

    def wishes_after(self, word: Word, settings: UserSettings | None, at_ms: int) -> Sequence[Wish] | None:
        """Return the wishes of a user who has answered an SMS with this word; None: nothing changes.

        STOP opts out of the channel unless the user has, or has changed it since. START opts in again if STOP has
        opted out and no other change has followed. The answer is the newest one of the user's number.

        Args:
            word: The answer.
            settings: The user's settings, with these changes.
            at_ms: The time of the answer.
        """
        known = next((each for each in self.changes if each.wish in (_SMS_OUT, _SMS_IN)), None)
        if word is Word.START:
            # guard: sms.start_reverts_stop
            return [_SMS_IN] if known is not None and (known.wish, known.source) == (_SMS_OUT, SMS) else None
        # A START that has opted in since is an older answer: this one is the newest.
        is_of_start = known is not None and (known.wish, known.source) == (_SMS_IN, SMS)
        if known is not None and known.version >= at_ms and not is_of_start:  # guard: sms.late_start
            return None
        channels = settings.channels if settings is not None else {}
        is_out = isinstance(channels, Mapping) and setting_under(channels, "sms") is False
        return None if is_out else [_SMS_OUT]

    def over(self, lost: Self) -> Self:
        """Return these changes with those of a document that was lost before they were made, as if it had not been."""
        kept = tuple(
            change
            for change in lost.changes
            if change not in self.changes and not any(each.wish.replaces(change.wish) for each in self.changes)
        )
        produced = self.produced_version if lost.is_produced or not kept else 0
        return replace(
            self, version=max(self.version, lost.version), changes=kept + self.changes, produced_version=produced
        )

    def applied_version(self, settings: UserSettings | None) -> int:
        """Return the newest version that the monolith has applied; 0 if it names a version that no change had."""
        applied = settings.preference_version if settings is not None else 0
        return applied if applied <= self.version else 0  # guard: preferences.unknown_version

    def pending(self, settings: UserSettings | None) -> tuple[PreferenceChange, ...]:
        """Return the changes that the monolith has not applied, as far as the directory knows."""
        applied = self.applied_version(settings)
        return tuple(change for change in self.changes if change.version > applied)  # guard: preferences.older_row

    def in_force(self, settings: UserSettings | None) -> list[PreferenceChange]:
        """Return the changes that apply, the oldest first."""
        row = _row_of(settings)
        return [
            change
            for change in sorted(self.pending(settings), key=lambda each: each.version)
            # guard: preferences.opt_in_to_another_row
            if change.wish.is_silence or (change.settings_version, change.settings_generation) == row
        ]

    @property
    def is_produced(self) -> bool:
        """Whether the newest change is on the topic for the monolith."""
        return self.produced_version >= self.version

    @property
    def document(self) -> dict[str, Any]:
        """Return the source of the document in OpenSearch."""
        return {
            "user_id": self.user_id,
            "club_id": self.club_id,
            "version": self.version,
            "is_produced": self.is_produced,
            "produced_version": self.produced_version,
            "source": self.source,
            "principal": self.principal,
            "changes": [
                {
                    **(
                        {"quiet_hours": change.wish.setting}
                        if isinstance(change.wish, QuietHoursWish)
                        else change.wish._asdict()
                    ),
                    "version": change.version,
                    "settings_version": change.settings_version,
                    "settings_generation": change.settings_generation,
                    "source": change.source,
                }
                for change in self.changes
            ],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the changes in a document. Raises ValueError if it is malformed."""
        try:
            changes = tuple(_change(each) for each in document["changes"])
            numbers = [document[name] for name in ("user_id", "club_id", "version", "produced_version")]
        except (KeyError, TypeError) as error:
            raise ValueError(f"malformed changes of preferences: {error!r}") from error
        if any(type(number) is not int for number in numbers):
            raise ValueError("malformed changes of preferences: a number was expected")
        user_id, club_id, version, produced = numbers
        return cls(
            user_id=user_id,
            club_id=club_id,
            version=version,
            changes=changes,
            produced_version=produced,
            source=str(document.get("source") or ""),
            principal=str(document.get("principal") or ""),
        )


def with_changes(
    settings: UserSettings | None, document: Mapping[str, Any] | None, user_id: int
) -> UserSettings | None:
    """Return the user settings after the user's changes.

    Args:
        settings: The monolith's row; None if there is none.
        document: The document of the changes; None if there is none. If it is malformed, the user is opted out of all
            that is not mandatory.
        user_id: The user.
    """
    if document is None:
        return settings
    base = settings or UserSettings(user_id=user_id, is_absent=True)
    try:
        changes = PreferenceChanges.read(document).in_force(settings)
    except ValueError:
        return base._replace(channels=_UNREADABLE)  # guard: preferences.malformed_change
    if not changes:
        return settings
    wishes = [change.wish for change in changes]
    channels, categories = after_wishes(
        base.channels, base.categories, [wish for wish in wishes if isinstance(wish, Wish)]
    )
    quiet_hours = base.quiet_hours
    for wish in wishes:
        if isinstance(wish, QuietHoursWish):
            quiet_hours = wish.setting
    # A version is the time of its change.
    changed_at = changes[-1].version
    return base._replace(channels=channels, categories=categories, quiet_hours=quiet_hours, changed_at=changed_at)


def after_wishes(channels: Any, categories: Any, wishes: Sequence[Wish]) -> tuple[Any, Any]:
    """Return the rules for channels and categories after these wishes. Rules that are not JSON objects, and unknown
    names, stay as they are, because they opt out. A wish replaces the rules under all spellings of its names.
    """
    if any(rules is not None and not isinstance(rules, Mapping) for rules in (channels, categories)):
        return channels, categories
    by_channel, by_category = dict(channels or {}), dict(categories or {})
    for category, channel, wanted in wishes:
        if category is None and channel is not None:
            by_channel = _with_rule(by_channel, channel, wanted)
        elif category is not None and channel is None:
            by_category = _with_rule(by_category, category, wanted)
        elif category is not None and channel is not None:
            known = setting_under(by_category, category)
            by_category = _with_rule(by_category, category, _of_channels(known, channel, wanted))
    return by_channel, by_category


def _with_rule(rules: Mapping[str, Any], name: str, setting: Any) -> dict[str, Any]:
    return {**without_spellings(rules, name), name: setting}  # guard: preferences.wish_replaces_other_spellings


def _of_channels(known: Any, channel: str, wanted: bool) -> dict[str, Any]:
    """Return a category's rules by channel after one of them was set."""
    if isinstance(known, Mapping):
        return _with_rule(known, channel, wanted)
    # A rule for the whole category continues to apply to its other channels. Any value but true is an opt-out.
    others = {} if known is None else dict.fromkeys(CHANNELS, known is True)
    return {**others, channel: wanted}


def _change(entry: Mapping[str, Any]) -> PreferenceChange:
    version, settings_version = entry["version"], entry["settings_version"]
    if type(version) is not int or type(settings_version) is not int:
        raise TypeError("version or settings_version")
    return PreferenceChange(
        _quiet_hours(entry["quiet_hours"]) if "quiet_hours" in entry else _wish(entry),
        version,
        settings_version,
        str(entry.get("settings_generation", "")),
        str(entry.get("source") or ""),
    )


def _row_of(settings: UserSettings | None) -> tuple[int, str]:
    """Return the version of the row and its snapshot generation. A row of another one may have the same version."""
    return (settings.version, settings.generation) if settings is not None else (0, "")


def _quiet_hours(setting: Mapping[str, Any] | None) -> QuietHoursWish:
    if setting is None:
        return QuietHoursWish(None, None)
    start, end = setting["start"], setting["end"]
    if not isinstance(start, str) or not isinstance(end, str):
        raise TypeError("quiet_hours")
    return QuietHoursWish(start, end)


def _wish(entry: Mapping[str, Any]) -> Wish:
    category, channel, wanted = entry["category"], entry["channel"], entry["wanted"]
    if not isinstance(wanted, bool):
        raise TypeError("wanted")
    if not isinstance(category, str | None) or not isinstance(channel, str | None):
        raise TypeError("category or channel")
    return Wish(category, channel, wanted)
