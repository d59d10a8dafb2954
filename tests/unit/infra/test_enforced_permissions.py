"""Programs run with exactly the permissions of their roles: moto refuses each call that no statement permits.

moto enforces the action of each call, and the resource for S3, SQS, IAM and STS only. Statements are therefore attached
for all resources; test_linted_templates and test_documented_limits check the resources of each action.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core.authorization import enable_iam_authentication
from moto.emrserverless import models
from moto.iam.access_control import IAMRequestBase

from infra.cdk.handlers import keep_job, start_run
from infra.cdk.profiles import ADDRESSES
from infra.provision import check_monolith, provisioning_steps
from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.outcomes import SENT
from masscomm.domain.sends import Send, SendKey, Source, digest_of_users
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry, Stop
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from ops.erasure.__main__ import addresses_of
from ops.erasure.delayed_records import DelayedRecords
from ops.erasure.item_tables import ItemTables
from ops.erasure.person import Person
from ops.erasure.personal_events import EventTables, PersonalEvents
from ops.erasure.schedules import ScheduleItems
from ops.provisioning import SCHEMAS, ProvisioningError
from tests.support.cdk.resolved import REGION
from tests.support.cdk.templates import SynthesisedEnvironment, actions, flat, role_statements
from tests.support.contracts.schedules import WEEKLY
from tests.support.contracts.webhook_dead_letters import letter
from tests.support.contracts.webhook_stores import endpoint

REQUEST: dict[str, Any] = {
    "name": "masscomm-small",
    "executionRoleArn": "arn:aws:iam::123456789012:role/job",
    "jobDriver": {"sparkSubmit": {"entryPoint": "s3://code", "sparkSubmitParameters": "--conf a=1"}},
}
# Actions that no call of the program shows: Lambda and EMR write the log, and moto does not check iam:PassRole.
UNSEEN = {"logs:CreateLogStream", "logs:PutLogEvents", "iam:PassRole"}


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program with a role of its own."""

    # A part of the logical id of its role.
    role: str
    # Creates what the program finds, with all permissions.
    prepare: Callable[[pytest.MonkeyPatch], None]
    run: Callable[[], object]


def _application(monkeypatch: pytest.MonkeyPatch) -> None:
    # By default, moto's runs have ended when they start.
    monkeypatch.setattr(models, "JOB_STATUS", "RUNNING")
    emr = boto3.client("emr-serverless")
    id = emr.create_application(name="masscomm-small-metrics", type="SPARK", releaseLabel="emr-7.0.0")["applicationId"]
    request = REQUEST | {"applicationId": id}
    # A run of a former version, which the keeper cancels.
    emr.start_job_run(clientToken="former", **(request | {"name": "masscomm-small-former"}))
    boto3.client("ssm").put_parameter(Name="/job", Value=json.dumps(request), Type="String")
    monkeypatch.setenv("JOB_PARAMETER", "/job")
    monkeypatch.setenv("RUN_PARAMETER", "/job")
    monkeypatch.setenv("APPLICATION", "masscomm-small-metrics")


def _keep_the_job() -> None:
    assert [keep_job.handler({}, None)["action"] for _ in range(2)] == ["cancelled", "started"]


class _Context:
    aws_request_id = "a-request"


def _start_a_run() -> None:
    start_run.handler({"name": "recompute", "entryPoint": "s3://b/recompute.py", "arguments": []}, _Context())


def _secret(_: pytest.MonkeyPatch) -> None:
    boto3.client("secretsmanager").create_secret(Name=f"masscomm-small/{ADDRESSES}/1", SecretString="ada@example.org")


def _read_addresses() -> None:
    assert addresses_of(f"masscomm-small/{ADDRESSES}/1") == ["ada@example.org"]


PROGRAMS = [
    pytest.param(Program(role="jobkeepjobrole", prepare=_application, run=_keep_the_job), id="keep_job"),
    pytest.param(
        Program(role="runsstartrunrole", prepare=_application, run=_start_a_run),
        id="start_run",
        marks=pytest.mark.nightly,
    ),
]
ERASURE = Program(role="eraserole", prepare=_secret, run=_read_addresses)

TABLES = (
    *("delivery_ledger", "waiting", "sends", "frequency_caps"),
    *("webhook_dead_letters", "webhook_endpoints", "event_types", "categories"),
)
NOW = 1_700_000_000_000
PERSON = Person(user_id=7, club_id=3)


def _items(_: pytest.MonkeyPatch) -> None:
    """Create the tables that an erasure changes, with data of the person in each."""
    client: Any = boto3.client("dynamodb")
    for name in TABLES:
        client.create_table(**json.loads((SCHEMAS / "dynamodb" / f"{name}.json").read_text())["table"])
    # A slice that is too large for one item, whose parts are read, written and deleted one by one.
    answers = tuple(CallResult(target=f"device-{number:060}", message_id=str(number)) for number in range(6_000))
    ledger = DynamoDbDeliveryLedger(table="delivery_ledger", owner="a", clock=FixedClock(), client=client)
    ledger.record("record", [RecipientResult(position=0, user_id=7, decision=SENT, call_results=answers)])
    DynamoDbDelayStore(table="waiting", client=client).put(
        DelayedRecord(id="a", due_ms=NOW, topic="delivery", value=b"of the person", delay_reason="provider"), NOW
    )
    sends = DynamoDbSends(table="sends", client=client)
    message = KeptMessage(type="news", channels=("push",), data={"title": "Hello Ada"}, user_ids=(7,))
    alone = digest_of_users([7])
    sends.register(
        [
            Send(key=SendKey(3, "alone"), source=Source.KAFKA, content="c", recipients=alone),
            Send(key=SendKey(3, "kept"), source=Source.REST, content="c", message=message),
        ]
    )
    places = Change(PlacesKey(3, 7, "a"), StoredPlaces(), {"s#push": NOW}, 100)
    DynamoDbFrequencyCaps(table="frequency_caps", client=client).write([[places]], NOW)
    schedules = DynamoDbSchedules(table="categories", client=client)
    for name, users in (("alone", [7]), ("others", [7, 8])):
        send = {"type": "news", "club_id": 3, "to_users": users}
        schedules.put(replace(WEEKLY, club_id=3, name=name, send=send), None)
    event = replace(letter().event, club_id=3, type="player.hurt", data='{"player":{"id":7}}')
    DynamoDbWebhookDeadLetters(table="webhook_dead_letters", client=client).put([letter(1, event=event)])
    endpoints = DynamoDbWebhookEndpoints(table="webhook_endpoints", client=client)
    endpoints.create(endpoint(EndpointKey(3, f"ep_3_{7:020d}"), contact_user_id=7))


class _Records(DelayedRecords):
    def __init__(self) -> None:
        """Take every record for one of the person."""

    def without(self, *_: Any) -> bytes:
        return b"of nobody"


def _erase_items() -> None:
    client: Any = boto3.client("dynamodb")
    events = PersonalEvents.of_types(DynamoDbEventTypes(table="event_types", client=client).every())
    events = PersonalEvents({**events.paths, "player.hurt": "player.id"})
    tables = ItemTables(
        client,
        ledger="delivery_ledger",
        waiting="waiting",
        sends="sends",
        frequency_caps="frequency_caps",
        records=_Records(),
    )
    webhooks = EventTables(
        client=client, dead_letters="webhook_dead_letters", endpoints="webhook_endpoints", events=events
    )
    scheduled = ScheduleItems(client=client, table="categories")
    erased = [tables.erase_delayed, tables.erase_ledger, tables.erase_sends, tables.erase_caps, scheduled.erase]
    counts = [step(PERSON) for step in (*erased, webhooks.erase_dead_letters, webhooks.erase_contacts)]
    assert counts == [1, 1, 2, 1, 2, 1, 1]


ERASED_ITEMS = Program(role="eraserole", prepare=_items, run=_erase_items)


def _secrets(_: pytest.MonkeyPatch) -> None:
    for name in ("administrator", "registry-user", "registry", "monolith"):
        text = json.dumps({"username": name, "password": "p"})
        boto3.client("secretsmanager").create_secret(Name=name, SecretString=text)


def _provision() -> None:
    """Read every secret that the steps of provisioning read. The steps themselves change servers, not AWS."""
    variables = {
        "REGISTRY_DATABASE_URL": "postgresql://database/registry",
        "REGISTRY_DATABASE_SECRET": "administrator",
        "REGISTRY_USER_SECRET": "registry-user",
        "SCHEMA_REGISTRY_URL": "https://registry",
        "SCHEMA_REGISTRY_SECRET_ARN": "registry",
        "METRICS_DATABASE_URL": "postgresql://database/metrics",
        "METRICS_DATABASE_SECRET": "administrator",
    }
    client: Any = boto3.client
    assert len(provisioning_steps(client, variables, lambda _: pytest.fail("a request is signed"))) == 3
    with pytest.raises(ProvisioningError, match="The secret monolith has no host"):
        check_monolith(client, "monolith", [], "masscomm")


# The policies of the stacks that run the task; the network's stack has its permissions in the directory.
PROVISIONER = Program(role="ExportsOutputRefprovisioner", prepare=_secrets, run=_provision)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_needs_each_action_of_its_role(
    synthesised: dict[str, SynthesisedEnvironment], monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    """Without one action a call is refused, so that the role has none that its program does not need."""
    granted = _granted(synthesised["small"], program.role)
    assert granted >= {"iam:PassRole"}
    _run(program, granted, monkeypatch)
    for action in granted - UNSEEN:
        with pytest.raises(ClientError, match=f"not authorized to perform: {action}"):
            _run(program, granted - {action}, monkeypatch)


def test_erasure_reads_the_addresses_with_its_role(
    synthesised: dict[str, SynthesisedEnvironment], monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = _granted(synthesised["small"], ERASURE.role)
    _run(ERASURE, granted, monkeypatch)
    with pytest.raises(Stop, match="cannot be read"):
        _run(ERASURE, granted - {"secretsmanager:GetSecretValue"}, monkeypatch)


def _of_tables(granted: set[str]) -> set[str]:
    return {action for action in granted if action.startswith("dynamodb:")}


def test_erasure_changes_items_with_its_role(
    synthesised: dict[str, SynthesisedEnvironment], monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(ERASED_ITEMS, _of_tables(_granted(synthesised["small"], ERASED_ITEMS.role)), monkeypatch)


@pytest.mark.nightly
def test_erasure_needs_each_action_on_items(
    synthesised: dict[str, SynthesisedEnvironment], monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = _of_tables(_granted(synthesised["small"], ERASED_ITEMS.role))
    assert granted
    for action in granted:
        with pytest.raises(Retry, match="with 403"):
            _run(ERASED_ITEMS, granted - {action}, monkeypatch)


def test_provisioner_reads_secrets_with_its_role(
    synthesised: dict[str, SynthesisedEnvironment], monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = _granted(synthesised["small"], PROVISIONER.role)
    # Secrets Manager uses the key in its name, which moto does not do.
    assert granted == {"secretsmanager:GetSecretValue", "kms:Decrypt"}
    _run(PROVISIONER, granted, monkeypatch)
    with pytest.raises(ClientError, match="not authorized to perform: secretsmanager:GetSecretValue"):
        _run(PROVISIONER, granted - {"secretsmanager:GetSecretValue"}, monkeypatch)


def _granted(environment: SynthesisedEnvironment, role: str) -> set[str]:
    """Return the actions of a role."""
    return {
        action
        for policy, statement in role_statements(environment)
        if any(role in flat(each) for each in policy.properties.get("Roles", ()))
        for action in actions(statement)
    }


def _run(program: Program, granted: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program as a role with these actions."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_REGION", REGION)
    with mock_aws():
        program.prepare(monkeypatch)
        with _signed_in(granted, monkeypatch):
            program.run()


@contextmanager
def _signed_in(granted: set[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sign in as a role with these actions, which are enforced."""
    statement = {"Effect": "Allow", "Action": sorted(granted), "Resource": "*"}
    trusted = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}
    documents = [json.dumps({"Version": "2012-10-17", "Statement": [each]}) for each in (statement, trusted)]
    iam = boto3.client("iam")
    role = iam.create_role(RoleName="program", AssumeRolePolicyDocument=documents[1])["Role"]["Arn"]
    iam.put_role_policy(RoleName="program", PolicyName="granted", PolicyDocument=documents[0])
    credentials = boto3.client("sts").assume_role(RoleArn=role, RoleSessionName="program")["Credentials"]
    with monkeypatch.context() as signed_in, enable_iam_authentication():
        signed_in.setenv("AWS_ACCESS_KEY_ID", credentials["AccessKeyId"])
        signed_in.setenv("AWS_SECRET_ACCESS_KEY", credentials["SecretAccessKey"])
        signed_in.setenv("AWS_SESSION_TOKEN", credentials["SessionToken"])
        # Signatures are not the subject, and moto computes another one for GET requests of emr-serverless.
        signed_in.setattr(IAMRequestBase, "check_signature", lambda _: None)
        # boto3's default session has read the credentials before.
        signed_in.setattr(boto3, "DEFAULT_SESSION", None)
        yield
