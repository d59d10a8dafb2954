"""Programs run with exactly the permissions of their roles: moto refuses each call that no statement permits.

moto enforces the action of each call, and the resource for S3, SQS, IAM and STS only. Statements are therefore attached
for all resources; test_linted_templates and test_documented_limits check the resources of each action.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from masscomm.errors import Stop
from ops.erasure.__main__ import addresses_of
from tests.support.cdk.resolved import REGION
from tests.support.cdk.templates import SynthesisedEnvironment, actions, flat, role_statements

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
# The job of an erasure has further stores: tests/component/erasure executes its calls of DynamoDB.
ERASURE = Program(role="eraserole", prepare=_secret, run=_read_addresses)


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
