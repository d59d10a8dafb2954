"""The host of the Lambda functions: each runs under awslambdaric; an event source poller and an HTTP gateway invoke
them.
"""

import json
import sys

from local.devstack.config import GENERATION, ROOT, StackConfig, connector_name
from local.devstack.service import Service, answers, function_environment
from local.emulators.cloudwatch import PATH, PREFIX
from masscomm.stores.api_keys.port import digest_of

# The built web console and the built documentation (local/devstack/setup.py).
CONSOLE = ROOT / "web" / "dist"
DOCS = ROOT / "web" / "dist-docs"
# The interval of the schedule in seconds. EventBridge's shortest interval is a minute, which is long for trials on one
# machine.
SCHEDULE_S = 15.0


def alarm_environment(config: StackConfig) -> dict[str, str]:
    """Return the variables with which functions read the states of the alarms."""
    return {"ALARM_PREFIX": PREFIX, "AWS_ENDPOINT_URL_CLOUDWATCH": f"{config.gateway_url}{PATH}"}


def service(config: StackConfig) -> Service:
    """Return the specification of the host: its gateway listens on `ports.gateway`, the Runtime API on
    `ports.runtime_api`. It starts after every server that the functions call.
    """
    file = config.config_dir("lambda_host") / "config.json"
    content = {
        "functions_file": str(ROOT / "functions" / "functions.yaml"),
        "topics_file": str(ROOT / "schemas" / "topics.yaml"),
        "generation": GENERATION,
        "runtime_api_port": config.ports.runtime_api,
        "gateway_port": config.ports.gateway,
        "environment": function_environment(config) | alarm_environment(config),
        "schedule_s": SCHEDULE_S,
        "bulk_nice": config.bulk_nice,
        "pollers": config.pollers.value,
        "environments": config.environments,
        "development_key": digest_of(config.api_key),
        "console": str(CONSOLE),
        "docs": str(DOCS),
        "connector": f"{config.connect_url}/connectors/{connector_name(GENERATION)}",
        "sign_in": config.gateway_url,
        "log_dir": str(config.state_dir / "logs" / "functions"),
        "job_log": str(config.state_dir / "logs" / "spark.log"),
    }
    return Service(
        name="lambda_host",
        command=[sys.executable, "-m", "local.emulators.lambda_host", "--config", str(file)],
        ports=("gateway", "runtime_api"),
        depends_on=("topics", "schemas", "indices", "tables", "aws", "queues", "endpoints", "sms"),
        address=config.gateway_url,
        files={file: json.dumps(content, indent=2)},
        ready=answers(f"{config.gateway_url}/-/ready"),
    )
