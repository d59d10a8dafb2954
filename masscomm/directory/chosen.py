"""The directory that the installation has chosen: over OpenSearch by default, or over directory_state."""

from typing import TYPE_CHECKING

from masscomm import environment

if TYPE_CHECKING:
    from masscomm.directory.port import Directory

OPENSEARCH, STATE = "opensearch", "state"


def directory_from_environment() -> "Directory":
    """Return the directory that MASSCOMM_DIRECTORY names. It connects at the first look-up.

    Raises:
        Stop: A variable is missing or invalid.
    """
    # A cold start imports one of them.
    if environment.choice("MASSCOMM_DIRECTORY", (OPENSEARCH, STATE)) == STATE:
        from masscomm.directory.state import StateDirectory

        return StateDirectory.from_environment()
    from masscomm.directory.opensearch import OpenSearchDirectory

    return OpenSearchDirectory.from_environment()
