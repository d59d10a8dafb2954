"""What must be inside the servers before the functions run: schemas, indices, tables, and who may use them.

All of it comes from schemas/, and doing it again changes nothing. The devstack does it at each start, `infra.provision`
after a deployment.
"""

from pathlib import Path

import schemas

SCHEMAS = Path(schemas.__file__).parent
TIMEOUT_S = 30


class ProvisioningError(Exception):
    """Something could not be created; the message is the server's own."""
