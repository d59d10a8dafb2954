"""The cost model has a line for each resource of the templates that is charged while nothing is sent."""

from infra.cdk.examples import ENVIRONMENTS
from lab.capacity.alarms import alarm_metrics
from lab.capacity.costs import (
    CHARGED,
    CONSOLE_RULES,
    FIREWALL_RULES,
    FIREWALLS,
    FREE,
    IDLE_FREE,
    KEYS,
    SECRETS,
    a_month,
)
from lab.capacity.plan import Plan
from tests.support.cdk.templates import SynthesisedEnvironment, alarm_metrics_of


def test_each_charged_resource_has_a_line(environment: SynthesisedEnvironment) -> None:
    lines = {cost.component for cost in a_month(Plan.of(ENVIRONMENTS[environment.name]))}
    types = {each.type for each in environment.resources() if each.type.startswith("AWS::")}
    assert types
    unknown = {each for each in types - CHARGED.keys() - FREE if each.split("::")[1] not in IDLE_FREE}
    assert unknown == set()
    assert {CHARGED[each] for each in types & CHARGED.keys()} <= lines


def test_each_line_with_a_charge_has_a_resource(environment: SynthesisedEnvironment) -> None:
    """Custom metrics belong to no resource. MSK and ECS publish them, and the functions."""
    charged = {cost.component for cost in a_month(Plan.of(ENVIRONMENTS[environment.name])) if cost.dollars > 0} - {
        "custom metrics"
    }
    types = {each.type for each in environment.resources()}
    # Kafka Connect in a task has no other resource than a service.
    assert charged - {CHARGED[each] for each in types & CHARGED.keys()} <= {"change data capture (Kafka Connect)"}


def test_counted_resources_are_the_deployed_ones(environment: SynthesisedEnvironment) -> None:
    configured = ENVIRONMENTS[environment.name]
    acls = [each.properties["Rules"] for each in environment.resources("AWS::WAFv2::WebACL")]
    rules = FIREWALL_RULES + (configured.console is not None) * CONSOLE_RULES
    assert (len(acls), sum(map(len, acls))) == ((FIREWALLS, rules) if configured.api.firewall else (0, 0))
    assert len(list(environment.resources("AWS::KMS::Key"))) == KEYS
    # The monolith's is made by hand.
    assert len(list(environment.resources("AWS::SecretsManager::Secret"))) + 1 == SECRETS
    assert alarm_metrics(configured) == alarm_metrics_of(environment)
