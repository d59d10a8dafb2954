"""The steps of the demo, from filling the monolith's tables to comparing the metrics."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import psycopg
from rich.text import Text

from cli.client_log import KAFKA_LOGGER
from cli.terminal import Terminal
from examples.monolith import rows
from examples.monolith.emit import Emitter, NotDelivered, Written
from examples.monolith.seed import BIG_CLUB, create_tables, generate, seed, user_ids
from local.devstack.config import GENERATION, ROOT, SMS_FILE
from local.devstack.demo import provider
from local.devstack.demo.api import Api, SendStatus
from local.devstack.demo.directory import Directory, next_minute
from local.devstack.demo.events import EVENTS, HEADLINE, Events
from local.devstack.demo.oracle import CAPPED_CATEGORY, PUT_CATEGORY, PUT_FIELDS, Ask, Expected, World, expect, quiet
from local.devstack.demo.records import (
    MINUTE_MS,
    DeadLettered,
    DeadLetterTail,
    Key,
    OutcomeTail,
    RecordCount,
    RecordsError,
)
from local.devstack.demo.report import Checks, Percentiles, Report, SendRow
from local.devstack.demo.waiting import DemoError, Pending, Waiter
from local.devstack.handle import StackHandle
from local.devstack.services import spark_events
from local.devstack.stack import Stack
from masscomm.domain.categories import CategoryVersion, use_versions
from masscomm.domain.category_versions import version_of
from masscomm.domain.ids import event_send_id, notification_id, send_id_of_record
from masscomm.domain.sms_settings import read_sms
from masscomm.domain.time_limits import CATEGORY_BEGINS_AFTER_S
from masscomm.safe_yaml import parse_yaml
from masscomm_client import ApiError

OUT = ROOT / "out" / "demo.json"
SEED = 7
# The number of latency measurements, of single pushes and of changes of a user setting.
PROBES = 30
FIRST_USERS = 250
USERS_ASKED_OF = 60  # The number of users whose notifications are compared with the API.
SLEEPERS = 20  # The number of users that get quiet hours during the demo.
QUIET_S = 12.0  # The minimum time until the end of the users' quiet hours, in seconds.
FALLING_BACK = 8  # The number of users of each kind in the send with a fallback.
DIGESTED = 8  # The number of users of digests.
PACED = 4  # The number of recipients a minute of a send with a pace.
# The number of users for the single sends, each with an endpoint at the provider.
CHOSEN = 5 + PROBES
# The first user id and the club of users created during the demo; the id is larger than every id of the seed data.
NEWCOMERS, NEWCOMERS_CLUB = 10**15, 3
# A club whose SMS have a sender of their own (examples/monolith/sms.yaml), and its first created user.
OTHER_SENDER_CLUB, OTHER_NEWCOMERS = 4, 2 * 10**15
UNKNOWN_USER = 99_999_999_999
NEWS = "news"
PLAIN_WIDTH = 140
LOGS = ("lambda_host", "spark")

# The key of a row of the metrics over all minutes: (club_id, type, channel, measure).
type Total = tuple[int, str, str, str]


@dataclass(frozen=True)
class Sent:
    """A send that the demo requested."""

    send_id: str
    source: str  # How the send was requested: kafka or rest.
    label: str
    ask: Ask
    expected: Expected  # The results that the oracle expects.


def run_demo(
    stack: StackHandle,
    *,
    users: int = 10_000,
    out: Path = OUT,
    console: Terminal | None = None,
    waits: bool = True,
    own_topics: bool = False,
) -> bool:
    """Run the demo on a running stack; return whether every comparison with the oracle succeeded.

    The demo can be repeated on the same stack. It writes its figures whether it succeeds or not.

    Args:
        stack: The running stack.
        users: The number of recipients of the broadcast.
        out: The file to which the figures are written.
        console: The terminal to print to.
        waits: Whether the demo includes quiet hours, which end within a minute, and a record with an unknown schema
            id, which is retried for 30 s.
        own_topics: Whether the demo's events include those of a topic of the organisation, for which Spark starts.
            A demo on the stack of another process has no events: it cannot end the metrics job.
    """
    console = console or Terminal()
    if not console.is_terminal:
        # A log file has no width, and the default of 80 columns is too narrow for a table.
        console = Terminal(file=console.file, width=PLAIN_WIDTH)
    report, checks = Report(), Checks()
    try:
        with ExitStack() as resources:
            Demo(stack, users, console, report, checks, resources).run(waits=waits, own_topics=own_topics)
        report.ok = not checks.mismatches
    except (
        DemoError,
        ApiError,
        RecordsError,
        NotDelivered,
        provider.ProviderError,
        httpx.HTTPError,
        psycopg.Error,
    ) as e:
        console.failed(f"{type(e).__name__}: {e}")
    stack.memory_mb()
    report.start_s, report.peak_rss_mb = stack.start_s, stack.peak_mb
    if report.sends:
        report.show(console)
    for mismatch in checks.mismatches:
        console.failed(str(mismatch))
    report.write(out)
    verdict = ("Every figure is as computed", "green") if report.ok else ("The demo failed", "red")
    console.print(Text.assemble(verdict, f" ({checks.made} checks). The figures are in {out}."), soft_wrap=True)
    if report.ok:
        console.print("Next: send a message of your own, as docs/quick-start.md shows.")
    return report.ok


class Demo:
    """One run of the demo. It registers its connections with `resources`, which the caller closes."""

    def __init__(
        self,
        stack: StackHandle,
        users: int,
        console: Terminal,
        report: Report,
        checks: Checks,
        resources: ExitStack,
    ) -> None:
        config = stack.config
        self.stack, self.users, self.console, self.report, self.checks = stack, users, console, report, checks
        self.began = time.monotonic()
        self.began_ms = time.time_ns() // 1_000_000
        self.waiter = Waiter(stack, console)
        self.database = resources.enter_context(psycopg.connect(config.database_url("monolith"), autocommit=True))
        self.emitter = resources.enter_context(
            Emitter(config.kafka_bootstrap, config.registry_url, logger=KAFKA_LOGGER)
        )
        self.api = Api(config.gateway_url, config.api_key)
        self.directory = Directory(config.opensearch_url, GENERATION)
        self.outcomes = OutcomeTail(config.kafka_bootstrap, config.registry_url)
        self.dead_letters = DeadLetterTail(config.kafka_bootstrap)
        for each in (self.api, self.directory, self.outcomes, self.dead_letters):
            resources.callback(each.close)
        self.sends: list[Sent] = []
        self.endpoints: dict[int, str] = {}
        # The time from which CAPPED_CATEGORY is valid, in ms since the epoch.
        self.capped_from_ms = 0
        # The phone number of two users, one of them in a club whose SMS have a sender of their own.
        self.phone = f"+49160{self.began_ms // 1000 % 10**7:07d}"
        # The users of digests, and the sends that are collected in them.
        self.readers: list[int] = []
        self.collected: list[Sent] = []
        # Invalid records by the reason for which they are dead-lettered: their values, and their places.
        self.invalid: dict[str, bytes] = {}
        self.poison: dict[str, Written] = {}

    def run(self, *, waits: bool, own_topics: bool) -> None:
        """Run all steps in order. Raises the errors that `run_demo` catches."""
        if self.users < FIRST_USERS:
            raise DemoError(f"The demo needs {FIRST_USERS} users at least, to choose among.")
        # The demo begins with a few users: their pushes reach the provider long before the directory in OpenSearch has
        # all users.
        self._head("1 · First pushes: users reach the directory, messages reach their devices")
        self.fill(FIRST_USERS)
        chosen = self.choose()
        self.first_pushes(chosen[0], chosen[1])
        if waits:
            # Quiet hours are tested early, because the wait for the end of a minute then overlaps with the other steps.
            self.quiet_hours(chosen[5 : 5 + SLEEPERS])
        self._head(f"2 · {self.users:,} users: changed settings, invalid records, a new user, a broadcast")
        self.fill(self.users)
        self.await_same()
        # What takes a minute begins early, so that the wait for it overlaps with the other steps.
        self.put_categories()
        self.collect()
        self.fall_back(chosen[5 + SLEEPERS :])
        owners = self.send_sms()
        self.produce_invalid(unknown_schema=waits)
        self.change_a_setting(chosen[2])
        self.answer_stop()
        self.other_sends(chosen[3])
        self.await_registrar()
        # The new user is created late, because earlier the device registrar would register all other devices first.
        self.send_to_new_user()
        self.password()
        self.minimal_producer()
        self.sms_after_stop(*owners)
        self.report.cdc_ms = self.measure_changes(chosen[4])
        self.report.push_ms = self.measure_pushes(chosen[5:])
        self.broadcast()
        self.capped_sends()
        self.paced_send()
        self.digests()
        self.await_dead_letters()
        self._head("3 · The figures, compared with those computed from the seed data alone")
        self.await_statuses()
        self.compare()
        self.compare_users()
        if isinstance(self.stack, Stack):
            self._head("4 · Events of other systems, at two endpoints and as a push")
            self.report_events(self.stack, chosen[5], own_topics=own_topics)

    def _head(self, title: str) -> None:
        self.console.print(f"\n{title}", style="bold")

    # --- the directory ---

    def fill(self, users: int) -> None:
        """Insert this many users of the large club into the monolith, and wait until the directory has all of them."""
        create_tables(self.database)
        seeded = seed(self.database, users, SEED)
        self.directory.forget_changes()
        counts = ", ".join(f"{seeded.rows[table]:,} {table}" for table in ("users", "user_settings", "devices"))
        self.console.done(f"seeded {counts}", f"{seeded.rows_per_s:,.0f} rows/s")
        counted = {table: rows.count(self.database, table) for table in rows.TABLES}
        self.waiter.until(
            f"{sum(counted.values()):,} rows through Debezium into OpenSearch",
            lambda: self.directory.progress(counted),
            timeout_s=120,
            logs=("connect", *LOGS),
        )

    def await_same(self) -> None:
        """Wait until every document equals its row, and check that the rows are those of the seed data."""
        # From now on, the oracle reads the tables.
        expected = World.of_seed(generate(self.users, SEED)).people
        stored = World.of_database(self.database).people
        self.checks.equal(
            "users in the monolith's tables that are not as the seed has them",
            expected=0,
            got=sum(stored.get(user_id) != person for user_id, person in expected.items()),
        )
        self.waiter.until(
            "each document in OpenSearch equals its row in Postgres",
            lambda: self.directory.differing(self.database),
            timeout_s=60,
            logs=("connect", *LOGS),
            every_s=0.3,
        )

    def choose(self) -> list[int]:
        """Return users for the single sends: they have a registered device and settings, and have not opted out."""
        candidates = rows.users_with_empty_settings(self.database, club_id=BIG_CLUB, up_to=self.users, limit=CHOSEN * 4)
        devices = self._active_devices(candidates)
        found: list[int] = []

        def registered() -> Pending | None:
            self._learn_endpoints([device for owned in devices.values() for device in owned])
            found[:] = [user for user in candidates if all(device in self.endpoints for device in devices[user])]
            return None if len(found) >= CHOSEN else Pending("endpoints of the first devices", len(found), CHOSEN)

        self.waiter.until("the first devices have their endpoints", registered, timeout_s=90, logs=LOGS)
        return found[:CHOSEN]

    def _active_devices(self, users: Sequence[int]) -> dict[int, list[int]]:
        owned: dict[int, list[int]] = {user_id: [] for user_id in users}
        for device_id, user_id in rows.active_devices(self.database, users).items():
            owned[user_id].append(device_id)
        return owned

    def _learn_endpoints(self, devices: Sequence[int]) -> None:
        self.endpoints |= self.directory.endpoints([device for device in devices if device not in self.endpoints])

    def await_registrar(self) -> None:
        """Wait until every active device has its endpoint; otherwise the broadcast would wait for endpoints inside
        the functions.
        """
        devices = list(rows.active_devices(self.database))

        def registered() -> Pending | None:
            self._learn_endpoints(devices)
            done = sum(device in self.endpoints for device in devices)
            return None if done == len(devices) else Pending("endpoints", done, len(devices))

        self.waiter.until(
            f"{len(devices):,} devices have their endpoints", registered, timeout_s=240, logs=LOGS, every_s=0.5
        )

    # --- the sends ---

    def by_kafka(self, label: str, ask: Ask, **options: Any) -> Sent:
        """Request a send through Kafka, as the monolith does."""
        expected = expect(World.of_database(self.database), ask)
        send_id = self.emitter.send(ask.type, ask.club_id, ask.to_users, channels=list(ask.channels), **options)
        return self._remember(Sent(send_id, "kafka", label, ask, expected))

    def by_rest(self, label: str, ask: Ask, **options: Any) -> Sent:
        """Request a send through the REST API."""
        expected = expect(World.of_database(self.database), ask)
        channels = {"channels": list(ask.channels)} if ask.channels else {}
        request = {"type": ask.type, "club_id": ask.club_id, "to_users": list(ask.to_users), **channels, **options}
        return self._remember(Sent(self.api.send(**request)["send_id"], "rest", label, ask, expected))

    def _remember(self, sent: Sent) -> Sent:
        self.sends.append(sent)
        return sent

    def await_outcomes(self, sent: Sent, label: str, timeout_s: float = 60, *, quiet: bool = False) -> float:
        """Wait until every notification of a send has an outcome; return the seconds."""

        def accounted() -> Pending | None:
            done = self.outcomes.accounted(sent.send_id)
            total = sent.expected.requested
            return None if done >= total else Pending("outcomes", done, total)

        return self.waiter.until(
            label, accounted, timeout_s=timeout_s, logs=LOGS, every_s=0.005 if quiet else 0.05, quiet=quiet
        )

    def first_pushes(self, by_kafka: int, by_rest: int) -> None:
        """Request one push by REST and one by Kafka, and wait until the provider has accepted both."""
        for label, ask_for, user_id in (
            ("one push from the monolith", self.by_kafka, by_kafka),
            ("one push by REST", self.by_rest, by_rest),
        ):
            headline = f"We won, {user_id}!"
            sent = ask_for(label, Ask(club_id=BIG_CLUB, type=NEWS, to_users=[user_id]), data={"headline": headline})
            wanted = notification_id(sent.send_id, user_id, "push")
            seen: list[provider.Call] = []
            endpoints = [self.endpoints[device] for device in self._active_devices([user_id])[user_id]]

            def taken(
                seen: list[provider.Call] = seen, endpoints: list[str] = endpoints, wanted: str = wanted
            ) -> Pending | None:
                calls = [call for arn in endpoints for call in provider.pushes_to(self.stack.config.aws_url, arn)]
                own = [call for call in calls if isinstance(call, provider.Call)]
                seen[:] = [call for call in own if call.notification_id == wanted]
                return None if len(seen) >= len(endpoints) else Pending("the push at the provider")

            self.waiter.until(f"{label} is at the provider: “{headline}”", taken, timeout_s=60, logs=LOGS, every_s=0.02)
            self.checks.equal(f"{label}: its title", expected={headline}, got={call.title for call in seen})
        self.console.print(f"first pushes {time.monotonic() - self.began:.1f} s after the demo began", style="dim")

    def quiet_hours(self, sleepers: Sequence[int]) -> None:
        """Give users quiet hours that end soon: their news is held until then, and a one-time password is not."""
        ends = self._go_to_sleep(sleepers)
        sent = self.by_kafka("in quiet hours, held", Ask(club_id=BIG_CLUB, type=NEWS, to_users=sleepers))
        ask = Ask(club_id=BIG_CLUB, type="one_time_password", to_users=sleepers[:1])
        password = self.by_kafka("password in quiet hours", ask, critical=True, data={"code": "314159"})
        took = self.await_outcomes(password, "a password in quiet hours", quiet=True)
        self.await_outcomes(sent, f"{len(sleepers)} users in their quiet hours are held")
        listed = Counter(
            (result["status"], str(result["rule"]).split()[0])
            for record in self.outcomes.of(sent.send_id)
            for result in record["results"]
            for _ in range(result["count"])
        )
        self.checks.equal("in quiet hours", expected={("held", "quiet_hours"): len(sleepers)}, got=dict(listed))
        statuses = [record["results"][0]["status"] for record in self.outcomes.of(password.send_id)]
        self.checks.equal("password in quiet hours: outcome", expected=["sent"], got=statuses)
        self.console.print(f"a one-time password for one of them did not wait ({took * 1000:,.0f} ms)", style="dim")
        self._check_held(sent, ends)
        # The quiet hours are removed again, so that later sends are not held.
        self._set_quiet_hours(sleepers, None)

    def _go_to_sleep(self, sleepers: Sequence[int]) -> datetime:
        """Set quiet hours that end with a whole minute, wait until the directory in OpenSearch has them, and return
        their end.
        """
        while True:
            ends = next_minute(QUIET_S)
            self._set_quiet_hours(sleepers, ends)
            if time.time() < ends.timestamp() - QUIET_S / 2:
                return ends

    def _set_quiet_hours(self, users: Sequence[int], ends: datetime | None) -> None:
        rows.set_quiet_hours(self.database, users, ends)

        def known() -> Pending | None:
            behind = sum(self.directory.behind(self.database, user_id) is not None for user_id in users)
            return Pending("settings", len(users) - behind, len(users)) if behind else None

        label = "removed their quiet hours" if ends is None else f"set quiet hours until {ends:%H:%M} UTC"
        self.waiter.until(
            f"{len(users)} users {label}: OpenSearch has the change",
            known,
            timeout_s=20,
            logs=("connect", *LOGS),
            every_s=0.05,
        )

    def _check_held(self, sent: Sent, ends: datetime) -> None:
        """Check the counts in the API during quiet hours. The check is skipped if the metrics appear only after quiet
        hours.
        """
        while time.time() < ends.timestamp():
            status = self.api.status(sent.send_id)
            if status is not None and status.held:
                got = (status.held, status.in_flight, status.sent)
                self.checks.equal("held, in flight, sent", expected=(len(sent.expected.held),) * 2 + (0,), got=got)
                self.console.done(f"the API counts {status.held} users as held")
                return
            time.sleep(0.2)

    def change_a_setting(self, user_id: int) -> None:
        """Opt a user out of the news in the monolith, and in again; check that the sends after each change follow
        the setting.
        """
        ask = Ask(club_id=BIG_CLUB, type=NEWS, to_users=[user_id])
        for wanted, label in ((False, "after opting out"), (True, "after opting in again")):
            rows.set_category(self.database, user_id, NEWS, wanted=wanted)
            self.waiter.until(
                f"user {user_id} {'wants' if wanted else 'does not want'} the news: OpenSearch has the change",
                lambda: self.directory.behind(self.database, user_id),
                timeout_s=20,
                logs=("connect", *LOGS),
                every_s=0.005,
            )
            # The demo waits for each outcome before the next change, because the setting at the time of the decision
            # applies.
            self.await_outcomes(self.by_kafka(label, ask), f"{label}: the outcome is emitted")

    def send_to_new_user(self) -> None:
        """Create a user and send to the user at once: the send waits until the directory in OpenSearch has the user,
        who then gets the message.
        """
        user_id = NEWCOMERS + self.began_ms  # Each run creates another user.
        rows.create_user(self.database, user_id, NEWCOMERS_CLUB)
        self.by_kafka("a user created this moment", Ask(club_id=NEWCOMERS_CLUB, type=NEWS, to_users=[user_id]))

    def other_sends(self, registered: int) -> None:
        """Send an e-mail to some users, and a push whose recipients include users that must be suppressed."""
        self.by_rest("newsletter by e-mail", Ask(club_id=BIG_CLUB, type="newsletter", to_users=range(1, 31)))
        world = World.of_database(self.database)
        stranger = world.members(BIG_CLUB + 1)[0]
        deviceless = next(
            user
            for user, person in world.people.items()
            if person.club_id == BIG_CLUB and not person.active_devices and not (person.channels or person.categories)
        )
        self.by_rest(
            "recipients that must be suppressed",
            Ask(club_id=BIG_CLUB, type=NEWS, to_users=[registered, stranger, UNKNOWN_USER, deviceless, registered]),
        )

    def put_categories(self) -> None:
        """Put two categories, and send in the first one by REST at once; they are valid a minute later. A repeated demo
        changes nothing of the first one, and its send has the channels of the version that is valid.
        """
        # A repeated demo counts in another group.
        cap: dict[str, Any] = {"limit": 1, "window": "24h", "group": f"demo-{self.began_ms}"}
        versions: dict[str, list[CategoryVersion]] = {}
        put: dict[str, Any] = {PUT_CATEGORY: PUT_FIELDS, CAPPED_CATEGORY: {**PUT_FIELDS, "caps": [cap]}}
        for name, fields in put.items():
            stored = self.api.set_category(name, **fields)["versions"][0]
            self.capped_from_ms = round(datetime.fromisoformat(str(stored["valid_from"])).timestamp() * 1000)
            versions[name] = [version_of({**fields, "from_ms": self.capped_from_ms}, name)]
        # This process counts the requested notifications of the records, too.
        use_versions(versions)
        ask = Ask(club_id=BIG_CLUB, type=PUT_CATEGORY, to_users=range(31, 61))
        self.by_rest("a category put this moment", ask, data={"title": "Season tickets", "body": "They are here."})

    def capped_sends(self) -> None:
        """Send twice in a category of which a user gets one send, over two channels: the second send is refused to
        those who got the first.
        """
        self.waiter.until(
            f"the category {CAPPED_CATEGORY} is valid, with its frequency cap",
            lambda: None if time.time_ns() // 1_000_000 >= self.capped_from_ms else Pending("seconds", 0, 1),
            timeout_s=CATEGORY_BEGINS_AFTER_S + 10,
            logs=(),
        )
        world = World.of_database(self.database)
        # Users without a device get their place back later; quiet hours hold others.
        now = datetime.now(UTC)
        awake = [user for user in world.members(BIG_CLUB)[60:] if not quiet(world.people[user], now)]
        fates = expect(world, Ask(club_id=BIG_CLUB, type=CAPPED_CATEGORY, to_users=awake[:300])).fates
        reached = [user for user in awake[:300] if {fates[user, "push"], fates[user, "email"]} <= {"sent", "opted_out"}]
        texts = {"title": "The club shop", "body": "New scarves."}
        for label, is_capped in (("first send under a cap", False), ("second send under a cap, refused", True)):
            ask = Ask(club_id=BIG_CLUB, type=CAPPED_CATEGORY, to_users=reached[:30], is_capped=is_capped)
            self.await_outcomes(self.by_rest(label, ask, data=texts), f"{label}: outcomes are emitted")

    def collect(self) -> None:
        """Send twice, so that each user gets both in the message of a digest a minute later."""
        self.readers = self._reachable(DIGESTED)
        digest = {"template": "news_digest", "window": "1m", "key": "run"}
        for number in range(2):
            ask = Ask(club_id=BIG_CLUB, type=NEWS, to_users=self.readers, channels=["push"], is_collected=True)
            data = {"headline": f"Story {number + 1}", "run": str(self.began_ms)}
            self.collected.append(self.by_rest("collected in digests", ask, data=data, digest=digest))

    def fall_back(self, registered: Sequence[int]) -> None:
        """Send by push, and by e-mail to users who cannot get it; the e-mails of others end a minute later."""
        world, now = World.of_database(self.database), datetime.now(UTC)
        awake = [user for user in world.members(BIG_CLUB)[60:] if not quiet(world.people[user], now)]
        without = (user for user in awake if not world.people[user].active_devices)
        opted_out = (user for user in awake if world.people[user].channels.get("push") is False)
        kinds = (registered, without, opted_out)
        users = list(dict.fromkeys(user for kind in kinds for user in islice(kind, FALLING_BACK)))
        ask = Ask(club_id=BIG_CLUB, type=PUT_CATEGORY, to_users=users, channels=["push", "email"], falls_back=True)
        channels = ["push", {"channel": "email", "if": "not_sent", "after": "1m"}]
        texts = {"title": "Season tickets", "body": "Yours ends soon."}
        self.by_rest("by e-mail if not by push", ask, channels=channels, data=texts)

    def send_sms(self) -> tuple[int, int]:
        """Create a user in each of two clubs, both with one phone number, and send an SMS to the first one."""
        owners = 3 * NEWCOMERS + self.began_ms, OTHER_NEWCOMERS + self.began_ms
        for user_id, club_id in zip(owners, (NEWCOMERS_CLUB, OTHER_SENDER_CLUB), strict=True):
            rows.create_phone_user(self.database, user_id, club_id, self.phone)
        self._sms("an SMS", NEWCOMERS_CLUB, owners[0])
        return owners

    def answer_stop(self) -> None:
        """Answer STOP to the sender of the SMS, once the provider has it."""
        url = self.stack.config.sms_url

        def taken() -> Pending | None:
            numbers = [call.target for call in provider.texts(url)]
            return None if self.phone in numbers else Pending("the SMS at the provider")

        self.waiter.until("an SMS is at the provider, and is answered by STOP", taken, timeout_s=60, logs=LOGS)
        clubs = read_sms(parse_yaml(SMS_FILE.read_text()))
        provider.stop(url, self.phone, clubs.club(NEWCOMERS_CLUB).senders["DE"].identity)

    def sms_after_stop(self, stopped: int, other: int) -> None:
        """Send SMS to both users after STOP: it applies to the club of its sender alone, and there to mandatory
        categories, too.
        """

        def opted_out() -> Pending | None:
            rules = self.api.preferences(stopped)["effective"]
            wanted = {(each["category"], each["channel"]): each["wanted"] for each in rules}
            return Pending("the opt-out by STOP") if wanted["announcement", "sms"] else None

        self.waiter.until("STOP has opted its user out of SMS", opted_out, timeout_s=60, logs=LOGS)
        self._sms("an SMS after STOP", NEWCOMERS_CLUB, stopped, is_stopped=True)
        self._sms("a password by SMS after STOP", NEWCOMERS_CLUB, stopped, type="one_time_password", is_stopped=True)
        self._sms("an SMS of another tenant after STOP", OTHER_SENDER_CLUB, other)

    def _sms(
        self, label: str, club_id: int, user_id: int, *, type: str = "announcement", is_stopped: bool = False
    ) -> None:
        ask = Ask(club_id=club_id, type=type, to_users=[user_id], channels=["sms"], is_stopped=is_stopped)
        self.by_rest(label, ask, data={"title": "Doors", "body": "Doors open at seven."})

    def _reachable(self, count: int) -> list[int]:
        """Return users who want the news and have a device, and no quiet hours now."""
        world, now = World.of_database(self.database), datetime.now(UTC)
        awake = (user for user in world.members(BIG_CLUB)[60:] if not quiet(world.people[user], now))
        wanting = (user for user in awake if expect(world, Ask(club_id=BIG_CLUB, type=NEWS, to_users=[user])).sent == 1)
        return list(islice(wanting, count))

    def paced_send(self) -> None:
        """Send with a pace, and cancel the send in its first minute: only the recipients of this minute get it."""
        self.waiter.until(
            "a minute has begun",
            lambda: None if time.time() % 60 < 30 else Pending("seconds", 0, 1),
            timeout_s=40,
            logs=(),
        )
        users = self._reachable(3 * PACED)
        ask = Ask(club_id=BIG_CLUB, type=NEWS, to_users=users, channels=["push"], released=PACED)
        sent = self.by_rest("paced, cancelled in its first minute", ask, per_minute=PACED)

        def released() -> Pending | None:
            waiting, got = (self.outcomes.rules(sent.send_id, status) for status in ("scheduled", "sent"))
            return None if len(waiting) + len(got) == len(users) else Pending("outcomes", len(got), PACED)

        self.waiter.until("the recipients of a minute are released", released, timeout_s=25, logs=LOGS, every_s=0.05)
        self.api.cancel(sent.send_id)

    def digests(self) -> None:
        """Wait until the digests have closed, and expect the message of each, which is a send of its own."""
        messages: list[dict[int, str]] = []

        def ended() -> Pending | None:
            messages[:] = [self.outcomes.rules(sent.send_id, "digested") for sent in self.collected]
            done, total = sum(map(len, messages)), len(messages) * len(self.readers)
            return None if done == total else Pending("notifications in digests", done, total)

        self.waiter.until("digests of two sends have closed", ended, timeout_s=180, logs=LOGS, every_s=0.2)
        self.checks.equal("digests of both sends", expected=messages[0], got=messages[1])
        self.checks.equal("users with a digest", expected=sorted(self.readers), got=sorted(messages[0]))
        world = World.of_database(self.database)
        for user_id, rule in messages[0].items():
            ask = Ask(club_id=BIG_CLUB, type=NEWS, to_users=[user_id], channels=["push"])
            self.sends.append(
                Sent(rule.removeprefix("digest "), "rest", "message of a digest", ask, expect(world, ask))
            )

    def password(self) -> None:
        """Send a message of a mandatory category, in the critical lane, to a user who opted out of pushes."""
        world = World.of_database(self.database)
        silent = next(
            user
            for user in world.members(BIG_CLUB)
            if world.people[user].channels.get("push") is False and world.people[user].active_devices
        )
        ask = Ask(club_id=BIG_CLUB, type="one_time_password", to_users=[silent])
        self.by_kafka("password, critical, opted out or not", ask, critical=True, data={"code": "271828"})

    def produce_invalid(self, *, unknown_schema: bool) -> None:
        """Produce invalid records, and request an invalid send: it must be refused with the name of the field."""
        self.invalid = {"undecodable": b"this is no Avro"}
        if unknown_schema:
            self.invalid["unknown_schema"] = b"\x00" + (2**31 - 1).to_bytes(4, "big") + b"whatever"
        self.poison = {reason: self.emitter.send_bytes(value) for reason, value in self.invalid.items()}
        status, fields = self.api.refused(type=NEWS, club_id="one", to_users=[1])
        self.checks.equal("a club that is no number, by REST", expected=(400, ["club_id"]), got=(status, fields))

    def await_dead_letters(self) -> None:
        """Wait until the invalid records are dead-lettered, each with its reason."""
        places = {_place(written): reason for reason, written in self.poison.items()}
        letters: dict[str, DeadLettered] = {}

        def dead_lettered() -> Pending | None:
            for letter in self.dead_letters.all():
                if reason := places.get((letter.topic, letter.partition, letter.offset)):
                    letters[reason] = letter
            return None if len(letters) == len(places) else Pending("dead letters", len(letters), len(places))

        label = f"invalid records are dead-lettered: {', '.join(self.poison)}"
        self.waiter.until(label, dead_lettered, timeout_s=60, logs=LOGS)
        for reason, letter in letters.items():
            self.checks.equal(f"poison record ({reason}): reason", expected=reason, got=letter.reason)
            self.checks.equal(f"poison record ({reason}): bytes", expected=self.invalid[reason], got=letter.value)

    def minimal_producer(self) -> None:
        """Produce a send that has only four fields: its id is derived from the record's position."""
        world = World.of_database(self.database)
        ask = Ask(club_id=BIG_CLUB + 1, type=NEWS, to_users=world.members(BIG_CLUB + 1))
        written = self.emitter.send_minimal(ask.type, ask.club_id, ask.to_users)
        send_id = send_id_of_record(written.topic, written.partition, written.offset, written.timestamp)
        self._remember(Sent(send_id, "kafka", "a small club, four fields", ask, expect(world, ask)))

    def report_events(self, stack: Stack, fan: int, *, own_topics: bool) -> None:
        """Report events by an outbox, incoming webhooks and a topic: they arrive at two endpoints, and one becomes a
        push. The metrics job, whose figures are compared by now, ends: more processes would need more memory.
        """
        events = Events(api=self.api, checks=self.checks, name=f"demo-{self.began_ms}")
        stack.kill("spark")
        with ExitStack() as resources:
            resources.callback(stack.restart, "spark")
            for each in events.receivers:
                resources.enter_context(each.serving())
            resources.enter_context(events.subscribed())
            rule = resources.enter_context(events.rule(NEWS))
            goal = events.insert(self.database, fan)
            events.post()
            label = f"{len(events.expected)} events of an outbox and of incoming webhooks are at both endpoints"
            self.waiter.until(label, events.missing, timeout_s=60, logs=LOGS)
            self._await_goal(notification_id(event_send_id(BIG_CLUB, goal, rule), fan, "push"), fan)
            if own_topics:
                self._own_topic(stack, events)
            events.check()

    def _await_goal(self, wanted: str, fan: int) -> None:
        """Wait until each device of a user has the push of an event, and check that it has one."""
        endpoints = [self.endpoints[device] for device in self._active_devices([fan])[fan]]
        titles: dict[str, list[str | None]] = {}

        def taken() -> Pending | None:
            for arn in endpoints:
                calls = provider.pushes_to(self.stack.config.aws_url, arn)
                own = [call for call in calls if isinstance(call, provider.Call) and call.notification_id == wanted]
                titles[arn] = [call.title for call in own]
            return None if all(titles.values()) else Pending("the push of an event at the provider")

        self.waiter.until("an event is a push at the provider", taken, timeout_s=60, logs=LOGS)
        self.checks.equal("the push of an event", expected={arn: [HEADLINE] for arn in endpoints}, got=titles)

    def _own_topic(self, stack: Stack, events: Events) -> None:
        """Run the job of own topics until the records of a new topic have arrived."""
        stack.known["spark_events"] = spark_events.service(stack.config, events.order_topic(stack.config))
        stack.restart("spark_events")
        try:
            label = f"{EVENTS} records of a topic of its own are at both endpoints"
            self.waiter.until(label, events.missing, timeout_s=90, logs=("spark_events", *LOGS))
        finally:
            stack.kill("spark_events")

    def broadcast(self) -> None:
        """Send a broadcast to the whole large club, in chunks."""
        ask = Ask(club_id=BIG_CLUB, type=NEWS, to_users=user_ids(BIG_CLUB, self.users))
        sent = self.by_kafka("broadcast", ask, data={"headline": "Season tickets are here"})
        ended = f"broadcast to {self.users:,}: every recipient has an outcome"
        seconds = self.await_outcomes(sent, ended, timeout_s=300)
        self.console.print(
            f"{self.users / seconds:,.0f} recipients/s: all servers and the provider (LocalStack) share this machine."
            " docs/internals/benchmarks.md has the rates with a faster provider.",
            style="dim",
        )

    # --- the figures ---

    def measure_changes(self, user_id: int) -> Percentiles:
        """Return the latency of changes of one user's settings, which are made one after another."""
        return Percentiles.of(
            [self.directory.change_latency_ms(self.database, user_id, round_) for round_ in range(PROBES)]
        )

    def measure_pushes(self, users: Sequence[int]) -> Percentiles:
        """Return the latency of single pushes by Kafka, one after another: from the request's timestamp to the
        outcome's.

        LocalStack stores no time with a push; the delivery function writes the outcome's timestamp after the provider's
        response.
        """
        # Wait for all earlier sends, because their notifications would delay the measured pushes.
        for sent in self.sends:
            self.await_outcomes(sent, f"the end of “{sent.label}”", quiet=True)
        took = []
        for user_id in users:
            sent = self.by_kafka("single push, for its latency", Ask(club_id=BIG_CLUB, type=NEWS, to_users=[user_id]))
            self.await_outcomes(sent, "a single push", quiet=True)
            record = self.outcomes.of(sent.send_id)[-1]
            took.append(float(record["timestamp"] - record["requested_at"]))
        return Percentiles.of(took)

    def await_statuses(self) -> None:
        """Wait until the metrics contain every send and no notification in flight."""
        statuses: dict[str, SendStatus] = {}

        def settled() -> Pending | None:
            for sent in self.sends:
                if sent.send_id not in statuses:
                    status = self.api.status(sent.send_id)
                    if status and status.in_flight == 0 and status.requested >= sent.expected.requested:
                        statuses[sent.send_id] = status
            if len(statuses) == len(self.sends):
                return None
            missing = next(sent.label for sent in self.sends if sent.send_id not in statuses)
            return Pending(f"the end of “{missing}” in the metrics", len(statuses), len(self.sends))

        try:
            self.waiter.until(
                f"the metrics have counted all {len(self.sends)} sends", settled, timeout_s=90, logs=LOGS, every_s=0.3
            )
        except DemoError as error:
            # The demo continues, because the table with the progress of every send shows more than this error.
            self.console.print(str(error), style="red", soft_wrap=True)
        calls = self._provider_calls()
        for sent in self.sends:
            status = statuses.get(sent.send_id) or self.api.status(sent.send_id) or SendStatus(0, {}, 0, 0, 0)
            found = calls[sent.send_id]
            duplicates = found.total() - len(found)
            self.report.sends.append(
                SendRow(sent.send_id, sent.source, sent.label, status, sent.expected, found.total(), duplicates)
            )
            self._check(sent, status, found)

    def _provider_calls(self) -> dict[str, Counter[tuple[str, str]]]:
        """Return, for each send, how often the provider accepted each (notification, target)."""
        of_send = {
            notification_id(sent.send_id, user_id, channel): sent.send_id
            for sent in self.sends
            for user_id, channel in sent.expected.fates
        }
        found: dict[str, Counter[tuple[str, str]]] = {sent.send_id: Counter() for sent in self.sends}
        for call in provider.calls(self.stack.config.aws_url, self.stack.config.sms_url):
            if call.notification_id in of_send:
                found[of_send[call.notification_id]][call.notification_id, call.target] += 1
        return found

    def _check(self, sent: Sent, status: SendStatus, calls: Counter[tuple[str, str]]) -> None:
        expected, name = sent.expected, f"{sent.label} ({sent.send_id})"
        self.checks.equal(f"{name}: requested", expected=expected.requested, got=status.requested)
        self.checks.equal(f"{name}: suppressed", expected=expected.suppressed, got=status.suppressed)
        self.checks.equal(f"{name}: sent", expected=expected.sent, got=status.sent)
        self.checks.equal(f"{name}: failed", expected=0, got=status.failed)
        self.checks.equal(f"{name}: cancelled", expected=expected.cancelled, got=status.cancelled)
        self.checks.equal(f"{name}: in flight", expected=0, got=status.in_flight)
        self.checks.equal(f"{name}: distinct provider calls", expected=expected.provider_calls, got=len(calls))
        must = {notification_id(sent.send_id, *who) for who, fate in expected.fates.items() if fate == "sent"}
        wrong = must ^ {notification for notification, _ in calls}
        self.checks.equal(f"{name}: notifications at the provider that differ", expected=0, got=len(wrong))

    def compare(self) -> None:
        """Compare the metrics by minute with a plain count over the topics, and that count with the oracle."""
        count = RecordCount(self.stack.config.kafka_bootstrap, self.stack.config.registry_url)
        since = self.began_ms // MINUTE_MS * MINUTE_MS
        metrics: dict[Key, int] = {}
        counted: dict[Key, int] = {}

        def same() -> Pending | None:
            nonlocal metrics, counted
            counted = {key: number for key, number in count.update().items() if key[0] >= since}
            metrics = self.api.counts(since)
            differing = [key for key in counted.keys() | metrics.keys() if counted.get(key) != metrics.get(key)]
            return Pending(f"{len(differing)} rows by minute, e.g. {differing[0]}") if differing else None

        try:
            self.waiter.until(
                "the metrics by minute equal a plain count over the topics", same, timeout_s=60, logs=LOGS, every_s=0.5
            )
        except DemoError as error:
            self.checks.equal("metrics by minute", expected=counted, got=metrics)
            self.console.print(str(error))
        finally:
            count.close()
        self.report.metrics = metrics
        ours = {sent.send_id for sent in self.sends}
        expected = _totals(self.sends)
        # The metrics include sends of other producers, so the records of these sends are counted and subtracted.
        found: Counter[Total] = Counter()
        for key, number in metrics.items():
            found[key[1:]] += number
        for send_id, counts in count.by_send.items():
            if send_id not in ours:
                for key, number in counts.items():
                    found[key[1:]] -= number if key[0] >= since else 0
        equal = self.checks.equal("metrics, all minutes together", expected=expected, got=+found)
        self.report.metrics_equal = equal and counted == metrics

    def compare_users(self) -> None:
        """Compare single users' notifications in the API with the oracle, for the users with the most sends."""
        fates: dict[int, dict[tuple[str, str], str]] = {}
        for sent in self.sends:
            for (user_id, channel), fate in sent.expected.fates.items():
                fates.setdefault(user_id, {})[sent.send_id, channel] = fate
        ours = {sent.send_id for sent in self.sends}
        for user_id in sorted(fates, key=lambda user: (-len(fates[user]), user))[:USERS_ASKED_OF]:
            listed = {key: fate for key, fate in self.api.fates(user_id).items() if key[0] in ours}
            self.checks.equal(f"what user {user_id} got", expected=fates[user_id], got=listed)
        self.console.done(f"asked the API what each of {USERS_ASKED_OF} users got")


def _place(written: Written) -> tuple[str, int, int]:
    return written.topic, written.partition, written.offset


def _totals(sends: Iterable[Sent]) -> Counter[Total]:
    """Return the expected metrics of these sends, by club, type, channel and measure."""
    totals: Counter[Total] = Counter()
    for sent in sends:
        for channel, counts in sent.expected.by_channel().items():
            for measure, number in counts.items():
                totals[sent.ask.club_id, sent.ask.type, channel, measure] += number
    return +totals
