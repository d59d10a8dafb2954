"""The configuration rejects settings that AWS would reject."""

from dataclasses import replace
from typing import Any

import pytest

from infra.cdk.config import PROD, ApiConfig, KafkaConfig, OpenSearchConfig


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"zones": ("a", "b")}, "kafka.brokers is 3, no multiple of the 2 zones"),
        ({"opensearch": OpenSearchConfig(data_nodes=4)}, "opensearch.data_nodes is 4"),
        ({"opensearch": OpenSearchConfig(dedicated_masters=1)}, "dedicated_masters is 0 or 3"),
        ({"kafka": KafkaConfig(min_insync_replicas=3)}, "min_insync_replicas < replication_factor"),
        ({"kafka": KafkaConfig(replication_factor=4)}, "replication_factor <= brokers"),
        ({"log_days": 31}, "log_days is one of 14, 30, 90, 365"),
        ({"trace_ratio": 1.5}, "trace_ratio"),
        ({"receipts_percent": 101}, "receipts_percent"),
    ],
)
def test_invalid_setting_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PROD, **changed)


@pytest.mark.parametrize("given", [{"domain": "api.masscomm.example"}, {"certificate_arn": "arn"}])
def test_domain_without_certificate_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="both domain and certificate_arn, or neither"):
        ApiConfig(**given)  # type: ignore[arg-type]
