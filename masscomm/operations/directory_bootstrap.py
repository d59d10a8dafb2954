"""Builds the directory and the cache of templates of HTTP functions. The client and the compiler are imported at the
first use: a cold start answers sends without them.
"""

from functools import cache
from typing import TYPE_CHECKING

from masscomm.clock import SystemClock

if TYPE_CHECKING:
    from masscomm.directory.port import Directory
    from masscomm.http.unused_content import ContentChecks
    from masscomm.rendering.templates import TemplateCache


@cache
def directory() -> "Directory":
    """Return the directory. Raises Stop if a variable is missing."""
    from masscomm.directory.chosen import directory_from_environment

    return directory_from_environment()


@cache
def templates() -> "TemplateCache":
    """Return the cache of templates, for one thread."""
    from masscomm.rendering.templates import TemplateCache

    return TemplateCache(directory(), SystemClock(), keep_empty=True)


@cache
def content_checks() -> "ContentChecks":
    """Return the checks of content, for the thread of the cache of templates."""
    from masscomm.http.unused_content import ContentChecks

    return ContentChecks(templates())
