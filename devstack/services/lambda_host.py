"""The function host: every function under awslambdaric, fed by an event source poller and an HTTP gateway."""

import json
import sys

from devstack.service import Service, answers, function_environment
from devstack.settings import GENERATION, ROOT, StackSettings

# EventBridge's shortest is a minute; who tries something on one machine does not want to wait for it.
SCHEDULE_S = 15.0


def service(settings: StackSettings) -> Service:
    """Front door on `ports.gateway`, Runtime API on `ports.runtime_api`; starts when everything it calls is there."""
    config = settings.config("lambda_host") / "config.json"
    content = {
        "functions_file": str(ROOT / "functions" / "functions.yaml"),
        "topics_file": str(ROOT / "schemas" / "topics.yaml"),
        "generation": GENERATION,
        "runtime_api_port": settings.ports.runtime_api,
        "gateway_port": settings.ports.gateway,
        "environment": function_environment(settings),
        "schedule_s": SCHEDULE_S,
        "bulk_nice": settings.bulk_nice,
        "log_dir": str(settings.state_dir / "logs" / "functions"),
    }
    return Service(
        name="lambda_host",
        command=[sys.executable, "-m", "emulators.lambda_host", "--config", str(config)],
        ports=("gateway", "runtime_api"),
        depends_on=("topics", "schemas", "indices", "tables", "aws"),
        address=settings.gateway_url,
        files={config: json.dumps(content, indent=2)},
        ready=answers(f"{settings.gateway_url}/-/ready"),
    )
