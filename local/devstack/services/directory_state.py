"""The directory's state in memory. It runs only if the functions look up there (MASSCOMM_DIRECTORY=state)."""

import sys

from local.devstack.config import StackConfig
from local.devstack.service import Service, function_environment, listens
from local.emulators.local import LOOPBACK


def service(config: StackConfig) -> Service:
    """Return the specification of the service `python -m directory_state`. It is ready to be asked before it has read
    the topics; until then it refuses look-ups.
    """
    return Service(
        name="directory_state",
        command=[sys.executable, "-m", "directory_state"],
        environment={
            **function_environment(config),
            "DIRECTORY_STATE_FOLDER": str(config.data("directory_state")),
            "DIRECTORY_STATE_ADDRESS": f"{LOOPBACK}:{config.ports.directory_state}",
        },
        ports=("directory_state",),
        depends_on=("topics", "schemas"),
        address=config.directory_state_url,
        ready=lambda: listens(config.ports.directory_state),
    )
