"""Generates the tables of docs/internals/capacity.md: `python -m lab.capacity.report` prints them and writes them into
that page.

A table replaces the text between its two markers in that page; the other text is written by hand.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path

from functions.delivery.publish import UNRECORDED
from infra.cdk.config import DirectoryStateConfig, Environment
from infra.cdk.examples import ENVIRONMENTS, PROD, SMALL, STAGING
from infra.cdk.quotas import QUOTAS as ACCOUNT_QUOTAS
from lab.capacity import counted_table, messages
from lab.capacity import directories as directories_model
from lab.capacity import metrics_database as metrics_database_model
from lab.capacity.comparison import (
    Compared,
    critical_steps,
    critical_wait_s,
    of_a_broadcast,
    of_a_steady_load,
    of_slices,
    partitions_for,
    scene,
)
from lab.capacity.costs import GB, LOG_LINES_AN_EVENT, OTHER_ZONE, Cost, a_month, by_the_hour, for_a_million, total
from lab.capacity.counted_table import CountedTable
from lab.capacity.event_report import EVENT_MODEL, EVENT_SIMULATION
from lab.capacity.figures import Figure, Trust
from lab.capacity.limits import DATABASE_VCPUS, Change, Limit, environments_used, limits, look_ups_s, raised_for
from lab.capacity.plan import Plan
from lab.capacity.prices import PRICES, SURCHARGE, at_most, price
from lab.capacity.quotas import QUOTAS, quota, sns_publish
from lab.capacity.service_times import VCPU_MB, ServiceTimes, measured
from lab.capacity.tables import dollars, figures, table
from lab.capacity.workload import (
    Workload,
    digest_items,
    message_bytes,
    own_documents,
    places_item,
    register_item,
    result_item,
    schedule_items,
    sizes,
)
from masscomm.directory import device_states
from masscomm.domain import preference_changes, suppressions, tenant_preferences
from masscomm.domain.digests import MAX_MEMBERS
from masscomm.domain.frequency_caps import MAX_LIMIT
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.domain.recurrences import LEAST_MINUTES
from masscomm.domain.time_limits import MESSAGES_KEPT_S, REGISTERED_SENDS_KEPT_S
from ops.marked_part import with_part

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "capacity.md"
SIZES = {"small": SMALL, "standard": STAGING, "large": PROD}
RATES = (1_000, 10_000, 50_000)
# Single sends and recipients of broadcasts a second, as means of a month.
METRICS_RATES = ((5.0, 10.0), (50.0, 100.0), (50.0, 1_000.0))
# Maps a rate in notifications per second to the simulated seconds, which suffice for some hundred thousand
# notifications.
SIMULATED_S = {1_000: 300.0, 10_000: 90.0, 50_000: 30.0}
MILLION = 1_000_000
# The assumed latency of an SNS call in seconds; AWS publishes none. Latencies up to about 25 ms hardly matter, because
# sixteen calls run concurrently.
PROVIDER_S = 0.02
# The assumed seconds after which a mapping with one poller gets another one; AWS publishes no figure.
POLLER_S = 10.0
HOURS_A_DAY = (1, 24)
CRITICAL_S = 120.0


def tables() -> Mapping[str, str]:
    """Return every generated part of the page by its name."""
    return {name: make() for name, make in (*_MODEL.items(), *_SIMULATION.items())}


def written(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with these parts replaced. Raises ValueError if the page has no markers for a part."""
    for name, text in parts.items():
        page = with_part(page, f"<!-- made by make capacity: {name} -->", f"\n{text}\n", f"<!-- end of {name} -->")
    return page


@cache
def _times() -> ServiceTimes:
    return measured()


def _workload(rate: float) -> Workload:
    return Workload(notifications_s=rate)


@cache
def _raised(rate: float) -> tuple[Plan, list[Change]]:
    return raised_for(_workload(rate), Plan.of(PROD), _times(), PROVIDER_S)


def assumptions() -> str:
    """Return the table of the model's inputs."""
    workload, times = _workload(RATES[0]), _times()
    weights = sizes(workload)
    rows = [
        ("recipients of a send record", f"{workload.chunk:,}", "masscomm/decisions/parts.py"),
        ("let pass by preferences", f"{workload.allowed:.0%}", "assumed"),
        ("by e-mail, the rest by push", f"{workload.email:.0%}", "assumed"),
        ("devices of a user", f"{workload.devices}", "assumed"),
        ("one-time passwords at the same time", f"{workload.critical_s:.0f}/s", "assumed"),
        ("lines of SNS' reports in an event of CloudWatch Logs", f"{LOG_LINES_AN_EVENT}", "assumed"),
        ("SNS answers in", f"{PROVIDER_S * 1000:.0f} ms", "assumed"),
        (
            "Kafka, bytes of a notification on all topics",
            figures(weights.bytes_a_notification()),
            "our codec",
        ),
        (
            f"ledger, a slice of {times.slice_size}",
            f"{weights.ledger_bytes:,} bytes, {weights.ledger_units} write units",
            "our code",
        ),
        (
            "delivery, processor's time of a push",
            f"{times.lines['delivery'].recipient.cpu_s * 1000:.2f} ms",
            times.origin,
        ),
        (
            "preference_checker, of a recipient",
            f"{times.lines['preference_checker'].recipient.wall_s * 1e6:.0f} µs, "
            f"{times.lines['preference_checker'].recipient.cpu_s * 1e6:.0f} of the processor",
            "the same",
        ),
        (
            "builder, of a recipient",
            f"{times.lines['builder'].recipient.wall_s * 1e6:.0f} µs, "
            f"{times.lines['builder'].recipient.cpu_s * 1e6:.0f} of the processor",
            "the same",
        ),
        ("cold start of delivery", f"{times.cold_start_s['delivery']:.2f} s", "the same"),
    ]
    return table(("what", "how much", "source"), rows)


def costs() -> str:
    """Return the table of costs by use for a million notifications, and of the environment's share."""
    head = ["a million notifications", *(f"{rate:,}/s" for rate in RATES)]
    columns = [for_a_million(_workload(rate), _raised(rate)[0], _times(), PROVIDER_S) for rate in RATES]
    rows = _by_component(columns, "by use")
    for hours in HOURS_A_DAY:
        shares = [
            total(by_the_hour(_workload(rate), _raised(rate)[0], _times(), PROVIDER_S, hours_a_day=hours))
            for rate in RATES
        ]
        often = "the whole day" if hours == 24 else f"{hours} hour a day"
        rows.append([f"the environment's share, at that rate {often}", *map(dollars, shares)])
        both = [total(column) + share for column, share in zip(columns, shares, strict=True)]
        rows.append([f"**together, {often}**", *(f"**{dollars(sum_)}**" for sum_ in both)])
    return table(head, rows)


def hourly() -> str:
    """Return the table of the environment's costs by component for a million notifications, if the load lasts for the
    smallest number of hours a day.
    """
    hours = HOURS_A_DAY[0]
    columns = [
        by_the_hour(_workload(rate), _raised(rate)[0], _times(), PROVIDER_S, hours_a_day=hours) for rate in RATES
    ]
    rows = _by_component(columns, "the environment's share")
    return table((f"of a million, {hours} hour a day", *(f"{rate:,}/s" for rate in RATES)), rows)


def _by_component(columns: Sequence[Sequence[Cost]], together: str) -> list[list[str]]:
    """Return a row for each component, and one with the sum of each column."""
    rows = [[lines[0].component, *(dollars(line.dollars) for line in lines)] for lines in zip(*columns, strict=True)]
    return [*rows, [f"**{together}**", *(f"**{dollars(total(column))}**" for column in columns)]]


def idle() -> str:
    """Return the table of the monthly costs of each environment without load."""
    columns = [a_month(Plan.of(environment)) for environment in ENVIRONMENTS.values()]
    rows = _by_component(columns, "a month")
    return table(("nothing is sent", *ENVIRONMENTS), rows)


def sizes_compared() -> str:
    """Return the table of the three sizes: the idle bill, the cost of a million notifications, and the first limit."""
    load = _workload(RATES[0])
    columns = []
    for environment in SIZES.values():
        plan = Plan.of(environment)
        own = [each for each in limits(load, plan, _times(), PROVIDER_S) if not each.name.startswith(("SES", "SNS"))]
        met = min(own, key=lambda limit: limit.met_at(load))
        columns.append(
            [
                dollars(total(a_month(plan))),
                dollars(total(a_month(plan, at_most))),
                dollars(total(for_a_million(load, plan, _times(), PROVIDER_S))),
                f"{met.name}, at {figures(met.met_at(load))}/s",
            ]
        )
    labels = (
        "idle, a month",
        f"the same, if prices that were only found for us-east-1 are {SURCHARGE - 1:.0%} higher",
        "a million notifications, by use",
        "first limit after the quotas of SES and SNS",
    )
    rows = [[label, *values] for label, values in zip(labels, zip(*columns, strict=True), strict=True)]
    streaming = replace(SMALL, spark=replace(SMALL.spark, every_minutes=None))
    return (
        table(("", *(f"{size} (`{each.name}`)" for size, each in SIZES.items())), rows)
        + f"\n\nWith a job that counts without an end, `small` costs {dollars(total(a_month(Plan.of(streaming))))}."
    )


def directories() -> str:
    """Return the table of the directory's monthly cost by the directory that answers look-ups."""
    ratios, rows = directories_model.measured(), []
    for rate in RATES:
        load, plan = _workload(rate), _raised(rate)[0]
        state, smaller = (
            directories_model.in_state(Plan.of(replace(PROD, opensearch=each.opensearch)), load, _times(), ratios)
            for each in (PROD, STAGING)
        )
        spent = sum(look_ups_s(load, _times()))
        rows.append(
            [
                f"{rate:,}/s",
                f"{figures(spent)} vCPUs, {plan.data_nodes} nodes",
                dollars(directories_model.in_opensearch(plan)),
                f"{figures(state.vcpus)} vCPUs, {state.tasks} tasks",
                dollars(state.dollars),
                dollars(smaller.dollars),
            ]
        )
    head = (
        *("notifications", "look-ups in OpenSearch", "a month"),
        *("in directory_state", "with `prod`'s domain", "with `staging`'s"),
    )
    return table(head, rows) + f"\n\nSource of the ratio: {ratios.origin}."


def limits_met() -> str:
    """Return the table of every limit of the production environment, in the order in which a growing load meets
    them.
    """
    found = [limits(_workload(rate), Plan.of(PROD), _times(), PROVIDER_S) for rate in RATES]
    rows = []
    for of_rates in sorted(zip(*found, strict=True), key=lambda row: row[-1].met_at(_workload(RATES[-1]))):
        # The limits are computed at the highest rate, at which the share of the critical lane in each limit is small.
        met = of_rates[-1].met_at(_workload(RATES[-1]))
        shares = [_share(limit) for limit in of_rates]
        rows.append([of_rates[0].name, figures(met), f"{figures(of_rates[0].most)} {of_rates[0].unit}", *shares])
    return table(("limit", "used up at /s", "there is", *(f"{rate:,}/s" for rate in RATES)), rows)


def _share(limit: Limit) -> str:
    text = f"{limit.share:.0%}" if limit.share < 10 else f"{limit.share:,.0f} times"
    return f"**{text}**" if limit.share > 1 else text


def changes() -> str:
    """Return the table of the changes to the production environment that each rate needs, in the order of the
    limits.
    """
    rows = []
    for rate in RATES:
        for number, change in enumerate(_raised(rate)[1]):
            rows.append([f"{rate:,}/s" if not number else "", change.limit.name, change.done])
    return table(("for", "met", "change"), rows).replace("---:", "---")


def delivery() -> str:
    """Return the table of the environments that delivery needs. The number of partitions must be as large."""
    plan = Plan.of(PROD)
    small = plan.memory_mb["delivery"]
    rows = []
    for rate in RATES:
        used = {
            memory: environments_used(
                "delivery", _workload(rate), plan.with_memory("delivery", memory), _times(), PROVIDER_S
            )
            for memory in (small, VCPU_MB)
        }
        raised = _raised(rate)[0]
        rows.append(
            [
                f"{rate:,}/s",
                figures(used[small]),
                figures(used[VCPU_MB]),
                f"{raised.partitions['delivery']} at {raised.memory_mb['delivery']:,} MB",
            ]
        )
    return table(("", f"busy at {small} MB", f"busy at {VCPU_MB:,} MB", "partitions of `delivery`"), rows)


def simulation() -> str:
    """Return the table that compares the model with the simulation."""
    compared: list[tuple[str, Compared]] = []
    for rate in RATES:
        plan, workload = _raised(rate)[0], _workload(rate)
        found = of_a_steady_load(workload, plan, _times(), PROVIDER_S, seconds=SIMULATED_S[rate])
        compared += [(f"{rate:,}/s", one) for one in found]
    for name, plan in (("as deployed", Plan.of(PROD)), *((f"raised for {r:,}/s", _raised(r)[0]) for r in RATES[1:])):
        compared.append((name, _broadcast(plan)))
    plan, name = _raised(RATES[-1])[0], f"raised for {RATES[-1]:,}/s"
    compared.append((name, replace(_broadcast(plan, even=True), label="the same, records dealt out evenly")))
    begun = replace(_broadcast(plan, poller_s=POLLER_S), label=f"the same, one poller more each {POLLER_S:.0f} s")
    compared.append((name, begun))
    rows = [
        [
            name,
            one.label,
            f"{figures(one.model)} {one.unit}".strip(),
            f"{figures(one.simulated)} {one.unit}".strip(),
            f"{one.difference:+.0%}",
        ]
        for name, one in compared
    ]
    return table(("plan", "what", "model", "simulation", "difference"), rows)


def _broadcast(plan: Plan, *, poller_s: float = 0.0, even: bool = False) -> Compared:
    return of_a_broadcast(
        _workload(RATES[0]), plan, _times(), PROVIDER_S, recipients=MILLION, poller_s=poller_s, even=even
    )


def slices() -> str:
    """Return the table that compares the formula for a slice (recipients recorded together) with the measured time."""
    rows = [
        [one.label, f"{one.model * 1000:.0f} ms", f"{one.simulated * 1000:.0f} ms", f"{one.difference:+.0%}"]
        for one in of_slices(_times())
    ]
    return table(("", "formula", "measured", "difference"), rows)


def critical() -> str:
    """Return the table of one-time passwords by warm environments, by partitions, and during a broadcast."""
    rows = []
    for environment, label in _critical_cases():
        rows.append([label, *_critical(Plan.of(environment))])
    rows.append([f"as deployed, during a broadcast of {MILLION:,}", *_critical(Plan.of(PROD), recipients=MILLION)])
    plan = replace(Plan.of(PROD), sns_publish=_raised(RATES[1])[0].sns_publish)
    rows.append([f"the same with {plan.sns_publish:,.0f} publishes/s", *_critical(plan, recipients=MILLION)])
    workload, plan = _workload(RATES[0]), Plan.of(PROD)
    slowest = critical_steps(workload, plan, _times(), PROVIDER_S)[-1]
    assert slowest.calls is not None  # noqa: S101 - delivery calls
    takes = slowest.invocation_s + PROVIDER_S + workload.devices * slowest.calls.cpu_s
    model = critical_wait_s(workload, plan, _times(), PROVIDER_S)
    needed = {rate: partitions_for(rate, takes, takes / 10) for rate in (10, 50, 200, 1_000)}
    return (
        table(("one-time passwords, 50/s", "half within", "99 % within"), rows)
        + f"\n\nBy the model, with nothing to wait for: {model * 1000:.0f} ms. So that a password waits in the mean a "
        f"tenth of its delivery's {takes * 1000:.0f} ms for its partition: "
        + ", ".join(f"{count} partitions for {rate:,}/s" for rate, count in needed.items())
        + "."
    )


def _critical_cases() -> Iterable[tuple[Environment, str]]:
    for provisioned in (0, 4, 16):
        yield replace(PROD, provisioned=provisioned), f"{provisioned} environments of each function kept warm"
    for factor in (1, 16):
        kafka = replace(PROD.kafka, partitions_factor=factor)
        yield replace(PROD, provisioned=64, kafka=kafka), f"{4 * factor} partitions, all environments warm"


def _critical(plan: Plan, *, recipients: int = 0) -> list[str]:
    played = scene(_workload(RATES[0]), plan, _times(), PROVIDER_S, recipients=recipients, critical_seconds=CRITICAL_S)
    played.clock.run(2 * CRITICAL_S)
    if played.critical is None:
        raise ValueError("no critical lane was planned")
    return [f"{played.critical.result.percentile(share) * 1000:,.0f} ms" for share in (0.5, 0.99)]


def register() -> str:
    """Return the table of the costs of single sends in the register of sends."""
    item, message, most = register_item(), message_bytes(), quota("dynamodb_new_table_writes")
    result = result_item()
    # A transaction writes each item twice.
    by_kafka, by_rest = (2 * sum(ceil(size / 1_024) for size in sizes) for sizes in ((item,), (item, message)))
    rows = []
    for source, rate, registered, kept_message, units in (
        ("Kafka", 50, item, 0, by_kafka),
        ("Kafka", 1_000, item, 0, by_kafka),
        ("REST, with a message", 50, item, message, by_rest),
        ("either, their results", 50, result, 0, ceil(result / 1_024)),
        ("either, their results", 1_000, result, 0, ceil(result / 1_024)),
    ):
        kept_gb = rate * (REGISTERED_SENDS_KEPT_S * registered + MESSAGES_KEPT_S * kept_message) / 1e9
        rows.append(
            [
                f"{source}, {rate:,}/s",
                f"{registered + kept_message} bytes",
                f"{rate * units:,} write units/s, {rate * units / most:.0%} of a new table",
                dollars(units * 1e6 * price("dynamodb_write_unit")),
                f"{kept_gb:,.0f} GB, {dollars(kept_gb * price('dynamodb_gb_month'))} a month",
            ]
        )
    return table(("single sends by", "items", "writes", "a million", "kept for eight days, messages for 30"), rows)


def metrics_database() -> str:
    """Return the table of the metrics database's disk, log and processor."""
    rows = []
    for size, environment in SIZES.items():
        for single_s, recipients_s in METRICS_RATES:
            rates = {"single_s": single_s, "recipients_s": recipients_s}
            kept_gb = metrics_database_model.kept_bytes(environment, **rates) / 1e9
            volume_gb = environment.database.max_volume_gb
            vcpus, most = metrics_database_model.vcpus(**rates), DATABASE_VCPUS[environment.database.instance_type]
            rows.append(
                [
                    f"{size}: {single_s:,.0f} single sends and {recipients_s:,.0f} recipients a second",
                    f"{figures(kept_gb)} of {volume_gb:,} GB ({kept_gb / volume_gb:.0%})",
                    f"{figures(metrics_database_model.wal_bytes_s(**rates) / 1e6)} MB/s",
                    f"{vcpus / most:.0%} of {most} vCPUs",
                ]
            )
    return table(("load", "disk, once rows are deleted as they are added", "log", "processor"), rows)


def metrics_rows() -> str:
    """Return the table of what a single send and a recipient take in the metrics database."""
    single, recipient = (metrics_database_model.measured(name) for name in ("single_send", "recipient"))
    kept = [metrics_database_model.days_kept(PROD, small=small) for small in (True, False)]
    rows = [
        [
            f"`{name}`",
            f"{figures(single.bytes[name])} bytes, {kept[0][name]:.0f} days",
            f"{figures(recipient.bytes[name])} bytes, {kept[1][name]:.0f} days",
        ]
        for name in single.bytes
    ]
    rows.append(["log (WAL)", f"{figures(single.wal_bytes)} bytes", f"{figures(recipient.wal_bytes)} bytes"])
    rows.append(["processor", f"{figures(single.processor_us)} µs", f"{figures(recipient.processor_us)} µs"])
    return table(("table with its indexes", "a single send", "a recipient of a broadcast"), rows)


def frequency_caps() -> str:
    """Return the table of the costs of recipients in a category with a frequency cap."""
    rows = []
    for count in (1, 5, 20, MAX_LIMIT):
        size = places_item(count)
        # A place is read, and written in a transaction.
        reads, writes = ceil(size / 4_096), 2 * ceil(size / 1_024)
        cost = reads * price("dynamodb_read_unit") + writes * price("dynamodb_write_unit")
        rows.append([f"{count}", f"{size:,} bytes", f"{reads}", f"{writes}", dollars(cost * MILLION)])
    return table(("sends that count", "item", "read units", "write units", "a million recipients"), rows)


def sms_costs() -> str:
    """Return the table of the prices of SMS."""
    day, found = messages.sms_prices()
    rows = [
        [each.country, each.encoding, f"{each.characters}", f"{each.segments}", dollars(each.dollars)] for each in found
    ]
    return table(("country", "encoding", "characters at most", "segments", f"a million SMS, prices of {day}"), rows)


def message_requests() -> str:
    """Return the table of the costs of spend limits, of answers and of the counts of e-mails."""
    spent, returned, counted = messages.reserved_cost(), messages.given_back_cost(), messages.counted_emails()
    rows = []
    for what, units, number in (
        ("SMS of single sends: the limit of a day", spent, 1),
        ("SMS of a broadcast: the limit of a day", spent, UNRECORDED),
        ("SMS that are not sent: their costs given back", returned, 1),
        ("e-mails of single sends: reputation", counted, 1),
        ("e-mails of a broadcast: reputation", counted, RANGE_SIZE),
        ("bounces and complaints: reputation", counted, 1),
    ):
        row = [what, f"{number}", f"{units.reads}", f"{units.writes}", dollars(units.dollars() / number)]
        rows.append(row)
    rows.append(["answers to SMS: Lambda", "1", "0", "0", dollars(messages.answers_dollars(measured()))])
    return table(("messages", "in a request", "read units", "write units", "a million"), rows)


def digests() -> str:
    """Return the table of the costs of notifications that join digests."""
    rows = []
    for members in (1, 20, 100, MAX_MEMBERS):
        head, member = digest_items(members)
        # Both items are read, and written in a transaction.
        reads = ceil(head / 4_096) + ceil(member / 4_096)
        writes = 2 * (ceil(head / 1_024) + ceil(member / 1_024)) + _DELAYED_WRITES
        cost = reads * price("dynamodb_read_unit") + writes * price("dynamodb_write_unit")
        rows.append([f"{members:,}", f"{head:,} bytes", f"{reads}", f"{writes}", dollars(cost * MILLION)])
    return table(("members", "item", "read units", "write units", "a million such members"), rows)


def pace() -> str:
    """Return the table of the costs of a pace for a full chunk."""
    rows = [[f"{minutes}", *_counted(counted_table.pace(CHUNK_SIZE, minutes), CHUNK_SIZE)] for minutes in (1, 5, 60)]
    return table((f"minutes of a chunk of {CHUNK_SIZE:,}", *_COUNTED), rows)


def fallbacks() -> str:
    """Return the table of the costs of notifications that are not needed."""
    counts = (1, 100, RANGE_SIZE)
    rows = [[f"{count}", *_counted(counted_table.fallbacks(count), count)] for count in counts]
    return table(("recipients of a record", *_COUNTED), rows)


_COUNTED = ("largest item", "read units", "write units", "a million notifications")


def _counted(requests: CountedTable, notifications: int) -> list[str]:
    cost = requests.reads * price("dynamodb_read_unit") + requests.writes * price("dynamodb_write_unit")
    dollars_a_million = dollars(cost * MILLION / notifications)
    return [f"{requests.largest:,} bytes", f"{requests.reads}", f"{requests.writes}", dollars_a_million]


# The writes of an occurrence in the delay store: the mark of the minute, the record, its claim, and its deletion.
_DELAYED_WRITES = 4
# The occurrences of a month of 730 hours, at the least distance.
_OCCURRENCES_A_MONTH = 730 * 60 // LEAST_MINUTES


def schedules() -> str:
    """Return the table of the costs of occurrences, in addition to those of their sends."""
    rows = []
    for users in (0, 100, CHUNK_SIZE):
        schedule, begun = schedule_items(users)
        # The started occurrences and the schedule are read; the occurrence is put and completed, the schedule advanced.
        reads = 1 + ceil(schedule / 4_096)
        writes = 2 * ceil(begun / 1_024) + ceil(schedule / 1_024) + _DELAYED_WRITES
        cost = reads * price("dynamodb_read_unit") + writes * price("dynamodb_write_unit")
        name = f"{users:,} users" if users else "an audience"
        monthly = dollars(cost * _OCCURRENCES_A_MONTH)
        rows.append([name, f"{schedule:,} bytes", f"{reads}", f"{writes}", dollars(cost * MILLION), monthly])
    heads = ("schedule to", "item", "read units", "write units", "a million occurrences", "each 15 minutes, a month")
    return table(heads, rows)


# Index → what makes one record.
_RECORDS_OF = {
    device_states.INDEX: "a new, changed, deleted or inactive device; another one if its token was another's",
    suppressions.INDEX: "a bounced or complaining address; a removed suppression",
    preference_changes.INDEX: "a request that changes preferences, or an unsubscription",
    tenant_preferences.INDEX: "changed rules of a tenant",
}


def own_document_records() -> str:
    """Return the table of the records of masscomm's own documents in the topic directory_document."""
    tasks, kafka = DirectoryStateConfig().tasks, PROD.kafka
    rows = []
    for index, size in own_documents().items():
        produced = size * MILLION / GB
        # Each task of directory_state reads each record.
        read = [dollars(produced * (1 + readers) * OTHER_ZONE * price("between_zones_gb")) for readers in (0, tasks)]
        kept_gb = produced * kafka.replication_factor
        share = kept_gb / (kafka.brokers * kafka.volume_gb)
        rows.append([f"`{index}`", _RECORDS_OF[index], f"{size}", *read, f"{kept_gb:.1f} GB, {share:.1%}"])
    head = (
        *("index", "one record for", "bytes", "between zones, a million"),
        *(f"with {tasks} tasks of directory_state", "a million kept, of `prod`'s volumes"),
    )
    return table(head, rows)


def prices() -> str:
    """Return the table of every price with its source."""
    return _sources(PRICES.values())


def quotas() -> str:
    """Return the table of every quota, with its source and the way to raise it."""
    return _sources((sns_publish(PROD.region), *QUOTAS.values()), more_of_it=True)


def account_quotas() -> str:
    """Return the table of the quotas that an account's environments share, and the use of each environment."""
    rows = [
        [f"[{quota.name}]({quota.page})", quota.service, f"{quota.default:,}"]
        + [f"{quota.used(environment):g}" for environment in ENVIRONMENTS.values()]
        for quota in ACCOUNT_QUOTAS
    ]
    return table(("quota", "service", "default", *ENVIRONMENTS), rows)


def _sources(figures: Iterable[Figure], *, more_of_it: bool = False) -> str:
    rows = [
        [
            f"`{figure.name}`",
            f"{figure.value:,.10f}".rstrip("0").rstrip("."),
            figure.unit,
            figure.region,
            figure.read,
            f"**{figure.trust}**" if figure.trust is Trust.UNVERIFIED else figure.trust.value,
            figure.source,
            *([figure.raise_by] if more_of_it else []),
        ]
        for figure in figures
    ]
    head = ["", "value", "unit", "region", "read", "trust", "source", *(["more of it"] if more_of_it else [])]
    return table(head, rows).replace("---:", "---")


_MODEL: Mapping[str, Callable[[], str]] = {
    "assumptions": assumptions,
    "costs": costs,
    "hourly": hourly,
    "sizes": sizes_compared,
    "directories": directories,
    "idle": idle,
    "limits": limits_met,
    "changes": changes,
    "delivery": delivery,
    "slices": slices,
    "register": register,
    "metrics rows": metrics_rows,
    "metrics database": metrics_database,
    "frequency caps": frequency_caps,
    "sms": sms_costs,
    "message requests": message_requests,
    "digests": digests,
    "pace": pace,
    "fallbacks": fallbacks,
    "schedules": schedules,
    "own documents": own_document_records,
    **EVENT_MODEL,
    "prices": prices,
    "quotas": quotas,
    "account quotas": account_quotas,
}
_SIMULATION: Mapping[str, Callable[[], str]] = {"simulation": simulation, "critical": critical, **EVENT_SIMULATION}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.capacity.report", description=__doc__)
    parser.add_argument("--only-print", action="store_true", help=f"leave {PAGE.name} as it is")
    chosen = parser.parse_args()
    made = tables()
    for name, text in made.items():
        print(f"\n{name}\n\n{text}")
    if not chosen.only_print:
        PAGE.write_text(written(PAGE.read_text(), made))


if __name__ == "__main__":
    main()
