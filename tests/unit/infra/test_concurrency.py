"""Callers of the API cannot use up the concurrency of the functions that process records.

Lambda keeps 100 of an account's concurrency unreserved, and refuses a reservation or provisioned concurrency that would
leave less: https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html. Provisioned concurrency of a
function counts towards its reservation, else towards the unreserved rest:
https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html. A Kafka mapping invokes once a partition at a
time, and five times a poller: https://docs.aws.amazon.com/lambda/latest/dg/kafka-scaling-modes.html.
"""

from dataclasses import replace

import pytest

from functions.catalogue import FunctionEntry, read_catalogue
from infra.cdk.concurrency import conflicts, invoked_by_kafka, provisioned, quota_for
from infra.cdk.config import UNRESERVED, ConcurrencyConfig, Environment
from infra.cdk.examples import DEV, ENVIRONMENTS, PROD
from masscomm.domain.limits import COSTLY_REQUESTS
from masscomm.domain.time_limits import GATEWAY_TIMEOUT_S
from masscomm.operations.route_costs import ROUTE_COSTS
from masscomm.stores.request_slots.port import Kind
from tests.support.cdk.templates import SynthesisedEnvironment

NAMES = sorted(ENVIRONMENTS)
# The memory in MB of a function with one whole processor; another function has a share in proportion. Source:
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html.
WHOLE_PROCESSOR_MB = 1_769
# The processor time of a request that runs in an environment of one-time passwords by REST.
LONGEST_OF_SENDS_S = 1.0
# The routes' functions and the authorizer, which is also invoked for unknown keys.
OF_THE_API = {
    "audiences",
    "events_api",
    "metrics_stream",
    "metrics_handler",
    "send_handler",
    "sends_api",
    "sends_stream",
    "previews",
    "preferences_handler",
    "users_stream",
    "operations_handler",
    "key_revocation",
    "authorizer",
}


@pytest.mark.parametrize("name", NAMES)
def test_reserved_concurrency_leaves_lambdas_unreserved_100(name: str) -> None:
    environment = ENVIRONMENTS[name]
    reserved, warm = environment.concurrency.reserved, provisioned(environment)
    of_the_rest = sum(count for function, count in warm.items() if function not in reserved)
    assert sum(reserved.values()) + of_the_rest <= environment.concurrency.account - UNRESERVED
    assert all(warm.get(function, 0) <= most for function, most in reserved.items())


@pytest.mark.guarantee("concurrency.pollers_have_their_share")
@pytest.mark.parametrize("generations", ["g1", "g1,g2"])
@pytest.mark.parametrize("name", NAMES)
def test_unreserved_concurrency_suffices_for_all_pollers(name: str, generations: str) -> None:
    """The account's concurrency suffices for all pollers at once, and 100 remain for all other functions."""
    environment = replace(ENVIRONMENTS[name], generation=generations)
    warm, pollers = provisioned(environment), invoked_by_kafka(environment)
    reserved = environment.concurrency.reserved
    wanted = sum(max(most, warm.get(function, 0)) for function, most in pollers.items() if function not in reserved)
    assert wanted > 100
    assert wanted + UNRESERVED <= environment.concurrency.account - sum(reserved.values())


@pytest.mark.guarantee("api_keys.revocation_waits_for_no_other")
def test_a_function_of_its_own_revokes_keys() -> None:
    found = {entry.name: entry.routes for entry in read_catalogue(generation="any")}
    assert found["key_revocation"] == ("POST /v1/keys/{key_id}/revoke",)
    assert ConcurrencyConfig().reserved["key_revocation"] > 0


def test_every_function_that_callers_invoke_has_a_maximum() -> None:
    with_routes = {entry.name for entry in read_catalogue(generation="any") if entry.routes}
    assert with_routes | {"authorizer"} == OF_THE_API == ConcurrencyConfig().reserved.keys()


@pytest.mark.parametrize("name", ["small", "prod", "local"])
def test_maxima_are_deployed(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    environment = ENVIRONMENTS.get(name, DEV)
    found = {}
    for function in synthesised[name].resources("AWS::Lambda::Function"):
        if "ReservedConcurrentExecutions" in function.properties:
            short = str(function.properties["FunctionName"]).removeprefix(f"masscomm-{name}-")
            found[short] = function.properties["ReservedConcurrentExecutions"]
    assert found == environment.concurrency.reserved


def occupied(environment: Environment, entry: FunctionEntry) -> float:
    """Return the environments of a function that one caller can occupy at a time: all of its slots, and those of its
    other requests of a second.
    """
    costs = [cost for route in entry.routes for cost in ROUTE_COSTS[route_of(route)]]
    kinds = {cost.slots for cost in costs if cost.slots is not None}
    slots = sum(environment.api.open_polls if kind is Kind.POLL else COSTLY_REQUESTS for kind in kinds)
    longest_s = max((cost.worst_s for cost in costs if cost.slots is None), default=0.0)
    return slots + environment.api.rate * longest_s * WHOLE_PROCESSOR_MB / entry.memory_mb


def route_of(text: str) -> tuple[str, str]:
    method, _, path = text.partition(" ")
    return method, path


def test_each_route_of_the_catalogue_has_its_costs() -> None:
    routes = [route_of(route) for entry in read_catalogue(generation="any") for route in entry.routes]
    assert sorted(routes) == sorted(ROUTE_COSTS)
    assert all(costs and len({cost.slots for cost in costs}) == len(costs) for costs in ROUTE_COSTS.values())
    assert {cost.slots for costs in ROUTE_COSTS.values() for cost in costs} == {None, *Kind}


@pytest.mark.guarantee("costly_requests.a_caller_has_half")
@pytest.mark.parametrize("name", NAMES)
def test_one_caller_leaves_half_of_a_function_to_others(name: str) -> None:
    """Whichever requests one caller makes at its rate, the others of its usage plan included."""
    environment = ENVIRONMENTS[name]
    reserved = environment.concurrency.reserved
    with_routes = [entry for entry in read_catalogue(generation="any") if entry.routes]
    assert {entry.timeout_s for entry in with_routes} == {GATEWAY_TIMEOUT_S}
    found = {entry.name: (occupied(environment, entry), reserved[entry.name]) for entry in with_routes}
    assert not {name: each for name, each in found.items() if not 0 < 2 * each[0] <= each[1]}


@pytest.mark.guarantee("costly_requests.a_caller_has_half")
def test_no_costly_request_runs_where_passwords_are_sent() -> None:
    (sends,) = (entry for entry in read_catalogue(generation="any") if entry.name == "send_handler")
    longest_s = {route: max(cost.worst_s for cost in ROUTE_COSTS[route_of(route)]) for route in sends.routes}
    assert all(each <= LONGEST_OF_SENDS_S for each in longest_s.values()), longest_s


@pytest.mark.parametrize("name", NAMES)
def test_quota_of_one_environment_suffices_for_it(name: str) -> None:
    for generations in ("g1", "g1,g2"):
        environment = replace(ENVIRONMENTS[name], generation=generations)
        assert quota_for([environment]) <= environment.concurrency.account


def test_environments_of_one_account_share_its_quota() -> None:
    one = replace(PROD, account="111111111111")
    other = replace(one, name="other", spark=replace(one.spark, daily_runs_hour=5))
    wanted = quota_for([one, other])
    assert wanted == UNRESERVED + 2 * (quota_for([one]) - UNRESERVED) > one.concurrency.account
    (line,) = conflicts([one, other])
    assert line == f"prod, other: 111111111111 in eu-central-1 needs concurrency.account: {wanted}, and has 1300"
    raised = [replace(each, concurrency=replace(each.concurrency, account=wanted)) for each in (one, other)]
    assert list(conflicts(raised)) == []
    (line,) = conflicts([raised[0], replace(other, concurrency=replace(PROD.concurrency, account=wanted + 1))])
    assert "concurrency.account is the quota of 111111111111 in eu-central-1" in line


@pytest.mark.parametrize("changed", [{"account": "222222222222"}, {"region": "eu-west-1"}, {"account": None}])
def test_environments_elsewhere_share_no_quota(changed: dict[str, str | None]) -> None:
    one = replace(PROD, account="111111111111")
    assert len(list(conflicts([one, replace(one, name="other")]))) == 2
    assert list(conflicts([one, replace(one, name="other", **changed)])) == []  # type: ignore[arg-type]


def test_daily_runs_of_an_account_are_at_different_hours() -> None:
    one = replace(DEV, account="111111111111", concurrency=ConcurrencyConfig(account=10_000))
    (line,) = conflicts([one, replace(one, name="other")])
    assert "spark.daily_runs_hour differs" in line
    with pytest.raises(ValueError, match="daily_runs_hour is from 0 to 20"):
        replace(DEV, spark=replace(DEV.spark, daily_runs_hour=21))


def test_config_with_a_refused_reservation_is_rejected() -> None:
    least = sum(ConcurrencyConfig().reserved.values()) + UNRESERVED
    ConcurrencyConfig(account=least)
    with pytest.raises(ValueError, match=f"leave less than 100 of {least - 1}"):
        ConcurrencyConfig(account=least - 1)
    with pytest.raises(ValueError, match="provisioned"):
        replace(DEV, provisioned=DEV.concurrency.send_handler + 1)
