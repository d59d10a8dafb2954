"""The consumer of the example monolith, which writes changed preferences to its tables."""

import sys

from local.devstack.config import StackConfig, example
from local.devstack.service import RunOnce, Service


def service(config: StackConfig) -> Service:
    """Return the specification of the consumer. It listens on no port, and creates a file once it reads the topic."""
    ready = config.data("example_monolith") / "ready"

    def prepare(_: RunOnce) -> None:
        ready.unlink(missing_ok=True)

    return Service(
        name="example_monolith",
        command=[
            sys.executable,
            *("-m", f"examples.{example().name}.apply_preferences"),
            *("--kafka", config.kafka_bootstrap),
            *("--registry", config.registry_url),
            *("--ready-file", str(ready)),
        ],
        # The address contains a password, which a command line would show to every user of the machine.
        environment={"MONOLITH_DATABASE_URL": config.database_url("monolith")},
        depends_on=("topics", "schemas", "monolith"),
        address="topic preference_change",
        prepare=prepare,
        ready=ready.exists,
    )
