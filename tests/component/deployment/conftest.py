"""The synthesised environment whose tasks are started as they are deployed."""

from tests.support.cdk.fixtures import prod, synthesised

__all__ = ["prod", "synthesised"]
