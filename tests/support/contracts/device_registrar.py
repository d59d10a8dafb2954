"""The tests that the device registrar's adapters must pass, in memory and real."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest
from mypy_boto3_sns import SNSClient

from functions.device_registrar.device_states import DeviceState, DeviceStates, StatesOfDevice
from functions.device_registrar.endpoints import Endpoints, InvalidToken
from functions.device_registrar.token_holders import Holders, TokenHolders
from masscomm.directory.bulk_writes import Conflict

type Enabled = Callable[[str], bool | None]


class EndpointsContract:
    """Subclasses define the fixtures `endpoints`, `token` (a new device token), `enabled` (returns whether an ARN is
    enabled) and `disable`.
    """

    @pytest.mark.parametrize("platform", ["gcm", "apns"])
    def test_repeated_registration_returns_the_same_endpoint(
        self, endpoints: Endpoints, token: str, enabled: Enabled, platform: str
    ) -> None:
        arn = endpoints.register(platform, token)
        assert enabled(arn) is True
        assert endpoints.register(platform, token) == arn

    def test_a_disabled_endpoint_is_enabled_by_registering(
        self, endpoints: Endpoints, token: str, enabled: Enabled, disable: Callable[[str], None]
    ) -> None:
        arn = endpoints.register("gcm", token)
        # SNS disables an endpoint in this way when the push service rejects its token.
        disable(arn)
        assert enabled(arn) is False
        assert endpoints.register("gcm", token) == arn
        assert enabled(arn) is True

    def test_endpoints_cannot_be_deleted_or_disabled(self, endpoints: Endpoints) -> None:
        assert [name for name in dir(endpoints) if name in ("delete", "disable")] == []

    def test_unknown_platform_is_an_error(self, endpoints: Endpoints, token: str) -> None:
        with pytest.raises(InvalidToken):
            endpoints.register("fax", token)


class SnsEndpointsContract(EndpointsContract):
    """The contract on a server of SNS. Subclasses define the fixtures `client` and `endpoints`."""

    @pytest.fixture
    def token(self) -> str:
        return uuid4().hex

    @pytest.fixture
    def enabled(self, client: SNSClient) -> Enabled:
        def ask(arn: str) -> bool | None:
            try:
                return client.get_endpoint_attributes(EndpointArn=arn)["Attributes"]["Enabled"] == "true"
            except client.exceptions.NotFoundException:
                return None

        return ask

    @pytest.fixture
    def disable(self, client: SNSClient) -> Callable[[str], None]:
        return lambda arn: client.set_endpoint_attributes(EndpointArn=arn, Attributes={"Enabled": "false"}) and None


def state(arn: str | None, version: int, *, enabled: bool = True, generation: str = "g1") -> DeviceState:
    return DeviceState(
        token="t",
        endpoint_arn=arn,
        enabled=enabled,
        reason=None if enabled else "inactive",
        updated_at=1,
        generation=generation,
        row_version=version,
    )


def states_of(*states: DeviceState) -> StatesOfDevice:
    return StatesOfDevice({each.generation: each for each in states})


class TokenHoldersContract:
    """Subclasses define the fixture `holders`, an empty store."""

    def test_written_holders_are_read_at_once(self, holders: TokenHolders) -> None:
        assert holders.read([]) == {}
        none = holders.read(["t", "u" * 5_000])
        assert none == {"t": Holders(), "u" * 5_000: Holders()}
        both = {token: replace(each, device_ids=frozenset({"1", "2"})) for token, each in none.items()}
        assert holders.write(both) == dict.fromkeys(both)
        assert {token: each.device_ids for token, each in holders.read(both).items()} == {
            token: {"1", "2"} for token in both
        }

    def test_changed_holders_are_not_replaced(self, holders: TokenHolders) -> None:
        before = holders.read(["t"])["t"]
        assert holders.write({"t": replace(before, device_ids=frozenset({"1"}))}) == {"t": None}
        for stale in (before, replace(before, device_ids=frozenset({"2"}))):
            assert isinstance(holders.write({"t": stale})["t"], Conflict)
        present = holders.read(["t"])["t"]
        assert holders.write({"t": replace(present, device_ids=frozenset())}) == {"t": None}
        assert isinstance(holders.write({"t": present})["t"], Conflict)
        assert holders.read(["t"])["t"].device_ids == frozenset()


class DeviceStatesContract:
    """Subclasses define the fixture `states`, an empty store."""

    def test_written_device_states_are_read_at_once(self, states: DeviceStates) -> None:
        assert states.read(["1"]) == {}
        assert states.read([]) == {}
        two = states_of(state(None, 6, enabled=False), state("b", 1, generation="g2"))
        assert states.write({"1": states_of(state("a", 5)), "2": two}) == {"1": None, "2": None}
        found = states.read(["2", "1", "3"])
        assert found == {"1": states_of(state("a", 5)), "2": two}
        assert list(found["2"].by_generation) == ["g1", "g2"]

    def test_states_that_have_changed_since_the_read_are_kept(self, states: DeviceStates) -> None:
        states.write({"1": states_of(state("a", 5))})
        read = states.read(["1"])["1"]
        changed = replace(read, by_generation=states_of(state("b", 4)).by_generation)
        assert states.write({"1": changed}) == {"1": None}
        late = states.write({"1": read, "2": states_of(state("c", 1))})
        assert (type(late["1"]), late["2"]) == (Conflict, None)
        assert isinstance(states.write({"2": states_of(state("d", 2))})["2"], Conflict)
        assert {name: each.by_generation["g1"].endpoint_arn for name, each in states.read(["1", "2"]).items()} == {
            "1": "b",
            "2": "c",
        }
