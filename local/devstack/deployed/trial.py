"""A trial: one deployment to an empty account and its removal, with a record of the observations. The callers check
the record.

`make deploy-local` prints the problems in it, tests/localstack asserts its values.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg

from examples.monolith.rows import TABLES, active_devices, count
from examples.monolith.seed import BIG_CLUB, create_tables, seed
from local.devstack.config import GENERATION
from local.devstack.demo import provider
from local.devstack.demo.directory import Directory
from local.devstack.demo.oracle import Ask, Expected, World, expect
from local.devstack.demo.waiting import Pending
from local.devstack.deployed.account import Resource, inventory, missing, stack_resources
from local.devstack.deployed.cloud import PREFIX, Cloud
from masscomm.domain.ids import notification_id

USERS = 40
# A category with templates for e-mails, and the number of checks with one user.
SMOKE_CATEGORY = "newsletter"
SMOKE_CHECKS = 4
SEED = 7
TIMEOUT_S = 90.0
# The time-outs of a delayed send: the EventBridge rule triggers once a minute, and the released records take some time.
LATER_S = 5
LATER_TIMEOUT_S = 150.0


class TrialError(Exception):
    """A condition was not met in time; the message names the condition."""


@dataclass(frozen=True)
class Answer:
    """A response of the deployed API."""

    status: int
    body: dict[str, Any]


@dataclass
class Sent:
    """A send through the deployed functions, with the results that the monolith's tables imply."""

    answer: Answer
    expected: Expected
    endpoints: dict[str, str] = field(default_factory=dict)
    # Maps (endpoint, notification id) to the number of times that the push reached SNS.
    pushed: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def must_be_pushed(self) -> Counter[tuple[str, str]]:
        """Return the expected number of pushes: one for each active device of each recipient that must get a push
        according to the oracle.
        """
        send_id = self.answer.body["send_id"]
        return Counter(
            (endpoint, str(notification_id(send_id, int(user), "push"))) for endpoint, user in self.endpoints.items()
        )


@dataclass
class Trial:
    """The results of a trial."""

    seconds: dict[str, float] = field(default_factory=dict)  # The duration of each step in seconds.
    resources: list[Resource] = field(default_factory=list)  # The resources that the deployed stacks list.
    # The resources that the deployed stacks list and that do not exist according to the APIs of their services.
    missing: list[Resource] = field(default_factory=list)
    # The responses to requests that the API must refuse, by the reason.
    refused: dict[str, Answer] = field(default_factory=dict)
    read: Answer | None = None  # The response of the API to a caller that may read metrics.
    now: Sent | None = None  # A send without a delay.
    later: Sent | None = None  # A delayed send, which the scheduler releases.
    # The problem of each check of `masscomm smoke`; empty if it succeeds.
    smoke: dict[str, str] = field(default_factory=dict)
    # The alarms that ring because LocalStack has no data for them.
    without_data: set[str] = field(default_factory=set)
    diff: str = ""  # CDK's diff of the deployed stacks.
    # The resources that the deployment created and that destroying the stacks did not delete, by type.
    remaining: dict[str, set[str]] = field(default_factory=dict)

    @property
    def smoke_problems(self) -> dict[str, str]:
        """Return the checks of `masscomm smoke` that failed for another reason than alarms without data."""
        return {
            check: problem
            for check, problem in self.smoke.items()
            if set(problem.split(", ")) - self.without_data - {""}
        }

    @contextmanager
    def step(self, name: str, report: Callable[[str], None]) -> Iterator[None]:
        """Measure the duration of a step."""
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        report(f"{name}: {self.seconds[name]:.1f} s")


def run(cloud: Cloud, *, whole: bool, report: Callable[[str], None] = lambda _: None) -> Trial:
    """Run a trial: deploy, send, compare, destroy.

    Args:
        cloud: The local account to deploy to.
        whole: Whether to use change sets, and to test the schedule that releases delayed records each minute.
        report: A function that is called with a line of text for each step.

    Raises:
        DeploymentError: A step of the deployment failed.
        TrialError: A condition was not met in time. The clients' exceptions are raised unchanged.
    """
    trial = Trial()
    with trial.step("bootstrap", report):
        cloud.prepare()
        cloud.synthesise()
        cloud.bootstrap()
    before = inventory(cloud.client)
    with trial.step("deploy", report):
        cloud.deploy(change_sets=whole)
    with trial.step("provision", report):
        cloud.provision()
    with trial.step("look", report):
        trial.resources = sorted(stack_resources(cloud.client, PREFIX))
        trial.missing = missing(trial.resources, inventory(cloud.client))
    with cloud.pollers():
        _use(cloud, trial, whole, report)
    with trial.step("diff", report):
        trial.diff = cloud.diff()
    with trial.step("destroy", report):
        cloud.destroy()
    after = inventory(cloud.client)
    trial.remaining = {
        kind: ids - before.get(kind, set()) for kind, ids in after.items() if ids - before.get(kind, set())
    }
    return trial


def _use(cloud: Cloud, trial: Trial, scheduled: bool, report: Callable[[str], None]) -> None:
    with psycopg.connect(cloud.config.database_url("monolith"), autocommit=True) as database:
        with trial.step("directory", report):
            create_tables(database)
            seed(database, USERS, SEED)
            _await_directory(cloud, database)
        key, other = cloud.let_in(str(BIG_CLUB), "2")
        with httpx.Client(base_url=cloud.api_url, timeout=60, trust_env=False) as api:
            ask = Ask(club_id=BIG_CLUB, type="news", to_users=range(1, USERS + 1), channels=("push",))
            body: dict[str, Any] = {
                "type": ask.type,
                "club_id": ask.club_id,
                "to_users": list(ask.to_users),
                "channels": ["push"],
                "data": {"headline": "We won"},
            }
            with trial.step("send", report):
                trial.refused = {
                    "no key": _post(api, body, None),
                    "unknown key": _post(api, body, "nobody's"),
                    "a key of another club": _post(api, body, other),
                }
                if scheduled:
                    at = datetime.now(UTC) + timedelta(seconds=LATER_S)
                    trial.later = _sent(cloud, database, ask, _post(api, body | {"send_at": at.isoformat()}, key))
                trial.now = _sent(cloud, database, ask, _post(api, body, key))
                _await_pushes(cloud, trial.now, TIMEOUT_S)
            hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
            period = {"granularity": "hour", "start": hour.isoformat(), "end": (hour + timedelta(hours=1)).isoformat()}
            trial.read = _answer(api.get("v1/metrics", params=period, headers={"x-api-key": key}))
            if trial.later is not None:
                with trial.step("schedule", report):
                    _await_pushes(cloud, trial.later, LATER_TIMEOUT_S)
        with trial.step("smoke", report):
            cloud.count()
            ask = replace(ask, type=SMOKE_CATEGORY, channels=("email",))
            trial.smoke = cloud.smoke(club=BIG_CLUB, user=_reached(database, ask), kind=SMOKE_CATEGORY)
            trial.without_data = cloud.alarms_without_data()


def _reached(database: psycopg.Connection[Any], ask: Ask) -> int:
    """Return the first user whom a send by e-mail reaches."""
    fates = expect(World.of_database(database), ask).fates
    return next(user for user in ask.to_users if fates[user, "email"] == "sent")


def _post(api: httpx.Client, body: dict[str, Any], key: str | None) -> Answer:
    return _answer(api.post("v1/sends", json=body, headers={} if key is None else {"x-api-key": key}))


def _answer(response: httpx.Response) -> Answer:
    try:
        body = response.json()
    except json.JSONDecodeError:
        body = {"text": response.text}
    return Answer(response.status_code, body)


def _sent(cloud: Cloud, database: psycopg.Connection[Any], ask: Ask, answer: Answer) -> Sent:
    if answer.status != httpx.codes.ACCEPTED:
        raise TrialError(f"POST /v1/sends answered {answer.status}: {answer.body}")
    sent = Sent(answer, expect(World.of_database(database), ask))
    takers = [user for (user, channel), fate in sent.expected.fates.items() if channel == "push" and fate == "sent"]
    devices = active_devices(database, takers)
    directory = Directory(cloud.config.opensearch_url, GENERATION)
    try:
        sent.endpoints = {arn: str(devices[device]) for device, arn in directory.endpoints(devices).items()}
    finally:
        directory.close()
    return sent


def _await_directory(cloud: Cloud, database: psycopg.Connection[Any]) -> None:
    """Wait until OpenSearch has every row of the monolith, and SNS has an endpoint for every device."""
    directory = Directory(cloud.config.opensearch_url, GENERATION)
    rows = {table: count(database, table) for table in TABLES}
    active = list(active_devices(database))
    try:
        _until("the monolith's rows in the directory", lambda: directory.progress(rows), TIMEOUT_S)

        def registered() -> Pending | None:
            found = len(directory.endpoints(active))
            return None if found == len(active) else Pending("endpoints", found, len(active))

        _until("endpoints of every device", registered, TIMEOUT_S)
    finally:
        directory.close()


def _await_pushes(cloud: Cloud, sent: Sent, timeout_s: float) -> None:
    wanted = sent.must_be_pushed
    ids = {notification for _, notification in wanted}

    def taken() -> Pending | None:
        calls = [(call.target, call.notification_id) for call in provider.pushes(cloud.config.aws_url)]
        sent.pushed = Counter(each for each in calls if each[1] in ids)
        return None if not wanted - sent.pushed else Pending("pushes", sent.pushed.total(), wanted.total())

    _until("pushes at SNS", taken, timeout_s)


def _until(condition: str, probe: Callable[[], Pending | None], timeout_s: float) -> None:
    began = time.monotonic()
    while (pending := probe()) is not None:
        if time.monotonic() - began > timeout_s:
            raise TrialError(
                f"{condition}: after {timeout_s:.0f} s {pending.done} of {pending.total} ({pending.missing})"
            )
        time.sleep(0.2)
