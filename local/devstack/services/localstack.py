"""LocalStack without Docker: SNS, SQS, S3, KMS, EventBridge, STS, and DynamoDB with our own DynamoDBLocal.

For a trial deployment, it also runs the services that CloudFormation uses, and plug-ins that run the functions.
"""

import shutil
import stat
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from local.devstack import process
from local.devstack.config import ROOT, StackConfig
from local.devstack.service import RunOnce, Service, java, json_at
from local.devstack.setup import JARS, LAUNCHERS, LOCALSTACK_VENV, SERVICE_CATALOG
from local.emulators.local import LOOPBACK
from local.emulators.localstack_plugins import ENTRY_POINTS, MAIL_VARIABLE

SERVICES = ("sns", "sqs", "s3", "kms", "dynamodb", "events", "sts")
# The AWS services that only a deployment needs.
DEPLOYED = (
    *SERVICES,
    *("apigateway", "cloudformation", "cloudwatch", "ec2", "iam", "lambda", "logs"),
    *("secretsmanager", "ses", "ssm"),
)

# This script replaces the `java` of LocalStack's Java package, which LocalStack would download to start DynamoDBLocal.
# The script ignores LocalStack's choice of jar, agent and heap, listens on the loopback address only, and ends with
# LocalStack. Without the script, DynamoDBLocal would survive a kill of LocalStack.
JAVA_SHIM = """\
#!/bin/sh
while [ "$1" != "-jar" ]; do shift; done
shift 2
exec {child} "$PPID" 9 "" -- {command} LoopbackDynamoDb "$@"
"""


def service(config: StackConfig) -> Service:
    """Return the specification of LocalStack: all AWS APIs are on `ports.localstack`. Its state is in memory, and
    empty at every start.
    """
    return _service(config, SERVICES, {})


def deployable_service(config: StackConfig, *, runtime: Path) -> Service:
    """Return the specification of a LocalStack for deployments, in which functions run as processes.

    CloudFormation reports CREATE_COMPLETE for unknown resource types without creating them. The list of known types
    would be a download, and without it LocalStack accepts either all types or none.

    Args:
        config: The ports and the state folder.
        runtime: A folder with the files of Lambda's runtime.
    """
    plugins = config.config_dir("localstack") / "plugins"
    made = _service(
        config,
        DEPLOYED,
        {
            "PYTHONPATH": f"{ROOT}:{plugins}",
            # LocalStack unzips the function packages in this folder.
            "TMPDIR": str(config.data("localstack") / "tmp"),
            "MASSCOMM_LAMBDA_RUNTIME": str(runtime),
            MAIL_VARIABLE: config.sms_url,
            "LAMBDA_RUNTIME_EXECUTOR": "processes",
            "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",
            "LAMBDA_KEEPALIVE_MS": "600000",
            "CFN_IGNORE_UNSUPPORTED_RESOURCE_TYPES": "1",
        },
    )
    described = plugins / "masscomm_localstack-1.dist-info"
    return replace(
        made,
        files={
            **made.files,
            described / "METADATA": "Metadata-Version: 2.1\nName: masscomm-localstack\nVersion: 1\n",
            described / "entry_points.txt": ENTRY_POINTS,
        },
    )


def _service(config: StackConfig, services: Collection[str], environment: Mapping[str, str]) -> Service:
    root = config.data("localstack")
    library = root / "var" / "lib" / "localstack" / "lib"
    shim = library / "java" / "21" / "bin" / "java"
    dynamodb = java(
        f"-Djava.library.path={JARS}/dynamodb",
        "-cp",
        f"'{LAUNCHERS}:{JARS}/dynamodb/*'",
        heap_mb=128,
    )

    def prepare(_: RunOnce) -> None:
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
        # LocalStack reads its service catalogue at this path, which its container image has. Without the file,
        # LocalStack would build the catalogue.
        library_of_image = root / "usr" / "lib" / "localstack"
        library_of_image.mkdir(parents=True, exist_ok=True)
        (root / "tmp").mkdir(parents=True, exist_ok=True)
        for catalog in Path(SERVICE_CATALOG).rglob("*.dill"):
            shutil.copy(catalog, library_of_image)

    def ready() -> bool:
        if not json_at(f"{config.aws_url}/_localstack/init/ready")["completed"]:
            return False
        health = json_at(f"{config.aws_url}/_localstack/health")["services"]
        return all(health.get(name) in ("running", "available") for name in services)

    return Service(
        name="localstack",
        command=[f"{LOCALSTACK_VENV}/bin/python", "-m", "localstack.runtime.main"],
        environment={
            # With a plain 127.0.0.1, LocalStack would listen on every interface.
            "GATEWAY_LISTEN": f"[::ffff:{LOOPBACK}]:{config.ports.localstack}",
            # A file /.dockerenv would make LocalStack ignore FILESYSTEM_ROOT; the setting overrides it.
            "OVERRIDE_IN_DOCKER": "0",
            "FILESYSTEM_ROOT": str(root),
            "SERVICES": ",".join(services),
            "EAGER_SERVICE_LOADING": "1",
            "STRICT_SERVICE_LOADING": "1",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "DNS_ADDRESS": "0",
            "DYNAMODB_LOCAL_PORT": str(config.ports.dynamodb),
            "DYNAMODB_IN_MEMORY": "1",
            "DYNAMODB_SHARE_DB": "1",
            "PYTHONPATH": "",
            **environment,
        },
        ports=("localstack", "dynamodb"),
        address=config.aws_url,
        files={
            shim: JAVA_SHIM.format(child=f"{sys.executable} -I -S {process.CHILD}", command=" ".join(dynamodb)),
            # LocalStack's installers do nothing if these files exist, so they are created empty.
            library / "dynamodb-local" / "2" / "DynamoDBLocal.jar": "",
        },
        prepare=prepare,
        ready=ready,
        # LocalStack ignores signals while it starts, and has no data to save, so it is killed after 5 seconds.
        stop_timeout_s=5,
    )
