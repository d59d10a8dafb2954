from typing import Any

import pytest

from local.devstack.deployed.mappings import spec_of

DEPLOYED: dict[str, Any] = {
    "UUID": "u",
    "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:masscomm-local-delivery:live",
    "Topics": ["delivery"],
    "SelfManagedKafkaEventSourceConfig": {"ConsumerGroupId": "masscomm.delivery.delivery"},
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "BatchSize": 4,
    "MaximumBatchingWindowInSeconds": 0,
    "MaximumRecordAgeInSeconds": 86400,
    "BisectBatchOnFunctionError": True,
    "DestinationConfig": {"OnFailure": {"Destination": "kafka://on-failure"}},
}


def test_mapping_is_polled_as_deployed() -> None:
    spec = spec_of(DEPLOYED)
    assert (spec.group, spec.topics, spec.batch_size) == ("masscomm.delivery.delivery", ("delivery",), 4)
    assert (spec.max_age_s, spec.bisect, spec.on_failure) == (86400, True, "on-failure")
    assert spec.function_arn == DEPLOYED["FunctionArn"]
    assert spec.name == "masscomm-local-delivery:live delivery"


def test_absent_setting_of_a_mapping_has_the_default() -> None:
    kept = {name: DEPLOYED[name] for name in list(DEPLOYED)[:6]}
    spec = spec_of(kept)
    assert (spec.max_retries, spec.max_age_s, spec.bisect, spec.on_failure) == (None, -1, False, None)


def test_a_mapping_without_partial_responses_is_refused() -> None:
    with pytest.raises(ValueError, match="partial responses"):
        spec_of({**DEPLOYED, "FunctionResponseTypes": []})
