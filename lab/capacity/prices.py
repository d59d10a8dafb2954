"""The prices of AWS resources on demand in US dollars, without free tiers, reservations or volume discounts.

The prices are those of us-east-1, on which most sources agree. In eu-central-1 Lambda costs the same, and instances
cost up to a quarter more (unverified). After a change in this file, run `make capacity`, which updates
docs/internals/capacity.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lab.capacity.figures import Figure, Trust

HOURS_A_MONTH = 730
REGION = "us-east-1"
_READ = "2026-11"
_OFFER = "AWS Price List API, offer AWSLambda of 2026-09-19, as quoted by others"
_QUOTED = "AWS' pricing page, as several others quote it"

_PRICES = (
    ("lambda_gb_s", 0.0000133334, "GB-second, arm64", _OFFER, Trust.COPIED),
    ("lambda_request", 0.20 / 1e6, "invocation", _OFFER, Trust.COPIED),
    ("lambda_provisioned_gb_s", 0.0000033334, "GB-second kept warm, arm64", _OFFER, Trust.COPIED),
    ("lambda_snapshot_gb_s", 0.0000015046, "GB-second of a SnapStart snapshot kept", _OFFER, Trust.COPIED),
    ("lambda_event_poller_unit_hour", 0.185, "unit of ten pollers or 20 MB/s, hour", _OFFER, Trust.COPIED),
    ("sns_push", 0.50 / 1e6, "push", _QUOTED, Trust.COPIED),
    ("ses_email", 0.10 / 1e3, "e-mail", _QUOTED, Trust.COPIED),
    ("dynamodb_write_unit", 0.625 / 1e6, "write of 1 kB, on demand", _QUOTED, Trust.COPIED),
    ("dynamodb_read_unit", 0.125 / 1e6, "consistent read of 4 kB, on demand", _QUOTED, Trust.COPIED),
    ("dynamodb_gb_month", 0.25, "GB-month", _QUOTED, Trust.COPIED),
    ("s3_gb_month", 0.023, "GB-month", _QUOTED, Trust.COPIED),
    ("logs_gb", 0.50, "GB taken in by CloudWatch Logs", _QUOTED, Trust.COPIED),
    ("between_zones_gb", 0.02, "GB from one zone to another, both ends", _QUOTED, Trust.COPIED),
    ("internet_gb_10tb", 0.09, "GB to the internet in a month, up to 10 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_50tb", 0.085, "the same, the next 40 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_150tb", 0.07, "the same, the next 100 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_more", 0.05, "the same, above 150 TB", _QUOTED, Trust.COPIED),
    ("msk.kafka.t3.small", 0.0456, "broker-hour", _QUOTED, Trust.COPIED),
    ("msk.kafka.m7g.large", 0.204, "broker-hour", "most quote .204, others .189 to .196", Trust.COPIED),
    ("msk.kafka.m7g.xlarge", 0.408, "broker-hour", "quoted as .392 and .408", Trust.UNVERIFIED),
    ("msk_gb_month", 0.10, "GB-month of broker storage", _QUOTED, Trust.COPIED),
    ("msk_connect_hour", 0.11, "connect unit, hour", _QUOTED, Trust.COPIED),
    ("opensearch.t3.medium.search", 0.073, "node-hour", _QUOTED, Trust.COPIED),
    ("opensearch.m7g.medium.search", 0.068, "node-hour", "quoted once", Trust.UNVERIFIED),
    ("opensearch.r7g.large.search", 0.178, "node-hour", "quoted as .176 and .178", Trust.COPIED),
    ("opensearch.r7g.xlarge.search", 0.356, "node-hour", "quoted as .352 and .356", Trust.COPIED),
    ("opensearch_gb_month", 0.122, "GB-month, gp3", _QUOTED, Trust.COPIED),
    ("rds.t4g.small", 0.032, "instance-hour, one zone", _QUOTED, Trust.COPIED),
    ("rds.t4g.medium", 0.065, "instance-hour, one zone", _QUOTED, Trust.COPIED),
    ("rds.r7g.large", 0.239, "instance-hour, one zone", "quoted as .204 to .252", Trust.UNVERIFIED),
    ("rds.r7g.xlarge", 0.478, "instance-hour, one zone", "quoted as .456 to .504", Trust.UNVERIFIED),
    ("rds_gb_month", 0.115, "GB-month, gp3, one zone", _QUOTED, Trust.COPIED),
    ("rds_proxy_vcpu_hour", 0.015, "vCPU of the database behind it, hour", _QUOTED, Trust.COPIED),
    ("emr_vcpu_hour", 0.052624, "vCPU-hour, x86", _QUOTED, Trust.COPIED),
    ("emr_gb_hour", 0.0057785, "GB-hour, x86", _QUOTED, Trust.COPIED),
    ("fargate_vcpu_hour", 0.04048, "vCPU-hour, x86", _QUOTED, Trust.COPIED),
    ("fargate_gb_hour", 0.004445, "GB-hour, x86", _QUOTED, Trust.COPIED),
    ("balancer_hour", 0.0225, "application load balancer, hour", _QUOTED, Trust.COPIED),
    ("endpoint_hour", 0.01, "interface endpoint in one zone, hour", _QUOTED, Trust.COPIED),
)

PRICES: Mapping[str, Figure] = MappingProxyType(
    {
        name: Figure(name=name, value=value, unit=unit, region=REGION, read=_READ, source=source, trust=trust)
        for name, value, unit, source, trust in _PRICES
    }
)


def price(name: str) -> float:
    """Return a price in US dollars per unit. Raises KeyError if the table does not have it."""
    return PRICES[name].value
