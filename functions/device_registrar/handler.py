"""The device_registrar function: it consumes the monolith's devices, registers their SNS endpoints and writes the
index device_state.
"""

from functools import cache
from typing import Any

from functions.device_registrar.device_states import OpenSearchDeviceStates
from functions.device_registrar.endpoints import SnsEndpoints
from functions.device_registrar.register_devices import RegisterDevices
from functions.device_registrar.token_holders import OpenSearchTokenHolders
from masscomm import environment
from masscomm.aws.client import SnsEndpointCalls
from masscomm.aws.request import Limits
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
from masscomm.directory.generations import OpenSearchCreationTimes
from masscomm.kafka import topics
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed

logger = logs.logger("device_registrar")


@cache
def bootstrap() -> tuple[BatchDriver, RegisterDevices]:
    workers = environment.whole_number("REGISTRAR_WORKERS", 16, lowest=1)
    applications = {
        "gcm": environment.required("PLATFORM_APPLICATION_ARN_GCM"),
        "apns": environment.required("PLATFORM_APPLICATION_ARN_APNS"),
    }
    # With two attempts, a single lost connection does not cause a redelivery of the batch.
    limits = Limits(connections=workers, connect_s=2, read_s=5, attempts=2)
    client = connect_from_environment()
    driver = batch_driver("device_registrar", logger, endless=True)
    use_case = RegisterDevices(
        generations=topics.generations(environment.required("CDC_GENERATION")),
        created=OpenSearchCreationTimes(client),
        states=OpenSearchDeviceStates(client),
        holders=OpenSearchTokenHolders(client),
        endpoints=SnsEndpoints(applications, SnsEndpointCalls(limits)),
        publisher=OpenSearchDocumentPublisher(client, driver.codec, driver.producer),
        clock=SystemClock(),
        workers=workers,
    )
    return driver, use_case


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
