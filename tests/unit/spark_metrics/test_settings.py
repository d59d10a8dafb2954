import pytest

from masscomm.domain.time_limits import COUNTED_IDS_KEPT_S
from masscomm.errors import Stop
from spark_metrics.common.settings import settings_from

NEEDED = {
    "KAFKA_BOOTSTRAP_SERVERS": "k:1",
    "SCHEMA_REGISTRY_URL": "http://r",
    "METRICS_DATABASE_URL": "postgresql://u:secret@h/d",
}


def test_absent_variable_has_its_default() -> None:
    settings = settings_from(NEEDED | {"SPARK_TRIGGER_MS": "250"})
    assert (settings.trigger_ms, settings.master, settings.fail_on_data_loss) == (250, "local[2,4]", True)


def test_recipient_log_is_on_unless_switched_off() -> None:
    values: tuple[dict[str, str], ...] = ({}, {"SPARK_RECIPIENT_LOG": "true"}, {"SPARK_RECIPIENT_LOG": "false"})
    assert [settings_from(NEEDED | value).recipient_log for value in values] == [True, True, False]


def test_all_wrong_variables_are_named_at_once() -> None:
    with pytest.raises(Stop, match=r"KAFKA_BOOTSTRAP_SERVERS is not set.*SPARK_TRIGGER_MS must be a whole number"):
        settings_from({"SPARK_TRIGGER_MS": "0"})


@pytest.mark.kills(guard="metrics.redelivery_window")
def test_window_shorter_than_replays_need_is_refused() -> None:
    window = {"SPARK_REDELIVERY_WINDOW_S": str(COUNTED_IDS_KEPT_S - 1)}
    with pytest.raises(Stop, match="SPARK_REDELIVERY_WINDOW_S must be a whole number above 1382399"):
        settings_from(NEEDED | window)
    assert settings_from(NEEDED | {"SPARK_REDELIVERY_WINDOW_S": "1400000"}).redelivery_window_s == 1_400_000


def test_the_password_is_not_printed() -> None:
    assert "secret@" not in repr(settings_from(NEEDED))
