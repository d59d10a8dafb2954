"""The environments of examples/, which tests and the capacity model read, whatever an operator has set."""

from infra.cdk.environments import EXAMPLES, environments

# In the order of their budgets.
ENVIRONMENTS = dict(sorted(environments(EXAMPLES).items(), key=lambda each: each[1].budget_usd))
SMALL, DEV, STAGING, PROD = (ENVIRONMENTS[name] for name in ("small", "dev", "staging", "prod"))
# An environment on the servers of an organisation.
EXISTING = environments(EXAMPLES.parent / "organisation")["existing"]
