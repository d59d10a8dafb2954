"""The tests that the device registrar's adapters must pass, in memory and real."""

from collections.abc import Callable

import pytest

from functions.device_registrar.device_states import DeviceState, DeviceStates
from functions.device_registrar.endpoints import Endpoints, InvalidToken

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


def state(arn: str | None, version: int, *, enabled: bool = True) -> DeviceState:
    return DeviceState(
        token="t",
        endpoint_arn=arn,
        enabled=enabled,
        reason=None if enabled else "inactive",
        version=version,
        updated_at=1,
    )


class DeviceStatesContract:
    """Subclasses define the fixture `states`, an empty store."""

    def test_written_device_states_are_read_at_once(self, states: DeviceStates) -> None:
        assert states.read(["1"]) == {}
        assert states.read([]) == {}
        assert states.write({"1": state("a", 5), "2": state(None, 6, enabled=False)}) == {"1": None, "2": None}
        assert states.read(["2", "1", "3"]) == {"1": state("a", 5), "2": state(None, 6, enabled=False)}

    def test_an_older_state_is_no_error_and_changes_nothing(self, states: DeviceStates) -> None:
        states.write({"1": state("new", 5)})
        assert states.write({"1": state("old", 4)}) == {"1": None}
        assert states.read(["1"])["1"].endpoint_arn == "new"
        states.write({"1": state("again", 5)})
        assert states.read(["1"])["1"].endpoint_arn == "again"
