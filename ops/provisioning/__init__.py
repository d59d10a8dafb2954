"""Provisions the servers before the functions run: schemas, indices, tables, roles and users.

All definitions come from schemas/. Provisioning is idempotent: the local stack runs it at each start, `infra.provision`
after a deployment.
"""

from pathlib import Path

import schemas

SCHEMAS = Path(schemas.__file__).parent
TIMEOUT_S = 30
# The first snapshot generation of change data capture.
GENERATION = "g1"


class ProvisioningError(Exception):
    """A server refused a step; the message contains its response."""
