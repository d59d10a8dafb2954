from tests.support.cdk.fixtures import environment, local, prod, replacing, synthesised

__all__ = ["environment", "local", "prod", "replacing", "synthesised"]
