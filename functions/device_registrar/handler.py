"""The device_registrar function: it consumes the monolith's devices, registers their SNS endpoints and writes the
index device_state.
"""

from functools import cache
from typing import Any

from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import SnsEndpoints
from functions.device_registrar.register_devices import RegisterDevices
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.kafka import topics
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed

logger = logs.logger("device_registrar")


@cache
def bootstrap() -> tuple[BatchDriver, RegisterDevices]:
    workers = int(environment.number("REGISTRAR_WORKERS", 16))
    applications = {
        "gcm": environment.required("PLATFORM_APPLICATION_ARN_GCM"),
        "apns": environment.required("PLATFORM_APPLICATION_ARN_APNS"),
    }
    use_case = RegisterDevices(
        generations=topics.generations(environment.required("CDC_GENERATION")),
        states=OpenSearchDeviceStates(connect_from_environment()),
        endpoints=SnsEndpoints(applications, connections=workers),
        clock=SystemClock(),
        workers=workers,
    )
    return batch_driver("device_registrar", logger), use_case


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
