"""The prices of AWS resources on demand in US dollars, without free tiers, reservations or volume discounts.

The prices are those of eu-central-1, as far as they were found. AWS' price pages load them by a script, so that no
stored page has them; other sources quote AWS' price list or a bill. The others are those of us-east-1, and a test lists
them: each price that was found for both regions is up to 26% higher in eu-central-1. After a change in this file, run
`make capacity`, which updates docs/internals/capacity.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lab.capacity.figures import Figure, Trust

HOURS_A_MONTH = 730
REGION = "eu-central-1"
_ELSEWHERE = "us-east-1"
# The factor by which a price that was found for us-east-1 only may be too low.
SURCHARGE = 1.26
_READ = "2026-11"
_OFFER = "AWS Price List API, offer AWSLambda of 2026-09-19, as quoted by others"
_PRICE_LIST = "AWS Price List API, usage type EUC1-{}, as quoted by others"
_BILL = "a bill of eu-central-1 for 720 hours in 2026-06, usage type {}, as quoted by others"
_ENDPOINT = _PRICE_LIST.format("VpcEndpoint-Hours") + ", and a bill of 2026-09"
_LOGS = _PRICE_LIST.format("DataProcessing-Bytes") + " in a price book of 2026-03"
# The job runs on arm64, whose price is four fifths of x86's in each price list that was found.
_EMR = "four fifths of x86's price in aws_dpb_emr_serverless_prices.py of GoogleCloudPlatform/PerfKitBenchmarker"
_EVERYWHERE = "AWS' pricing page: the same in all regions of this table, as others quote it"
_QUOTED = "AWS' pricing page, as several others quote it"

_PRICES = (
    ("lambda_provisioned_gb_s", 0.0000033334, "GB-second kept warm, arm64", _OFFER, Trust.COPIED),
    ("lambda_snapshot_gb_s", 0.0000015046, "GB-second of a SnapStart snapshot kept", _OFFER, Trust.COPIED),
    ("lambda_event_poller_unit_hour", 0.185, "unit of ten pollers or 20 MB/s, hour", _OFFER, Trust.COPIED),
    ("dynamodb_write_unit", 0.625 / 1e6, "write of 1 kB, on demand", _QUOTED, Trust.COPIED),
    ("dynamodb_read_unit", 0.125 / 1e6, "consistent read of 4 kB, on demand", _QUOTED, Trust.COPIED),
    ("dynamodb_gb_month", 0.25, "GB-month", _QUOTED, Trust.COPIED),
    ("between_zones_gb", 0.02, "GB from one zone to another, both ends", _QUOTED, Trust.COPIED),
    ("internet_gb_10tb", 0.09, "GB to the internet in a month, up to 10 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_50tb", 0.085, "the same, the next 40 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_150tb", 0.07, "the same, the next 100 TB", _QUOTED, Trust.COPIED),
    ("internet_gb_more", 0.05, "the same, above 150 TB", _QUOTED, Trust.COPIED),
    ("msk.kafka.m7g.large", 0.204, "broker-hour", "most quote .204, others .189 to .196", Trust.COPIED),
    ("msk.kafka.m7g.xlarge", 0.408, "broker-hour", "quoted as .392 and .408", Trust.UNVERIFIED),
    ("msk_gb_month", 0.10, "GB-month of broker storage", _QUOTED, Trust.COPIED),
    ("msk_connect_hour", 0.11, "connect unit, hour", _QUOTED, Trust.COPIED),
    ("opensearch.t3.small.search", 0.036, "node-hour", _QUOTED, Trust.COPIED),
    ("opensearch.t3.medium.search", 0.073, "node-hour", _QUOTED, Trust.COPIED),
    ("opensearch.m7g.medium.search", 0.068, "node-hour", "quoted once", Trust.UNVERIFIED),
    ("opensearch.r7g.large.search", 0.178, "node-hour", "quoted as .176 and .178", Trust.COPIED),
    ("opensearch.r7g.xlarge.search", 0.356, "node-hour", "quoted as .352 and .356", Trust.COPIED),
    ("opensearch_gb_month", 0.122, "GB-month, gp3", _QUOTED, Trust.COPIED),
    ("rds.t4g.medium", 0.065, "instance-hour, one zone", _QUOTED, Trust.COPIED),
    ("rds.r7g.large", 0.239, "instance-hour, one zone", "quoted as .204 to .252", Trust.UNVERIFIED),
    ("rds.r7g.xlarge", 0.478, "instance-hour, one zone", "quoted as .456 to .504", Trust.UNVERIFIED),
    ("rds_proxy_vcpu_hour", 0.015, "vCPU of the database behind it, hour", _QUOTED, Trust.COPIED),
)

# The prices of eu-central-1.
_FOUND = (
    ("lambda_gb_s", 0.0000133334, "GB-second, arm64", _EVERYWHERE, Trust.COPIED),
    ("lambda_request", 0.20 / 1e6, "invocation", _EVERYWHERE, Trust.COPIED),
    ("sns_push", 0.50 / 1e6, "push", _EVERYWHERE, Trust.COPIED),
    ("ses_email", 0.10 / 1e3, "e-mail", _EVERYWHERE, Trust.COPIED),
    ("msk.kafka.t3.small", 0.0526, "broker-hour", _PRICE_LIST.format("Kafka.t3.small"), Trust.COPIED),
    ("rds.t4g.micro", 0.019, "instance-hour, one zone", _BILL.format("InstanceUsage:db.t4g.micro"), Trust.COPIED),
    ("rds.t4g.small", 0.038, "instance-hour, one zone", "twice db.t4g.micro, as in us-east-1", Trust.UNVERIFIED),
    ("rds_gb_month", 0.137, "GB-month, gp3, one zone", _BILL.format("RDS:GP3-Storage, 20 GB"), Trust.COPIED),
    ("fargate_vcpu_hour", 0.03725, "vCPU-hour, arm64", _BILL.format("Fargate-ARM-vCPU-Hours, 0.25"), Trust.COPIED),
    ("fargate_gb_hour", 0.00409, "GB-hour, arm64", _BILL.format("Fargate-ARM-GB-Hours, 0.5"), Trust.COPIED),
    (
        "balancer_hour",
        0.027,
        "application or network load balancer, hour",
        _BILL.format("LoadBalancerUsage"),
        Trust.COPIED,
    ),
    ("endpoint_hour", 0.012, "interface endpoint in one zone, hour", _ENDPOINT, Trust.COPIED),
    ("emr_vcpu_hour", 0.0484224, "vCPU-hour, arm64", _EMR, Trust.UNVERIFIED),
    ("emr_gb_hour", 0.0053144, "GB-hour, arm64", _EMR, Trust.UNVERIFIED),
    ("s3_gb_month", 0.0245, "GB-month", _PRICE_LIST.format("TimedStorage-ByteHrs"), Trust.COPIED),
    ("logs_gb", 0.63, "GB taken in by CloudWatch Logs", _LOGS, Trust.COPIED),
    ("nat_hour", 0.052, "NAT gateway, hour", _PRICE_LIST.format("NatGateway-Hours"), Trust.COPIED),
    ("ipv4_hour", 0.005, "public IPv4 address, hour", _BILL.format("PublicIPv4:InUseAddress"), Trust.COPIED),
    ("metric_month", 0.30, "custom metric, month", _BILL.format("CW:MetricMonitorUsage"), Trust.COPIED),
    ("secret_month", 0.40, "secret, month", _BILL.format("AWSSecretsManager-Secrets"), Trust.COPIED),
    ("key_month", 1.00, "customer managed key, month", _BILL.format("KMS-Keys"), Trust.COPIED),
    ("zone_month", 0.50, "hosted zone, month", _BILL.format("HostedZone"), Trust.COPIED),
    ("alarm_month", 0.10, "metric of an alarm, month", _EVERYWHERE, Trust.COPIED),
    ("dashboard_month", 3.00, "dashboard, month", _EVERYWHERE, Trust.COPIED),
    ("firewall_month", 5.00, "web ACL, month", _EVERYWHERE, Trust.COPIED),
    ("firewall_rule_month", 1.00, "rule of a web ACL, month", _EVERYWHERE, Trust.COPIED),
)

PRICES: Mapping[str, Figure] = MappingProxyType(
    {
        name: Figure(name=name, value=value, unit=unit, region=region, read=_READ, source=source, trust=trust)
        for region, prices in ((_ELSEWHERE, _PRICES), (REGION, _FOUND))
        for name, value, unit, source, trust in prices
    }
)


def price(name: str) -> float:
    """Return a price in US dollars per unit. Raises KeyError if the table does not have it."""
    return PRICES[name].value


def at_most(name: str) -> float:
    """Return a price that is not below that of eu-central-1: with the surcharge if only us-east-1's was found."""
    return price(name) * (1 if PRICES[name].region == REGION else SURCHARGE)
