"""Takes one guard away at a time, in a copy, and shows that something goes red: `make faults-mutants`.

A mutant is a small textual patch that must apply exactly once. It names the cell that must go red, and that cell alone
runs on the mutated functions (one stack serves all mutants); where no cell can see the guard, a named test runs on the
mutated tree, and the mutant says why. out/faults-mutants.json has a row for each. Exit status 1 where a mutant survives
or a patch does not apply. --only TEXT: those whose guard or cell has the text in it; --part 2/5: the second fifth.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack.settings import ROOT
from tests.faults.cells import CELLS
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Cell
from tests.support.fault_stack.stack import FaultStack
from tests.support.until import until

# What the functions and the tests of a mutant need.
TREES = ("functions", "masscomm", "schemas", "spark_metrics", "erasure", "devstack", "examples", "tests")
OUT = ROOT / "out" / "faults-mutants.json"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """guard: what is taken away; red: the cell, or the test, that must fail without it; no_cell: why it is a test."""

    guard: str
    file: str
    old: str
    new: str
    red: str
    no_cell: str = ""

    @property
    def in_job(self) -> bool:
        """Whether it is the Spark job's."""
        return self.file.startswith("spark_metrics/")


# What no cell can see: there a batch is merged milliseconds after it is staged. test_exactness.py holds it up.
BETWEEN_STAGING_AND_MERGE = "nothing dies between the staging of a batch and its merge in a cell"
ONE_TENANTS_TEXT = "a cell's templates are the example monolith's"
PLANS = "no cell changes what a batch is planned by"
ERASES_NOBODY = "no cell erases a person"
NEVER_COUNTED = (
    "tests/component/spark_metrics/test_archive.py::test_files_of_a_batch_that_was_never_counted_are_not_read_and_go"
)

NO_LATE_SCHEMA = "no cell registers a schema after a record of it"

MUTANTS = (
    Mutant(
        guard="tenancy: a caller without a tenant is refused on every route",
        file="masscomm/rest.py",
        old="        if not request.clubs:\n",
        new="        if False:\n",
        red="tests/unit/test_tenancy.py::test_a_caller_without_a_tenant_is_refused",
        no_cell="the local gateway always passes an identity",
    ),
    Mutant(
        guard="tenancy: an absent context allows no club",
        file="masscomm/tenant.py",
        old="    if not isinstance(authorizer, Mapping):\n        return NO_CLUBS\n",
        new="    if not isinstance(authorizer, Mapping):\n        return ALL_CLUBS\n",
        red="tests/unit/test_tenancy.py::test_a_caller_without_a_tenant_is_refused",
        no_cell="the local gateway always passes an identity",
    ),
    Mutant(
        guard="tenancy: another club's user waits for the directory as an unknown one does",
        file="masscomm/preferences.py",
        old="    return not is_member(user, club_id) or (settings",
        new="    return user is None or (settings",
        red="tests/unit/preference_checker/test_check_preferences.py::test_another_clubs_user_is_answered_as_an_unknown_one",
        no_cell="no cell has change data capture behind and another club's users",
    ),
    Mutant(
        guard="registry: what is no schema id is not asked for",
        file="masscomm/wire.py",
        old="        if not 0 < schema_id <= LAST_SCHEMA_ID:",
        new="        if False:",
        red="tests/unit/masscomm/test_wire.py::test_what_is_no_schema_id_is_undecodable_unasked",
        no_cell="a cell's registry denies such ids as others",
    ),
    Mutant(
        guard="registry: a denial counts where our own schema is known",
        file="masscomm/wire.py",
        old="        if self._clock.monotonic() >= self._trusted_until:",
        new="        if False:",
        red="tests/unit/masscomm/test_wire.py::test_a_404_is_no_denial_where_our_own_id_is_denied",
        no_cell="no cell empties the registry",
    ),
    Mutant(
        guard="registry: a denied id is asked for again before its record is put aside",
        file="masscomm/batch.py",
        old="if isinstance(error, UnknownSchema) and self",
        new="if False and self",
        red="tests/unit/masscomm/test_batch.py::test_a_schema_that_is_registered_late_is_read",
        no_cell=NO_LATE_SCHEMA,
    ),
    Mutant(
        guard="registry: a denied id is not asked for again for ever",
        file="masscomm/denied_ids.py",
        old="            if now_s - denied.first_s >= self.retry_s:",
        new="            if False:",
        red="unknown schema id",
    ),
    Mutant(
        guard="job: what is no schema id is undecodable, and not asked for",
        file="spark_metrics/decode.py",
        old=" & spelt.between(1, LAST_SCHEMA_ID)",
        new="",
        red="tests/unit/spark_metrics/test_transforms.py::test_a_bad_record_says_why_and_counts_nothing",
        no_cell="a cell's registry denies such ids as others",
    ),
    Mutant(
        guard="opensearch: a wrong address is no fault of a document",
        file="masscomm/opensearch.py",
        old="error.status_code == _BAD_REQUEST and isinstance(told, dict)",
        new="error.status_code == _BAD_REQUEST",
        red="tests/unit/masscomm/test_opensearch_answers.py::test_a_wrong_address_is_no_fault_of_the_document",
        no_cell="no cell has a wrong address",
    ),
    Mutant(
        guard="dynamodb: an item that no table takes is the record's fault",
        file="masscomm/dynamodb.py",
        old="    if code == _INVALID and any(",
        new="    if False and any(",
        red="tests/unit/masscomm/test_dynamodb.py::test_an_item_that_no_table_takes_is_the_records_fault",
        no_cell="no cell has an item of that size",
    ),
    Mutant(
        guard="job: records that Postgres refuses for good are quarantined",
        file="spark_metrics/job.py",
        old="        if is_permanent(error):",
        new="        if False:",
        red="tests/component/spark_metrics/test_job.py::test_what_is_produced_is_counted_once_and_what_is_bad_put_aside",
        no_cell="no cell has a constraint that a record violates",
    ),
    Mutant(
        guard="job: a denied schema is asked for again before it is quarantined",
        file="spark_metrics/writers.py",
        old="bool(asked_again))",
        new="False)",
        red="tests/unit/spark_metrics/test_writers.py::test_a_denied_schema_is_asked_again_and_learned_late",
        no_cell=NO_LATE_SCHEMA,
    ),
    Mutant(
        guard="ledger: what is recorded is not published again",
        file="functions/delivery/deliver.py",
        old="        if isinstance(lease, Lease) and lease.fresh:\n",
        new="        if isinstance(lease, Lease):\n",
        red="delivery killed in the middle of publishing",
    ),
    Mutant(
        guard="ledger: a slice is recorded before the next begins",
        file="functions/delivery/slices.py",
        old="                self.ledger.record(self.delivery.record_id, decided)\n",
        new="                pass\n",
        red="delivery killed in the middle of publishing",
    ),
    Mutant(
        guard="ledger: the first decision wins",
        file="functions/delivery/slices.py",
        old="            if position not in self.done:\n",
        new="            if True:\n",
        red="an opt-out between two deliveries of one batch",
    ),
    Mutant(
        guard="lease: one at a time",
        file="masscomm/delivery_ledger_dynamodb.py",
        old="OR until_ms <= :lapsed",
        new="OR until_ms <= :lapsed OR until_ms > :lapsed",
        red="the same batch twice at the same time",
    ),
    Mutant(
        guard="lease: whoever lost it begins nothing more",
        file="functions/delivery/slices.py",
        old="min(self.invocation_s() - _RESERVE_S, self.lease.remaining_s(self.publisher.call_s + 2))\n",
        new="self.invocation_s() - _RESERVE_S\n",
        red="delivery asleep for longer than its lease",
    ),
    Mutant(
        guard="endpoints: devices that are ready do not wait for the others",
        file="functions/delivery/slices.py",
        old="devices=list(filter(_ready, devices)), ",
        new="devices=[] if any(map(_unregistered, devices)) else devices, ",
        red="devices whose endpoints come late or never",
    ),
    Mutant(
        guard="endpoints: a refused row's state ends the wait for its endpoint",
        file="functions/device_registrar/register_devices.py",
        old="        if not token or not platform:\n",
        new='        if not token or not platform:\n            raise DeadLetter("invalid", "no endpoint")\n'
        "        if not token or not platform:\n",
        red="tests/unit/device_registrar/test_register_devices.py"
        "::test_a_refused_row_is_dead_lettered_and_its_state_says_so",
        no_cell="in a cell's seconds a wait for ever and a wait for a minute look the same",
    ),
    Mutant(
        guard="ids: a part that waits is the same however often it has waited",
        file="functions/preference_checker/check_preferences.py",
        old="released_id(asked.record_id, _DIRECTORY, asked.range_start, asked.range_end)\n",
        new='released_id(asked.record_id, f"{_DIRECTORY}{asked.waits}", asked.range_start, asked.range_end)\n',
        red="tests/unit/preference_checker/test_waiting_for_the_directory.py"
        "::test_absent_then_partly_absent_users_are_passed_on_once",
        no_cell="the second copy is published after the cell has ended",
    ),
    Mutant(
        guard="ledger: other users under a recorded id have outcomes",
        file="functions/delivery/deliver.py",
        old="        if len(recorded_of(delivery, recorded)) < len(recorded):\n",
        new="        if False:\n",
        red="a chunk index used again for other users",
    ),
    Mutant(
        guard="ledger: a slice that no item holds stands in several",
        file="masscomm/dynamodb.py",
        old="PART_BYTES = 350_000\n",
        new="PART_BYTES = 350_000_000\n",
        red="a slice that no item of DynamoDB holds",
    ),
    Mutant(
        guard="delayed records: users are looked up again before publishing",
        file="functions/delivery/deliver.py",
        old="users=found.users if _was_delayed(item) else None",
        new="users=None",
        red="tests/unit/delivery/test_delayed_users.py::test_a_delayed_user_who_changed_is_suppressed",
        no_cell="no cell erases people",
    ),
    Mutant(
        guard="opt-outs are looked at right before publishing",
        file="functions/delivery/slices.py",
        old="                if decision is None and wanted.status is not None:\n",
        new="                if False and wanted.status is not None:\n",
        red="an opt-out between two deliveries of one batch",
    ),
    Mutant(
        guard="nothing is published after expires_at",
        file="functions/delivery/calls.py",
        old="        if delivery.expires_at is not None and delivery.expires_at <= self.clock.now_ms():\n",
        new="        if False:\n",
        red="the send expires while SNS is away",
    ),
    Mutant(
        guard="a bad delivery report makes the record come again",
        file="masscomm/batch.py",
        old="            item.error = item.error or error\n            if error is None:\n",
        new="            if error is None:\n",
        red="records of delivery unacknowledged for longer than the producer waits",
    ),
    Mutant(
        guard="fail closed: an error in a look-up by id is no absence",
        file="masscomm/opensearch_directory.py",
        old='    if "error" in document:\n',
        new='    if "error" in document:\n        return None\n    if "error" in document:\n',
        red="OpenSearch answers a look-up by id in part",
    ),
    Mutant(
        guard="fail closed: a search that is not whole is no answer",
        file="masscomm/opensearch_directory.py",
        old="    if not whole or not isinstance(hits, list):\n",
        new="    if not isinstance(hits, list):\n",
        red="OpenSearch answers a search in part",
    ),
    Mutant(
        guard="unknown is believed only when change data capture is past the send",
        file="functions/preference_checker/check_preferences.py",
        old="                batch.confirm(self.directory, self._asked_at(item))\n",
        new="                pass\n",
        red="a user created while change data capture is down",
    ),
    Mutant(
        guard="ids follow from positions",
        file="masscomm/ids.py",
        old='    return str(uuid5(NAMESPACE, f"{parent_id}/{step}/{channel}/{start}-{end}"))\n',
        new="    from uuid import uuid4\n\n    return str(uuid4())\n",
        red="builder killed after producing",
    ),
    Mutant(
        guard="throttling is no refusal",
        file="masscomm/channels/provider_errors.py",
        old="        Transient,\n        throttled=True,\n",
        new="        Rejected,\n",
        red="SNS throttles",
    ),
    Mutant(
        guard="expired credentials are nobody's fault",
        file="masscomm/channels/provider_errors.py",
        old='InvalidSignature IncompleteSignature",\n        Transient,',
        new='InvalidSignature IncompleteSignature",\n        Rejected,',
        red="SNS says that credentials have expired",
    ),
    Mutant(
        guard="what the provider refuses for good is told of",
        file="functions/delivery/slices.py",
        old="                self.gone(call.device, answer.error)\n",
        new="                pass\n",
        red="SNS says EndpointDisabled",
    ),
    Mutant(
        guard="a disabled endpoint is left alone",
        file="functions/delivery/calls.py",
        old="            if device.enabled\n",
        new="            if True\n",
        red="SNS says EndpointDisabled of one device of two",
    ),
    Mutant(
        guard="each device of a recipient is tried",
        file="functions/delivery/slices.py",
        old="    if not expired and (who.unregistered or any(isinstance(error, Transient) for error in errors)):\n",
        new="    if len(errors) == len(said) and any(isinstance(error, Transient) for error in errors):\n",
        red="a platform application is disabled until somebody acts",
    ),
    Mutant(
        guard="calls keep the provider's pace",
        file="masscomm/pacing.py",
        old="            if self._rate is None:\n                return True\n",
        new="            if True:\n                return True\n",
        red="SNS throttles",
    ),
    Mutant(
        guard="nothing goes to an address on the suppression list",
        file="functions/delivery/slices.py",
        old="                if decision is None and suppressed and delivery.addresses[row] in suppressed:\n",
        new="                if False:\n",
        red="an address on the suppression list",
    ),
    Mutant(
        guard="what was decided first of a record stands",
        file="masscomm/decisions.py",
        old="    return decided if standing == packed else _unpack(standing, decided)\n",
        new="    return decided\n",
        red="an opt-out between two checks of one batch",
    ),
    Mutant(
        guard="who is held stays held, whatever they want by the second check",
        file="functions/preference_checker/check_preferences.py",
        old="        decided = settled(self.decisions, asked.record_id, now)\n",
        new="        decided = now\n",
        red="preference_checker killed between holding for quiet hours and telling",
    ),
    Mutant(
        guard="what was handed over without its record is read again",
        file="functions/scheduler/take_back.py",
        old="        there = self.source.at(topic, partition, offset) if topic in _kinds() else None\n",
        new="        there = None\n",
        red="OpenSearch away, and the records too large to be handed over",
    ),
    Mutant(
        guard="to take too long is no crash",
        file="functions/scheduler/take_back.py",
        old="        return there, _Last.CRASH if self._too_soon_for_time_outs(document, there) else _Last.TIME_OUT\n",
        new="        return there, _Last.CRASH\n",
        red="a function takes too long for longer than all attempts",
    ),
    Mutant(
        guard="a record that crashes its function again and again is put aside",
        file="functions/scheduler/take_back.py",
        old="        if given_up.crashed > self.max_crashes:\n",
        new="        if False:\n",
        red="a record crashes its function again and again",
    ),
    Mutant(
        guard="the recipients of a dead letter have an outcome",
        file="masscomm/batch.py",
        old="                batch.attempt(stand_in, partial(use_case.dead_lettered, batch, stand_in, why))\n",
        new="                del why\n",
        red="an oversize record",
    ),
    Mutant(
        guard="a bad record is put aside",
        file="masscomm/batch.py",
        old="                dead.append((record, error))\n                self._put_aside(record, error, failed)\n",
        new="                failed.append((record, error))\n",
        red="poison in the middle of a batch",
    ),
    Mutant(
        guard="what a mapping gave up on waits and comes back",
        file="functions/scheduler/take_back.py",
        old="            self.store.put(held, now_ms)\n",
        new="            pass\n",
        red="OpenSearch away for longer than all attempts",
    ),
    Mutant(
        guard="no call begins that could outlive the invocation",
        file="functions/delivery/publishing.py",
        old="        while remaining_s() >= self.call_s:\n",
        new="        while True:\n",
        red="the provider is slower than an invocation is long",
    ),
    Mutant(
        guard="what could not be recorded is tried again before the next slice",
        file="functions/delivery/slices.py",
        old="                if self.invocation_s() < pause + _WRITE_S:\n",
        new="                if True:\n",
        red="DynamoDB down while publishing",
    ),
    Mutant(
        guard="a platform application that is off is left alone",
        file="masscomm/channels/circuit.py",
        old="+ self._pause_s\n            raise\n",
        new="- 1\n            raise\n",
        red="a platform application is disabled until somebody acts",
    ),
    Mutant(
        guard="tenants who broadcast have a queue each",
        file="functions/preference_checker/broadcast_queues.py",
        old="        queue = self._asked(club_id, clock) or known or shared_queue(club_id)\n",
        new="        queue = known or shared_queue(club_id)\n",
        red="a tenant's broadcast behind another tenant's larger one",
    ),
    Mutant(
        guard="receipts: what is said again has the same id",
        file="functions/receipts/follow_receipts.py",
        old='record_id=derived_id(message.outcome_id, f"receipt.{status}", message.channel, position, position + 1),\n',
        new="record_id=envelope_id(message.outcome_id, str(self._clock.monotonic()).encode()),\n",
        red="receipts come while their function and all it needs fail",
    ),
    Mutant(
        guard="receipts: one device of several bounces nothing",
        file="functions/receipts/follow_receipts.py",
        old="            if not refused.keys() >= set(message.siblings):\n                return\n"
        "            receipt = replace(receipt, reason=_of_all([refused[name] for name in message.siblings]))\n",
        new="            pass\n",
        red="receipts come while their function and all it needs fail",
    ),
    Mutant(
        guard="receipts: whose message nobody knows yet waits",
        file="functions/receipts/follow_receipts.py",
        old="record.tries < len(self._waits_s)",
        new="record.tries < 0",
        red="receipts come long before the outcomes they are about",
    ),
    Mutant(
        guard="receipts: a dead token is told of",
        file="functions/receipts/follow_receipts.py",
        old="            batch.produce(item, topics.DEVICE_STATUS, str(device_id), status, headers)\n",
        new="            str(status)\n",
        red="tokens and addresses turn out dead afterwards",
    ),
    Mutant(
        guard="receipts: only the address that the message was sent to is suppressed",
        file="functions/receipts/follow_receipts.py",
        old="            and address_id(emails[message.user_id]) == address_id(address)\n",
        new="",
        red="tests/unit/receipts/test_follow_receipts.py::test_an_address_that_was_not_sent_to_is_not_suppressed",
        no_cell="no cell forges a receipt",
    ),
    Mutant(
        guard="suppressions: what an earlier version stored stays in force",
        file="masscomm/suppressions.py",
        old="    return ends is None or now_ms < ends\n",
        new="    return ends is not None and now_ms < ends\n",
        red="tests/unit/masscomm/test_suppressions.py::test_an_earlier_versions_suppression_counts_for_ever",
        no_cell="no cell begins with an earlier version's data",
    ),
    Mutant(
        guard="masking: log lines",
        file="masscomm/logs.py",
        old="json.dumps(masked(keys), ",
        new="json.dumps(keys, default=str, ",
        red="tests/unit/test_canary.py::test_a_dependencys_error_lets_no_canary_out",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="masking: libraries' log lines",
        file="masscomm/untrusted.py",
        old="            handler.addFilter(_Masking())\n",
        new="            pass\n",
        red="tests/unit/test_canary.py::test_a_librarys_line_is_masked",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="masking: spans",
        file="masscomm/traces.py",
        old="[_masked(span) for span in taken()]",
        new="taken()",
        red="tests/unit/test_canary.py::test_a_dependencys_error_lets_no_canary_out",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="masking: dead letters' headers",
        file="masscomm/dead_letters.py",
        old="visible(mask(str(error)))",
        new="visible(str(error))",
        red="tests/unit/test_canary.py::test_no_stage_of_a_batch_lets_a_canary_out",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="masking: outcomes",
        file="masscomm/outcomes.py",
        old="decision.rule and mask(decision.rule)",
        new="decision.rule",
        red="tests/unit/test_canary.py::test_a_rules_text_lets_no_canary_out",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="masking: a provider's refusal is a code",
        file="functions/delivery/slices.py",
        old="code_of(rejected)",
        new="str(rejected)[:200]",
        red="tests/unit/delivery/test_deliver.py::test_what_the_provider_will_never_take_has_failed",
        no_cell="cells read no log line for what it must not say",
    ),
    Mutant(
        guard="tls: a database is verified whatever its address asks for",
        file="masscomm/authentication.py",
        old='{"sslmode": "verify-full"}',
        new='{"sslmode": "require"}',
        red="tests/unit/masscomm/test_tls.py::test_a_database_with_another_hosts_certificate_is_refused",
        no_cell="local servers speak plain text",
    ),
    Mutant(
        guard="tls: a broker's certificate is verified",
        file="masscomm/authentication.py",
        old='        "enable.ssl.certificate.verification": True,\n',
        new='        "enable.ssl.certificate.verification": False,\n',
        red="tests/unit/masscomm/test_tls.py::test_a_broker_that_cannot_prove_who_it_is_is_refused",
        no_cell="local servers speak plain text",
    ),
    Mutant(
        guard="terminal: control characters are made visible",
        file="devstack/terminal.py",
        old="Segment(_visible_lines(segment.text), segment.style)",
        new="Segment(segment.text, segment.style)",
        red="tests/unit/devstack/test_terminal.py::test_untrusted_text_is_inert_on_the_console",
        no_cell="cells print nothing",
    ),
    Mutant(
        guard="terminal: markup is text",
        file="devstack/terminal.py",
        old="markup=False",
        new="markup=True",
        red="tests/unit/devstack/test_terminal.py::test_untrusted_text_is_inert_on_the_console",
        no_cell="cells print nothing",
    ),
    Mutant(
        guard="receipts: a dead address is left alone",
        file="functions/receipts/follow_receipts.py",
        old="            self._suppress(receipts, known)\n",
        new="",
        red="tokens and addresses turn out dead afterwards",
    ),
    Mutant(
        guard="quiet hours: looked at again after a long wait",
        file="functions/delivery/deliver.py",
        old="slices.finish(found.settings, found.devices, asleep)",
        new="slices.finish(found.settings, found.devices, {})",
        red="quiet hours begin while SNS is away",
    ),
    Mutant(
        guard="a record is released by one sweep at a time",
        file="functions/scheduler/release_due.py",
        old="self.store.claim(item, self.clock.now_ms())",
        new="True",
        red="tests/unit/scheduler/test_release_due.py",
        no_cell="what is released twice is harmless: the same record under the same id",
    ),
    Mutant(
        guard="builder: a rendering takes a limited number of steps",
        file="functions/builder/rendering.py",
        old="        if self.remaining < self._floor:\n",
        new="        if False:\n",
        red="tests/unit/builder/test_rendering.py::test_a_rendering_takes_a_limited_number_of_steps",
        no_cell=ONE_TENANTS_TEXT,
    ),
    Mutant(
        guard="builder: a filter with hostile arguments ends",
        file="functions/builder/rendering.py",
        old="    if not -_MAX_PRECISION <= _number(precision) <= _MAX_PRECISION:\n",
        new="    if False:\n",
        red="tests/unit/builder/test_rendering.py::test_hostile_templates_end_within_a_cpu_limit",
        no_cell=ONE_TENANTS_TEXT,
    ),
    Mutant(
        guard="builder: a slow template leaves the others of its record their steps",
        file="functions/builder/build_messages.py",
        old="Steps(RECORD_STEPS / 2 * (1 / len(recipients) + number / len(users)))",
        new="Steps(RECORD_STEPS)",
        red="tests/unit/builder/test_rendering.py::test_a_slow_template_uses_up_only_its_share_of_a_record",
        no_cell=ONE_TENANTS_TEXT,
    ),
    Mutant(
        guard="builder: kept templates are bounded in bytes",
        file="functions/builder/templates.py",
        old="        while self.size > self._max_bytes:\n",
        new="        while len(self._entries) > 1_000:\n",
        red="tests/unit/builder/test_rendering.py::test_a_cache_holds_at_most_its_bytes",
        no_cell="no cell fills an environment's memory",
    ),
    Mutant(
        guard="signatures: every header that is sent is signed",
        file="masscomm/aws_signature.py",
        old='    request = canonical_request(method, url, {"host": _host(url), **signed}, body)\n'
        '    names = ";".join(sorted(["host", *signed]))\n',
        new='    request = canonical_request(method, url, {"host": _host(url), "x-amz-date": scope.stamp}, body)\n'
        '    names = "host;x-amz-date"\n',
        red="tests/unit/masscomm/test_aws_signature.py::test_every_header_that_is_received_is_signed",
        no_cell="the stand-ins for AWS take any signature",
    ),
    Mutant(
        guard="signatures: no header is added once a request is signed",
        file="masscomm/aws_request.py",
        old="headers=signed | NOTHING_UNSIGNED",
        new="headers=signed",
        red="tests/unit/masscomm/test_aws_signature.py::test_every_header_of_a_push_is_signed",
        no_cell="the stand-ins for AWS take any signature",
    ),
    Mutant(
        guard="provider calls: the socket of a call whose time is over is shut down",
        file="masscomm/bounded_calls.py",
        old="socket.socket.shutdown(self._socket, socket.SHUT_RDWR)",
        new="pass",
        red="tests/unit/masscomm/test_bounded_calls.py::test_a_call_ends_whatever_the_server_does",
        no_cell="the stand-ins for AWS answer at once or not at all",
    ),
    Mutant(
        guard="push: an endpoint of Apple's sandbox gets the text under its own key",
        file="masscomm/channels/push.py",
        old="return _SANDBOX if ",
        new="return 'APNS' if ",
        red="tests/unit/masscomm/test_channels.py::test_a_push_to_apple_has_the_key_of_its_environment",
        no_cell="the cells' platform applications are those of production",
    ),
    Mutant(
        guard="metrics: an id that was counted is refused",
        file="spark_metrics/counted_ids.py",
        old='from these_ids join counted_records using (record_id, source)"',
        new='from these_ids join counted_records using (record_id, source) where false"',
        red="each record again once it is counted",
    ),
    Mutant(
        guard="metrics: ids that a crash of the server emptied are loaded again",
        file="spark_metrics/counted_ids.py",
        old="            _copy(connection, source, ids)\n            loaded +=",
        new="            loaded +=",
        red="tests/component/spark_metrics/test_sink.py",
        no_cell="of what crashes in a cell nothing comes again that was counted before the crash",
    ),
    Mutant(
        guard="metrics: a task that still stages is waited for",
        file="spark_metrics/staging.py",
        old=" from staging_attempts where attempt = %s for key share",
        new=" from staging_attempts where attempt = %s",
        red="tests/component/spark_metrics/test_sink.py::test_a_run_of_a_task_that_still_stages_is_waited_for",
        no_cell="only a cluster loses an executor whose task goes on",
    ),
    Mutant(
        guard="metrics: what a producer took back is not counted",
        file="spark_metrics/job.py",
        old='"read_committed"',
        new='"read_uncommitted"',
        red="tests/component/spark_metrics/test_job.py::test_what_a_producer_takes_back_is_counted_nowhere",
        no_cell="no cell has a producer with transactions",
    ),
    Mutant(
        guard="metrics: a topic that was made again is another",
        file="spark_metrics/starting.py",
        old="now is not None and before != now",
        new="False",
        red="tests/unit/spark_metrics/test_starting.py::test_topics_that_were_made_again_are_other_topics",
        no_cell="no cell deletes a topic",
    ),
    Mutant(
        guard="metrics: what was refused or counted stays so under another window",
        file="spark_metrics/recompute.py",
        old='F.coalesce("since_us", ',
        new='F.coalesce(F.lit(None).cast("long"), ',
        red="tests/component/spark_metrics/test_archive.py::"
        "test_what_was_refused_or_counted_stays_so_under_another_window",
        no_cell="a cell has one configuration",
    ),
    Mutant(
        guard="metrics: an offset that was counted is left out",
        file="spark_metrics/sink.py",
        old="where first_offset < next_offset\n",
        new="where false\n",
        red="tests/component/spark_metrics/test_sink.py",
        no_cell="the ids of the records are refused as well, for as long as a cell lasts",
    ),
    Mutant(
        guard="metrics: a batch that must be staged anew goes first",
        file="spark_metrics/pipeline.py",
        old="            self._stage_now(batch)\n        staged, batch.staged",
        new="            return\n        staged, batch.staged",
        red="tests/unit/spark_metrics/test_pipeline.py::test_a_merge_that_failed_is_staged_anew_and_goes_first",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="metrics: nothing is merged after what cannot be",
        file="spark_metrics/pipeline.py",
        old="            self._merging, self._failure = None, failure\n",
        new="            self._merging, failure = None, None\n",
        red="tests/unit/spark_metrics/test_pipeline.py::test_after_a_merge_that_cannot_be_nothing_is_merged",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="metrics: two batches are on their way and no third",
        file="spark_metrics/pipeline.py",
        old="            self._turn.wait_for(lambda: self._merging is None or self._failure)\n",
        new="",
        red="tests/unit/spark_metrics/test_pipeline.py::test_a_third_batch_waits_for_the_first",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="metrics: the watermark waits for the merge",
        file="spark_metrics/job.py",
        old='    side = "endOffset" if progress["batchId"] <= merged_up_to else "startOffset"\n',
        new='    side = "endOffset"\n',
        red="tests/unit/spark_metrics/test_starting.py::test_what_spark_has_done_with_is_passed_when_it_is_merged",
        no_cell="a cell asks for a watermark when all is at rest",
    ),
    Mutant(
        guard="metrics: an attempt leaves what is staged beside it",
        file="spark_metrics/sink.py",
        old='connection.execute(_DROP_OTHERS, {"beside": list(beside)})',
        new='connection.execute(_DROP_OTHERS, {"beside": []})',
        red="tests/component/spark_metrics/test_sink.py::test_a_batch_is_staged_beside_the_one_that_is_merged",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="metrics: another driver waits for whoever stages",
        file="spark_metrics/sink.py",
        old='_ALONE, _WEAKLY = b"for no key update", b"for key share"\n',
        new='_ALONE, _WEAKLY = b"for no key update", b""\n',
        red="tests/component/spark_metrics/test_sink.py::test_who_stages_is_waited_for",
        no_cell="no cell starts a second driver",
    ),
    Mutant(
        guard="metrics: staged rows that a crash emptied are staged again",
        file="spark_metrics/sink.py",
        old='.execute("delete from staging_attempts where attempt = %s", [attempt.number]).rowcount:\n',
        new='.execute("delete from staging_attempts where attempt = %s", [attempt.number]):\n',
        red="tests/component/spark_metrics/test_sink.py::"
        "test_staged_rows_that_a_crash_emptied_are_not_taken_for_nothing",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive: a compaction removes the values that earlier versions archived",
        file="spark_metrics/archive.py",
        old="written = rows(self.read(paths)).drop(",
        new="written = self.read(paths).drop(",
        red="tests/component/spark_metrics/test_archive.py::test_compaction_removes_values_of_earlier_versions",
        no_cell="no cell begins with an archive of an earlier version",
    ),
    Mutant(
        guard="archive: what was never counted is not read",
        file="spark_metrics/archive.py",
        old="if folder.batch in committed and folder.batch",
        new="if folder.batch",
        red=NEVER_COUNTED,
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive: what was never counted goes",
        file="spark_metrics/batches.py",
        old="        archive.remove(left)\n",
        new="",
        red=NEVER_COUNTED,
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive: what is written beside the staging is waited for",
        file="spark_metrics/archive.py",
        old="            wait([writing])\n",
        new="            raise\n",
        red="tests/component/spark_metrics/test_archive.py::"
        "test_a_batch_that_was_archived_and_could_not_be_staged_is_archived_anew",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive: what cannot be archived is not counted",
        file="spark_metrics/archive.py",
        old="        writing.result()\n",
        new="        wait([writing])\n",
        red="tests/component/spark_metrics/test_archive.py::test_a_batch_that_cannot_be_archived_is_not_counted",
        no_cell="a cell takes no disk away",
    ),
    Mutant(
        guard="archive: replays are left out",
        file="spark_metrics/batches.py",
        old="            if self.archive is not None:\n",
        new="            if False:\n",
        red="tests/component/spark_metrics/test_archive.py::"
        "test_what_proves_to_be_a_replay_only_when_it_is_merged_is_archived_once",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive: written by one at a time",
        file="spark_metrics/archive.py",
        old="        self._alone = threading.Lock()\n",
        new="        self._alone = threading.BoundedSemaphore(9)\n",
        red="tests/component/spark_metrics/test_archive.py::test_one_at_a_time_writes_the_archive_or_removes_from_it",
        no_cell=BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="erase: endpoints of other users' devices stay",
        file="erasure/search_indices.py",
        old="for arn in arns - self._used_by_others(arns, [state.id for state in states]):",
        new="for arn in arns:",
        red="tests/component/erasure/test_search_indices.py::test_endpoints_go_but_those_of_other_users_stay",
        no_cell=ERASES_NOBODY,
    ),
    Mutant(
        guard="erase: only the data of that tenant's user",
        file="erasure/delayed_records.py",
        old='if record["club_id"] != person.club_id or not rows:',
        new="if not rows:",
        red="tests/unit/erasure/test_delayed_records.py::test_record_of_another_club_or_user_stays_as_it_is",
        no_cell=ERASES_NOBODY,
    ),
    Mutant(
        guard="erase: the directory's rows stay while a store is unfinished",
        file="erasure/command.py",
        old="    if report.failed:\n",
        new="    if False:\n",
        red="tests/unit/erasure/test_command.py::test_failing_store_keeps_the_directory_rows_and_is_reported",
        no_cell=ERASES_NOBODY,
    ),
    Mutant(
        guard="erase: the archive names the same user as the log",
        file="erasure/metrics_store.py",
        old='facts.withColumn("user_ids", _erased_users(person)) if logged else facts',
        new="facts",
        red="tests/component/spark_metrics/test_archive.py::test_erased_user_is_named_nowhere_and_counts_stay",
        no_cell=ERASES_NOBODY,
    ),
    Mutant(
        guard="prepared plans: each batch's own rows",
        file="spark_metrics/prepared.py",
        old="            return _scan(self.node, leaves[self.source])\n",
        new="            return self.node\n",
        red="tests/unit/spark_metrics/test_prepared.py::test_each_batch_has_its_own_rows_and_is_not_planned_again",
        no_cell=PLANS,
    ),
    Mutant(
        guard="prepared plans: of other columns another",
        file="spark_metrics/prepared.py",
        old="        if known is not None and known.reads(leaves):\n",
        new="        if known is not None:\n",
        red="tests/unit/spark_metrics/test_prepared.py::test_other_columns_are_planned_for",
        no_cell=PLANS,
    ),
    Mutant(
        guard="prepared plans: a query within an expression is asked each time",
        file="spark_metrics/prepared.py",
        old="    if not node.subqueries().isEmpty():\n",
        new="    if False:\n",
        red="tests/unit/spark_metrics/test_prepared.py::test_what_cannot_be_used_again_is_made_again",
        no_cell=PLANS,
    ),
    Mutant(
        guard="views: the time and chance are no part of one",
        file="spark_metrics/views.py",
        old="        if not is_repeatable(rows):\n",
        new="        if False:\n",
        red="tests/unit/spark_metrics/test_views.py::"
        "test_a_transform_that_would_count_otherwise_the_next_time_is_refused",
        no_cell=PLANS,
    ),
    Mutant(
        guard="delay store: parts belong to a copy",
        file="masscomm/waiting_dynamodb.py",
        old="        copy = str(uuid4())\n",
        new="        copy = item.id\n",
        red="tests/component/scheduler/test_dynamodb_waiting_store.py",
        no_cell="no cell delays a record of more than 350 kB twice",
    ),
    Mutant(
        guard="delay store: an unreadable item is skipped",
        file="masscomm/waiting_dynamodb.py",
        old="        except (LookupError, ValueError, TypeError, AttributeError, zlib.error) as error:\n",
        new="        except ArithmeticError as error:\n",
        red="tests/component/scheduler/test_dynamodb_waiting_store.py::"
        "test_whatever_stands_in_a_row_the_others_are_found",
        no_cell="every way to be unreadable is tried",
    ),
    Mutant(
        guard="delay store: items of the previous form are released",
        file="masscomm/waiting_dynamodb.py",
        old="        yield from self._due_in_previous_form(now_ms, closed, critical=critical)\n",
        new="",
        red="tests/component/scheduler/test_dynamodb_waiting_store.py::"
        "test_items_of_the_previous_form_are_released_whole",
        no_cell="a cell starts with empty tables",
    ),
    Mutant(
        guard="scheduler: a send that its checker puts aside does not come back",
        file="functions/scheduler/take_back.py",
        old="        if given_up.bad is not None:\n",
        new="        if False:\n",
        red="tests/unit/scheduler/test_take_back.py::test_a_send_that_its_checker_would_put_aside_does_not_come_back",
        no_cell="every reason to be put aside is tried",
    ),
    Mutant(
        guard="limits: what is copied is bounded as a whole",
        file="masscomm/limits.py",
        old="MAX_COPIED_BYTES = MAX_DATA_BYTES + _BYTES_A_CHARACTER *",
        new="MAX_COPIED_BYTES = MAX_DATA_BYTES + 0 *",
        red="tests/unit/test_limits.py::test_what_is_accepted_is_no_dead_letter",
        no_cell="requests at every limit are tried",
    ),
    Mutant(
        guard="mandatory messages wait for no settings",
        file="masscomm/preferences.py",
        old="(settings is None and not category(type).mandatory)",
        new="settings is None",
        red="tests/unit/preference_checker/test_check_preferences.py::test_a_mandatory_message_waits_for_no_settings",
        no_cell="in a cell the directory is behind for everybody or for nobody",
    ),
    Mutant(
        guard="scheduler: critical records of all minutes go first",
        file="functions/scheduler/release_due.py",
        old="for lane in (True, False))\n",
        new="for lane in (False, True))\n",
        red="tests/unit/scheduler/test_release_due.py::test_twenty_thousand_held_items_delay_no_critical_one",
        no_cell="no cell holds 20,000 records",
    ),
    Mutant(
        guard="directory: an answer of another generation ends the proof",
        file="masscomm/opensearch_directory.py",
        old="            if table in CDC_TABLES and generation != confirmed[0]:\n",
        new="            if False:\n",
        red="tests/unit/masscomm/test_directory_generations.py",
        no_cell="the aliases move within a second in a cell",
    ),
    Mutant(
        guard="directory: a generation that is behind does not answer",
        file="functions/cdc_consumer/generation.py",
        old=" > MAX_LAG_MS and self._replaces_another():\n",
        new=" < 0:\n",
        red="tests/unit/cdc_consumer/test_apply_changes.py::test_aliases_move_to_a_generation_that_is_not_behind",
        no_cell="no consumer of a cell is far behind",
    ),
    Mutant(
        guard="device states: LSNs order the rows of two generations",
        file="functions/device_registrar/register_devices.py",
        old="    return row.lsn >= state.version\n",
        new="    return row.version >= state.version\n",
        red="tests/unit/device_registrar/test_register_devices.py",
        no_cell="a test of each order is faster and as sure",
    ),
    Mutant(
        guard="JSON: nesting is bounded",
        file="masscomm/json_reader.py",
        old="    except RecursionError as error:\n",
        new="    except KeyError as error:\n",
        red="tests/unit/test_hostile_records.py::test_each_hostile_record_has_one_fate",
        no_cell="a test of every topic is faster and as sure",
    ),
    Mutant(
        guard="JSON: half of a surrogate pair is refused",
        file="masscomm/json_reader.py",
        old="    if bounded and _SURROGATE.search(decoded):\n",
        new="    if False:\n",
        red="tests/unit/masscomm/test_json_reader.py",
        no_cell="a test of every topic is faster and as sure",
    ),
    Mutant(
        guard="directory: a document that OpenSearch refuses costs no other",
        file="masscomm/opensearch.py",
        old="        if not _is_about_documents(error):\n",
        new="        if True:\n",
        red="tests/unit/masscomm/test_opensearch_answers.py::test_one_refused_document_costs_no_other",
        no_cell="the decoders refuse what OpenSearch is known to",
    ),
)


class DoesNotApply(Exception):
    """A mutant's patch does not fit the tree exactly once."""


@contextmanager
def mutated(mutant: Mutant) -> Iterator[Path]:
    """A copy of the tree without the guard. Errors: DoesNotApply."""
    with tempfile.TemporaryDirectory(prefix="masscomm-mutant-") as folder:
        copy = Path(folder)
        for name in TREES:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for name in (".venv", ".devstack"):
            (copy / name).symlink_to(ROOT / name)
        path = copy / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise DoesNotApply(f"{mutant.file} has it {text.count(mutant.old)} times: {mutant.old!r}")
        path.write_text(text.replace(mutant.old, mutant.new))
        yield copy


def red_by_test(copy: Path, test: str) -> str | None:
    """What fails in the copy; None where nothing does."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", test],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    # An import error or a missing test is no proof.
    return failed[0].removeprefix("FAILED ").split(" - ")[0] if done.returncode == 1 and failed else None


def red_by_cell(bench: Bench, copy: Path, cell: Cell, *, in_job: bool) -> str | None:
    """What is wrong after the cell on the mutated tree; None where nothing is. in_job: the guard is Spark's."""
    bench.stack.use(copy)
    # What the mutant before left undone may end now, and would be counted in the same minutes.
    bench.by_minute, bench.patience_s = in_job, cell.patience_s
    result = bench.run(cell)
    if result.ok:
        return None
    # What it left undone ends with the guard in place, or the next mutant would be seen to do it.
    bench.stack.use(ROOT)
    until("nothing is left of it", bench.at_rest, 120, every_s=0.2)
    return result.describe()[:150]


def run(mutants: Sequence[Mutant]) -> int:
    """How many were not shown to be needed."""
    cells = {cell.name: cell for cell in CELLS}
    survivors = 0
    rows: list[dict[str, object]] = []

    def tell(mutant: Mutant, red: str | None, began: float) -> None:
        nonlocal survivors
        survivors += red is None
        rows.append(
            {
                "guard": mutant.guard,
                "file": mutant.file,
                "red": mutant.red,
                "no_cell": mutant.no_cell,
                "how": red,
                "seconds": round(time.monotonic() - began, 1),
                "ok": red is not None,
            }
        )
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(json.dumps(rows, indent=2) + "\n")
        word = "SURVIVED" if red is None else "red"
        sys.stdout.write(f"{word:9} {time.monotonic() - began:5.0f} s  {mutant.guard}\n{'':20}{mutant.red}: {red}\n")
        sys.stdout.flush()

    for mutant in (each for each in mutants if each.red not in cells):
        began = time.monotonic()
        try:
            with mutated(mutant) as copy:
                tell(mutant, red_by_test(copy, mutant.red), began)
        except DoesNotApply as error:
            sys.stdout.write(f"{error}\n")
            tell(mutant, None, began)
    by_cell = sorted((each for each in mutants if each.red in cells), key=lambda mutant: not mutant.in_job)
    if by_cell:
        with (
            tempfile.TemporaryDirectory(prefix="masscomm-faults-") as folder,
            FaultStack(Path(folder)) as stack,
            Bench.on(stack) as bench,
        ):
            for mutant in by_cell:
                began = time.monotonic()
                try:
                    with mutated(mutant) as copy:
                        tell(mutant, red_by_cell(bench, copy, cells[mutant.red], in_job=mutant.in_job), began)
                except DoesNotApply as error:
                    sys.stdout.write(f"{error}\n")
                    tell(mutant, None, began)
    return survivors


def main() -> int:
    """0 where every guard is needed."""
    parser = argparse.ArgumentParser(description="Show that every guard is needed.")
    parser.add_argument("--only", default="", help="mutants whose guard or cell has this text in it")
    parser.add_argument("--part", default="1/1", help="of those: the second of five parts is 2/5")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.guard or arguments.only in mutant.red]
    part, parts = map(int, arguments.part.split("/"))
    chosen = chosen[len(chosen) * (part - 1) // parts : len(chosen) * part // parts]
    survivors = run(chosen)
    sys.stdout.write(f"{len(chosen)} guards, {survivors} that nothing would miss\n")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    raise SystemExit(main())
