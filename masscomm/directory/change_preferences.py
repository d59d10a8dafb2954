"""Reads and changes the preferences of one user, for preferences_handler, and for receipts, which has answers to SMS.

A change is stored in the directory first, where it applies at once, then published for copies of the directory, then
produced for the monolith. If a function ends before that, sweeps publish and produce the change. A record has every
change that the monolith may not have applied, so that a lost record loses no change.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from masscomm.clock import Clock
from masscomm.directory.document_publisher import DocumentPublisher
from masscomm.directory.find_person import find_person
from masscomm.directory.person import Person
from masscomm.directory.port import Directory
from masscomm.directory.preference_changes import PreferenceChangeStore, StoredChanges
from masscomm.domain.preference_changes import INDEX, SMS, PreferenceChanges, QuietHoursWish, Wish
from masscomm.domain.records import PreferenceChange, PreferenceChanged, QuietHoursChange
from masscomm.domain.sms_answers import SmsAnswer
from masscomm.domain.time_limits import API_FLUSH_S, PREFERENCES_SWEEP_RESERVE_S, PREFERENCES_SWEPT_AFTER_S
from masscomm.domain.users import UserSettings
from masscomm.errors import MasscommError, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.observability import logs
from masscomm.observability.unreadable_items import UnreadableItem, readable, report_unreadable

logger = logs.logger("preferences_handler")

# The number of attempts to store a change if others change the same user's preferences concurrently.
_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class ChangePreferences:
    """The use case. Each function environment has one instance. Methods raise Retry or Stop."""

    directory: Directory
    changes: PreferenceChangeStore
    publisher: DocumentPublisher
    codec: Codec
    producer: Producer
    clock: Clock

    def find(self, user_id: int, clubs: Container[object]) -> Person | None:
        """Return a user of these clubs; None for any other user, known or not."""
        return find_person(self.directory, user_id, clubs, self.clock.now_ms())

    def change(
        self,
        user_id: int,
        clubs: Container[object],
        wishes: Sequence[Wish | QuietHoursWish],
        *,
        source: str,
        principal: str = "",
    ) -> Person | None:
        """Store wishes of a user of these clubs and produce them; None for any other user.

        When the method returns, no decision about a notification is made without them.
        """
        return self._change(user_id, clubs, lambda *_: wishes, source=source, principal=principal)

    def apply_answer(self, user_id: int, clubs: Container[object], answer: SmsAnswer) -> None:
        """Change the preferences of a user of these clubs as STOP or START by SMS wants it. A repetition changes
        nothing.
        """
        self._change(
            user_id,
            clubs,
            lambda changes, settings: changes.wishes_after(answer.word, settings, answer.at_ms),
            source=SMS,
        )

    def _change(
        self,
        user_id: int,
        clubs: Container[object],
        wishes_of: Callable[[PreferenceChanges, UserSettings | None], Sequence[Wish | QuietHoursWish] | None],
        *,
        source: str,
        principal: str = "",
    ) -> Person | None:
        """Store and produce the wishes that a function returns for the user's changes and settings; None: there are
        none.
        """
        for _ in range(_ATTEMPTS):
            users, settings = self.directory.users_and_settings([user_id])
            user = users.get(user_id)
            if user is None or user.club_id not in clubs:  # guard: tenancy.changed_preferences
                return None
            stored = self.changes.read(user_id)
            known = stored.changes if stored is not None else PreferenceChanges(user_id=user_id, club_id=user.club_id)
            wishes = wishes_of(known, settings.get(user_id))
            if wishes is None:
                return self.find(user_id, clubs)
            changed = replace(known, club_id=user.club_id).after(
                wishes, settings.get(user_id), self.clock.now_ms(), source=source, principal=principal
            )
            if self.changes.write(changed, after=stored):
                self.publisher.publish(INDEX, [str(user_id)])  # guard: preferences.published
                for error in self._produce([changed]).values():
                    raise Retry(f"changed preferences could not be produced: {error}") from error
                self._record_produced(changed)
                self.directory.await_changes(user_id, changed.version)  # guard: preferences.applied
                return self.find(user_id, clubs)
        raise Retry(f"the preferences of user {user_id} are changed by other requests at the same time")

    def produce_missing(self, remaining_s: Callable[[], float]) -> int:
        """Produce the changes that a function stored and did not produce. Returns their number.

        Changes that cannot be read or produced are skipped. The next sweep continues where this one has no time left.
        """
        produced = 0
        for page in self.changes.unproduced(self.clock.now_ms() - round(PREFERENCES_SWEPT_AFTER_S * 1000)):
            if remaining_s() < PREFERENCES_SWEEP_RESERVE_S:
                logger.warning("changed preferences are left for the next sweep")
                break
            produced += self._produce_again(list(readable(page, logger)))
        if produced:
            logger.info("changed preferences produced again", users=produced)
        return produced

    def _produce_again(self, several: Sequence[PreferenceChanges]) -> int:
        """Produce the changes of a page. Returns the number of users. Raises Retry if Kafka is down."""
        errors = self._produce(several)
        missing = [changed for changed in several if changed.user_id not in errors]
        for changed in missing:
            self._record_produced(changed)
        for user_id, error in errors.items():
            if isinstance(error, Retry):  # guard: preferences.unproducible_changes
                raise error
            report_unreadable(UnreadableItem(store=INDEX, key={"id": str(user_id)}, error=str(error)), logger)
        return len(missing)

    def _produce(self, several: Sequence[PreferenceChanges]) -> Mapping[int, Exception]:
        """Produce the changes of each user. When the method returns, the broker has all of them, except those with an
        error.

        Returns:
            The error of each user whose changes are not on the topic: Retry, or any other for a permanent fault of the
            changes.

        Raises:
            Retry: The schema registry is down.
            Stop: The schema is not deployed.
        """
        errors: dict[int, Exception] = {}

        def report_for(user_id: int) -> Callable[[Exception | None], None]:
            def report(error: Exception | None) -> None:
                if error is not None:
                    errors[user_id] = error

            return report

        for changed in several:
            try:
                value = self.codec.encode(
                    topics.PREFERENCE_CHANGE, "PreferenceChanged", self._record(changed).to_avro()
                )
            except ValueError as error:
                errors[changed.user_id] = error
                continue
            key = str(changed.user_id).encode()
            self.producer.produce(topics.PREFERENCE_CHANGE, key, value, [], report_for(changed.user_id))
        self.producer.flush(API_FLUSH_S)
        return errors

    def _record(self, changed: PreferenceChanges) -> PreferenceChanged:
        ordered = sorted(changed.changes, key=lambda each: each.version)
        return PreferenceChanged(
            user_id=changed.user_id,
            club_id=changed.club_id,
            version=changed.version,
            timestamp=self.clock.now_ms(),
            source=changed.source,
            principal=changed.principal or None,
            changes=[
                PreferenceChange(**each.wish._asdict(), version=each.version)
                for each in ordered
                if isinstance(each.wish, Wish)
            ],
            # A newer wish about quiet hours has replaced earlier ones.
            quiet_hours=next(
                (
                    QuietHoursChange(**each.wish._asdict(), version=each.version)
                    for each in ordered
                    if isinstance(each.wish, QuietHoursWish)
                ),
                None,
            ),
        )

    def _record_produced(self, changed: PreferenceChanges) -> None:
        """Store that the changes are produced, unless there are newer ones. Best effort: otherwise they are produced
        twice, and the monolith ignores the second record.
        """
        try:
            stored = self.changes.read(changed.user_id)
            if stored is not None and stored.changes.version == changed.version:
                self._write_produced(stored)
        except MasscommError as error:
            logger.warning("changed preferences are produced again later", error=str(error))

    def _write_produced(self, stored: StoredChanges) -> None:
        self.changes.write(replace(stored.changes, produced_version=stored.changes.version), after=stored)
