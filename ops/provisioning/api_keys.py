"""Lists the API keys that earlier versions have stored: without an entry in the table's index, no list has them, and no
id finds them.
"""

from masscomm.errors import MasscommError
from masscomm.stores.api_keys.dynamodb import ApiKeys
from ops.provisioning import ProvisioningError


def unlisted_keys(keys: ApiKeys) -> list[str]:
    """Return a line of text for each key that is not listed. Raises ProvisioningError."""
    try:
        return [f"list the API key {key.key_id} of {key.name}" for key in keys.unlisted()]
    except MasscommError as error:
        raise ProvisioningError(f"API keys: {error}") from error


def list_keys(keys: ApiKeys) -> None:
    """List each key that is not listed. Raises ProvisioningError."""
    try:
        for key in keys.unlisted():
            keys.list_earlier(key)
    except MasscommError as error:
        raise ProvisioningError(f"API keys: {error}") from error
