"""The synthesised environment whose tasks are started with their deployed settings."""

from tests.support.cdk.fixtures import prod, synthesised

__all__ = ["prod", "synthesised"]
