"""The guards of the product code, and the proof that each is needed.

A comment in the code names each guard (tests/faults/mutation.py). Without the guard the named cell must fail; if no
cell can detect it, a test that is marked `kills(guard="...")` must fail, and `no_cell` gives the reason.
"""

from dataclasses import dataclass

from tests.faults.mutation import Always, Argument, Becomes, Change, Never, Removed, Replaced, Returns, Without


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One guard that is removed, and the cell or tests that must then fail."""

    guard: str
    # The rule that the guard enforces.
    rule: str
    change: Change
    # The cell of the fault matrix that must fail without the guard.
    cell: str = ""
    # The reason why no cell detects the removal, so that tests must fail instead.
    no_cell: str = ""


NOT_BETWEEN_STAGING_AND_MERGE = "no cell kills a process between the staging and the merge of a batch"
EXAMPLE_TEMPLATES = "the cells render only the example monolith's templates"
ONE_PLAN = "no cell changes the columns or the query of a batch"
NO_ERASURE = "no cell erases a person"
NO_LATE_SCHEMA = "no cell registers a schema after a record that uses it"
IDENTITY_ALWAYS = "the local gateway always passes an identity"
NO_SUCH_ID = "a cell's registry answers such ids as it answers unknown ones"
LOGS_UNREAD = "the cells do not search logs, headers and outcomes for personal data"
PLAIN_TEXT = "local servers use no TLS"
NOTHING_PRINTED = "the cells print nothing"
ANY_SIGNATURE = "the stand-ins for AWS accept any signature"
REPLACED_GENERATION = "a generation of the directory is replaced while functions and connectors die"
ONE_CANCELLATION = "the cells cancel one send on its way"
LIMITED_KEYS = "the development key, which the cells use, has no limits"
UNAUDITED = "the cells do not read the audit log"
NO_AUDIENCE = "the cells send to lists of users"
SIMULATED = "the cells send to users, with a live key"
NO_PEOPLE = "the cells request sends with keys"
ONE_CALLER = "the cells repeat one request of one tenant"
UNCHANGED_PREFERENCES = "no cell changes preferences through masscomm"
NO_WEBHOOK = "no cell has an endpoint of webhooks"
TEST_OF_EVERY_TOPIC = "a test of every topic is faster and as certain"

MUTANTS = (
    Mutant(
        guard="tenancy.caller_without_tenant",
        rule="Every route refuses a caller without a tenant.",
        change=Never(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tokens.size",
        rule="A token above the maximum size is not parsed.",
        change=Never(),
        no_cell=NO_PEOPLE,
    ),
    Mutant(
        guard="tokens.expired",
        rule="A token is refused after its end.",
        change=Never(),
        no_cell=NO_PEOPLE,
    ),
    Mutant(
        guard="tokens.malformed_clubs",
        rule="A token whose clubs are malformed permits no club.",
        change=Returns("{EVERY_CLUB: 'true'}"),
        no_cell=NO_PEOPLE,
    ),
    Mutant(
        guard="tokens.bounded_refetch",
        rule="Unknown key ids do not make the API read the issuer's keys for each request.",
        change=Never(),
        no_cell=NO_PEOPLE,
    ),
    Mutant(
        guard="tenancy.absent_context",
        rule="A request without an authorizer's context may read no tenant.",
        change=Returns("ALL_CLUBS"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.other_tenants_user",
        rule="A user of another tenant is handled as an unknown user: the request waits for the directory.",
        change=Becomes("user is None"),
        no_cell="no cell has both late change data capture and users of another tenant",
    ),
    Mutant(
        guard="registry.schema_id_range",
        rule="The schema registry is not asked for a number that is no schema id.",
        change=Never(),
        no_cell=NO_SUCH_ID,
    ),
    Mutant(
        guard="registry.known_schema",
        rule="The registry's 404 counts only while it knows our own schema.",
        change=Never(),
        no_cell="no cell empties the registry",
    ),
    Mutant(
        guard="registry.denied_id_is_retried",
        rule="A record with an unknown schema id is retried before it is dead-lettered.",
        change=Never(),
        no_cell=NO_LATE_SCHEMA,
    ),
    Mutant(
        guard="registry.denied_id_expires",
        rule="The retries of an unknown schema id end.",
        change=Never(),
        cell="unknown schema id",
    ),
    Mutant(
        guard="metrics.schema_id_range",
        rule="The job quarantines a number that is no schema id, and does not ask the registry.",
        change=Without(2),
        no_cell=NO_SUCH_ID,
    ),
    Mutant(
        guard="metrics.position_header",
        rule="A position header that is not UTF-8 quarantines its record and fails no batch.",
        change=Becomes('F.decode(header(SOURCE_TOPIC), "UTF-8")'),
        no_cell="one record shows it faster than a flood",
    ),
    Mutant(
        guard="metrics.bytes_left_over",
        rule="A value with bytes left over is quarantined, as the functions dead-letter it.",
        change=Becomes("F.lit(True)"),
        no_cell=TEST_OF_EVERY_TOPIC,
    ),
    Mutant(
        guard="metrics.texts_not_counted",
        rule="A send with a text that is not UTF-8 is quarantined, whatever field the text is in.",
        change=Returns("whole"),
        no_cell=TEST_OF_EVERY_TOPIC,
    ),
    Mutant(
        guard="metrics.counted_by_earlier_version",
        rule="A recompute counts the records that an earlier version counted.",
        change=Becomes("True"),
        no_cell="no cell begins with an archive of an earlier version",
    ),
    Mutant(
        guard="metrics.permanent_postgres_error",
        rule="The job quarantines records that Postgres refuses permanently.",
        change=Never(),
        no_cell="no cell has a constraint that a record violates",
    ),
    Mutant(
        guard="metrics.denied_id_is_retried",
        rule="The job asks again for an unknown schema before it quarantines the record.",
        change=Returns("Learned(added, refused, False)"),
        no_cell=NO_LATE_SCHEMA,
    ),
    Mutant(
        guard="metrics.counted_ids",
        rule="A record whose id is counted is not counted again.",
        change=Becomes('GUARDED + " where false"'),
        cell="each record repeated after it is counted",
    ),
    Mutant(
        guard="metrics.counted_ids_after_crash",
        rule="Counted ids are loaded again after a crash of Postgres has emptied the unlogged table.",
        change=Removed(),
        no_cell="in a cell no record that was counted before a crash is redelivered",
    ),
    Mutant(
        guard="metrics.staging_task",
        rule="A merge waits for tasks that still stage.",
        change=Becomes('GUARDED.replace(b" for key share", b"")'),
        no_cell="only a cluster loses an executor whose task goes on",
    ),
    Mutant(
        guard="metrics.read_committed",
        rule="Records of an aborted transaction are not counted.",
        change=Becomes('"read_uncommitted"'),
        no_cell="no cell has a producer with transactions",
    ),
    Mutant(
        guard="metrics.topic_id",
        rule="A topic that was deleted and made again is another topic.",
        change=Never(),
        no_cell="no cell deletes a topic",
    ),
    Mutant(
        guard="metrics.remembered_window",
        rule="A recompute with another window keeps which records were refused or counted.",
        change=Argument(2),
        no_cell="a cell has one configuration",
    ),
    Mutant(
        guard="metrics.counted_offsets",
        rule="An offset that is counted is left out.",
        change=Becomes('GUARDED + b" and false"'),
        no_cell="the ids of the records are refused as well, for as long as a cell lasts",
    ),
    Mutant(
        guard="metrics.second_driver",
        rule="A second driver waits for the driver that stages.",
        change=Becomes('b"for no key update", b""'),
        no_cell="no cell starts a second driver",
    ),
    Mutant(
        guard="metrics.lost_staging",
        rule="Staged rows that a crash of Postgres has emptied are staged again.",
        change=Becomes("GUARDED and False"),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="opensearch.wrong_address",
        rule="A wrong address of OpenSearch dead-letters no document.",
        change=Without(2),
        no_cell="no cell has a wrong address",
    ),
    Mutant(
        guard="opensearch.refused_document",
        rule="A document that OpenSearch refuses fails no other document.",
        change=Always(),
        no_cell="the decoders refuse the documents that OpenSearch is known to refuse",
    ),
    Mutant(
        guard="dynamodb.refused_item",
        rule="An item that no DynamoDB table takes is the record's fault.",
        change=Never(),
        no_cell="no cell has an item of that size",
    ),
    Mutant(
        guard="dynamodb.item_size",
        rule="A value larger than an item of DynamoDB is stored in several items.",
        change=Becomes("350_000_000"),
        cell="a slice that no item of DynamoDB holds",
    ),
    Mutant(
        guard="dynamodb.transaction_size",
        rule="A transaction of DynamoDB has at most 100 items and 4 MB.",
        change=Never(),
        no_cell="no cell has a batch of that size",
    ),
    Mutant(
        guard="dynamodb.transaction_token",
        rule="A repeated transaction of DynamoDB is the first one.",
        change=Becomes("None"),
        no_cell="no cell loses the answer of DynamoDB alone",
    ),
    Mutant(
        guard="delivery_ledger.absent_item",
        rule="A lease or slice of many records is written only where none is stored.",
        change=Becomes('"attribute_not_exists(absent)"'),
        no_cell="tests of two owners are faster and as certain",
    ),
    Mutant(
        guard="delivery_ledger.recorded_results",
        rule="Results in the delivery ledger are not published again.",
        change=Without(2),
        cell="delivery killed in the middle of publishing",
    ),
    Mutant(
        guard="delivery_ledger.slice_by_slice",
        rule="A slice is recorded before the next slice begins.",
        change=Becomes("{record_id: None for record_id in pending}"),
        cell="delivery killed in the middle of publishing",
    ),
    Mutant(
        guard="delivery_ledger.first_write_wins",
        rule="The first result of a recipient is kept.",
        change=Always(),
        cell="an opt-out between two deliveries of one batch",
    ),
    Mutant(
        guard="delivery_ledger.other_recipients",
        rule="Other recipients under a recorded id have outcomes.",
        change=Never(),
        cell="a chunk index reused for other users",
    ),
    Mutant(
        guard="delivery_ledger.write_retry",
        rule="A failed write of the ledger is retried before the next slice.",
        change=Always(),
        cell="DynamoDB down while publishing",
    ),
    Mutant(
        guard="lease.one_holder",
        rule="One invocation at a time leases a record.",
        change=Becomes('GUARDED + " OR until_ms > :lapsed"'),
        cell="the same batch twice at the same time",
    ),
    Mutant(
        guard="lease.lost_lease",
        rule="An invocation that lost its lease begins no further call.",
        change=Argument(1),
        cell="delivery asleep for longer than its lease",
    ),
    Mutant(
        guard="endpoints.ready_devices",
        rule="Devices with an endpoint do not wait for devices without one.",
        change=Becomes("[] if any(map(_is_unregistered, devices)) else devices"),
        cell="devices whose endpoints come late or never",
    ),
    Mutant(
        guard="endpoints.refused_row",
        rule="The state of a refused row ends the wait for its endpoint.",
        change=Replaced('raise DeadLetter("invalid", "no endpoint")'),
        no_cell="a cell ends before the wait of a minute does, so an endless wait looks the same",
    ),
    Mutant(
        guard="endpoints.dead_endpoint",
        rule="An endpoint that the provider refuses permanently is reported to the device registrar.",
        change=Removed(),
        cell="SNS responds EndpointDisabled",
    ),
    Mutant(
        guard="endpoints.disabled_endpoint",
        rule="A disabled endpoint is not called.",
        change=Without(1),
        cell="SNS responds EndpointDisabled for one device of two",
    ),
    Mutant(
        guard="endpoints.each_device",
        rule="Each device of a recipient is tried.",
        change=Becomes("len(errors) == len(answers) and any(isinstance(error, Transient) for error in errors)"),
        cell="a platform application is disabled until an operator enables it",
    ),
    Mutant(
        guard="ids.delayed_part",
        rule="A delayed part has the same id at each attempt.",
        change=Becomes(
            'released_id(request.record_id, f"{_DIRECTORY}{request.waits}", request.range_start, request.range_end)'
        ),
        no_cell="the second copy is published after the cell has ended",
    ),
    Mutant(
        guard="ids.derived_id",
        rule="A derived id follows from its parent and positions.",
        change=Replaced("from uuid import uuid4\n\nreturn str(uuid4())"),
        cell="builder killed after producing",
    ),
    Mutant(
        guard="delivery.delayed_users",
        rule="The users of a delayed record are looked up again before publishing.",
        change=Never(),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="delivery.expires_at",
        rule="No notification is published after expires_at.",
        change=Never(),
        cell="the send expires while SNS is down",
    ),
    Mutant(
        guard="preferences.opt_out_before_publishing",
        rule="Opt-outs are checked right before publishing.",
        change=Never(),
        cell="an opt-out between two deliveries of one batch",
    ),
    Mutant(
        guard="preferences.mandatory_without_settings",
        rule="A mandatory message does not wait for user settings.",
        change=Without(2),
        no_cell="in a cell the directory is behind for all users or for none",
    ),
    Mutant(
        guard="batch.delivery_report",
        rule="A record whose delivery report has an error is redelivered.",
        change=Removed(),
        cell="records of delivery unacknowledged for longer than the producer waits",
    ),
    Mutant(
        guard="directory.error_is_no_absence",
        rule="An error in a look-up by id is not read as an absent document.",
        change=Replaced("return None"),
        cell="OpenSearch answers a look-up by id in part",
    ),
    Mutant(
        guard="directory.partial_search",
        rule="A partial search is no answer.",
        change=Without(1),
        cell="OpenSearch answers a search in part",
    ),
    Mutant(
        guard="directory.unknown_user",
        rule="A user counts as unknown only when change data capture has passed the time of the send.",
        change=Removed(),
        cell="a user created while change data capture is down",
    ),
    Mutant(
        guard="directory.one_generation",
        rule="An answer of another generation than the confirmed one is no proof.",
        change=Never(),
        no_cell="the aliases move within a second in a cell",
    ),
    Mutant(
        guard="directory.generation_behind",
        rule="A generation that is behind does not answer.",
        change=Never(),
        no_cell="no consumer of a cell is far behind",
    ),
    Mutant(
        guard="directory.generation_streamed",
        rule="A generation that has not streamed the changes since its snapshot does not answer.",
        change=Replaced("self._unwritten = None"),
        no_cell="no connector of a cell is behind for longer than 15 s",
    ),
    Mutant(
        guard="directory.generation_written",
        rule="The targets are read once Connect has stored a position behind a heartbeat.",
        change=Without(2),
        no_cell="no cell holds the partitions of one table alone",
    ),
    Mutant(
        guard="directory.answering_generation",
        rule="Completeness is proved for the generation that answers, not for the latest one.",
        change=Becomes(
            'max(index.rpartition("-")[2] for index in self._client.indices.get_alias(index=f"{DEVICES}-*"))'
        ),
        cell=REPLACED_GENERATION,
    ),
    Mutant(
        guard="directory.later_generation",
        rule="A consumer of an old generation does not move the aliases back.",
        change=Never(),
        no_cell="no old consumer of a cell starts after the aliases have moved",
    ),
    Mutant(
        guard="devices.every_generation",
        rule="Devices of the old and of the new generation are registered until the aliases move.",
        change=Becomes("ChangeDecoder(generations[0])"),
        cell=REPLACED_GENERATION,
    ),
    Mutant(
        guard="devices.recorded_generation",
        rule="The state of a device carries its generation.",
        change=Becomes("None"),
        cell=REPLACED_GENERATION,
    ),
    Mutant(
        guard="provider_errors.throttling",
        rule="Throttling is no refusal.",
        change=Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
        cell="SNS throttles",
    ),
    Mutant(
        guard="provider_errors.expired_credentials",
        rule="Expired credentials fail no recipient.",
        change=Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
        cell="SNS responds that credentials have expired",
    ),
    Mutant(
        guard="provider.rate_limit",
        rule="Calls keep the provider's rate.",
        change=Always(),
        cell="SNS throttles",
    ),
    Mutant(
        guard="provider.time_budget",
        rule="No call begins that could outlive the invocation.",
        change=Always(),
        cell="the provider is slower than an invocation is long",
    ),
    Mutant(
        guard="provider.circuit_breaker",
        rule="A disabled platform application is not called.",
        change=Becomes("self._clock.monotonic() - 1"),
        cell="a platform application is disabled until an operator enables it",
    ),
    Mutant(
        guard="provider.call_deadline",
        rule="A provider call fails at its deadline.",
        change=Removed(),
        no_cell="the stand-ins for AWS answer at once or not at all",
    ),
    Mutant(
        guard="pooled_http.call_deadline",
        rule="A request to DynamoDB or OpenSearch fails at its deadline.",
        change=Removed(),
        no_cell="the stand-ins for AWS answer at once or not at all",
    ),
    Mutant(
        guard="pooled_http.ended_connection",
        rule="No request is sent on a connection that the server has ended.",
        change=Returns("True"),
        no_cell="the servers of the stack keep idle connections for the whole run",
    ),
    Mutant(
        guard="signatures.renewed",
        rule="A signer is used for a second, and not after the clock was set back.",
        change=Becomes("signer is None"),
        no_cell=ANY_SIGNATURE,
    ),
    Mutant(
        guard="aws_requests.call_deadline",
        rule="The socket of a request to AWS is shut down at its deadline.",
        change=Removed(),
        no_cell="the stand-ins for AWS answer at once or not at all",
    ),
    Mutant(
        guard="suppressions.before_publishing",
        rule="No message is published to an address on the suppression list.",
        change=Never(),
        cell="an address on the suppression list",
    ),
    Mutant(
        guard="suppressions.previous_form",
        rule="A suppression without an end, as an earlier version stored it, stays in force.",
        change=Returns("ends is not None and now_ms < ends"),
        no_cell="no cell begins with an earlier version's data",
    ),
    Mutant(
        guard="decisions.first_write_wins",
        rule="The decision log keeps the first decisions about a record.",
        change=Always(),
        cell="an opt-out between two checks of one batch",
    ),
    Mutant(
        guard="decisions.held_stays_held",
        rule="A HELD recipient stays HELD when the user's settings change before the second check.",
        change=Argument(3),
        cell="preference_checker killed between delaying for quiet hours and its outcome",
    ),
    Mutant(
        guard="on_failure.record_is_read_again",
        rule="A record that its on-failure record leaves out is read again from Kafka.",
        change=Never(),
        cell="OpenSearch down, and the records too large to be handed over",
    ),
    Mutant(
        guard="on_failure.time_out_is_no_crash",
        rule="A function's time-out is no crash.",
        change=Returns("source_record, _LastInvocation.CRASH"),
        cell="a function takes too long for longer than all attempts",
    ),
    Mutant(
        guard="on_failure.max_crashes",
        rule="A record that crashes its function again and again is dead-lettered.",
        change=Never(),
        cell="a record crashes its function at each attempt",
    ),
    Mutant(
        guard="on_failure.delayed_record",
        rule="An on-failure record's recipients are delayed and rescheduled.",
        change=Removed(),
        cell="OpenSearch down for longer than all attempts",
    ),
    Mutant(
        guard="on_failure.refused_send",
        rule="A send that its checker would dead-letter is not rescheduled.",
        change=Never(),
        no_cell="the test tries every reason to be dead-lettered",
    ),
    Mutant(
        guard="dead_letters.outcomes",
        rule="The recipients of a dead letter have outcomes.",
        change=Removed(),
        cell="an oversize record",
    ),
    Mutant(
        guard="dead_letters.undecodable_record",
        rule="An undecodable record is dead-lettered.",
        change=Replaced("result.error = error"),
        cell="poison in the middle of a batch",
    ),
    Mutant(
        guard="broadcast.queue_lease",
        rule="Each tenant that broadcasts has a queue of its own.",
        change=Without(1),
        cell="a tenant's broadcast behind another tenant's larger one",
    ),
    Mutant(
        guard="receipts.same_id",
        rule="A repeated receipt gives an outcome of the same id.",
        change=Becomes("derived_id(message.outcome_id, str(self._clock.monotonic()), message.channel, 0, 1)"),
        cell="receipts arrive while their function and its servers fail",
    ),
    Mutant(
        guard="receipts.one_device_of_several",
        rule="A recipient bounces only when all its devices have refused.",
        change=Never(),
        cell="receipts arrive while their function and its servers fail",
    ),
    Mutant(
        guard="receipts.unknown_message",
        rule="A receipt of a message that is not stored yet is delayed.",
        change=Never(),
        cell="receipts arrive long before their outcomes",
    ),
    Mutant(
        guard="receipts.dead_token",
        rule="A dead token is reported to the device registrar.",
        change=Removed(),
        cell="receipts report inactive tokens and bounced addresses",
    ),
    Mutant(
        guard="receipts.own_address",
        rule="Only the address that the message was sent to is suppressed.",
        change=Always(),
        no_cell="no cell forges a receipt",
    ),
    Mutant(
        guard="receipts.dead_address",
        rule="A dead address is suppressed.",
        change=Removed(),
        cell="receipts report inactive tokens and bounced addresses",
    ),
    Mutant(
        guard="masking.log_lines",
        rule="Log lines are masked.",
        change=Returns('visible_json(json.dumps(keys, default=str, separators=(",", ":"), ensure_ascii=False))'),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="masking.library_log_lines",
        rule="Log lines of libraries are masked.",
        change=Removed(),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="masking.spans",
        rule="Spans are masked.",
        change=Becomes("taken()"),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="masking.dead_letter_headers",
        rule="The headers of a dead letter are masked.",
        change=Argument(1),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="masking.outcomes",
        rule="The rule in an outcome is masked.",
        change=Without(2),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="masking.provider_errors",
        rule="A provider's refusal is stored as a code, without its text.",
        change=Returns('Decision(Status.FAILED, reason, "provider", str(rejected)[:200])'),
        no_cell=LOGS_UNREAD,
    ),
    Mutant(
        guard="tls.database",
        rule="A database's certificate is verified even if its address asks for less.",
        change=Becomes('GUARDED | {"sslmode": "require"}'),
        no_cell=PLAIN_TEXT,
    ),
    Mutant(
        guard="tls.broker",
        rule="A broker's certificate is verified.",
        change=Never(),
        no_cell=PLAIN_TEXT,
    ),
    Mutant(
        guard="terminal.control_characters",
        rule="Control characters are printed visibly.",
        change=Replaced("yield segment"),
        no_cell=NOTHING_PRINTED,
    ),
    Mutant(
        guard="terminal.markup",
        rule="Markup in printed text is not interpreted.",
        change=Always(),
        no_cell=NOTHING_PRINTED,
    ),
    Mutant(
        guard="quiet_hours.recheck",
        rule="Quiet hours are checked again before a delayed notification is published.",
        change=Becomes("{}"),
        cell="quiet hours begin while SNS is down",
    ),
    Mutant(
        guard="delay_store.one_sweep",
        rule="One sweep at a time releases a delayed record.",
        change=Becomes("[item for item in group if self._is_releasable(item)]"),
        no_cell="a record that is released twice has the same id, which is harmless",
    ),
    Mutant(
        guard="delay_store.parts_of_a_copy",
        rule="The parts of a delayed record belong to one copy.",
        change=Becomes("item.id"),
        no_cell="no cell delays a record of more than 350 kB twice",
    ),
    Mutant(
        guard="delay_store.unreadable_item",
        rule="An unreadable item is skipped.",
        change=Never(),
        no_cell="the test tries every way to be unreadable",
    ),
    Mutant(
        guard="delay_store.previous_form",
        rule="Items of the previous form are released.",
        change=Removed(),
        no_cell="a cell starts with empty tables",
    ),
    Mutant(
        guard="delay_store.critical_first",
        rule="Critical records of every minute are released before the others.",
        change=Becomes("[*GUARDED][::-1]"),
        no_cell="no cell holds 20,000 records",
    ),
    Mutant(
        guard="templates.steps",
        rule="A rendering takes a limited number of steps.",
        change=Never(),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="templates.filter_arguments",
        rule="A filter with hostile arguments ends.",
        change=Never(),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="templates.loop_items",
        rule="A loop has a limited number of items.",
        change=Never(),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="templates.share_of_steps",
        rule="A slow template leaves the other templates of its record their steps.",
        change=Becomes("Steps(RECORD_STEPS)"),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="templates.cache_bytes",
        rule="The cache of templates is bounded in bytes.",
        change=Becomes("len(self._entries) > 1_000"),
        no_cell="no cell fills an environment's memory",
    ),
    Mutant(
        guard="tenancy.previewed_user",
        rule="A preview reads no user of another tenant.",
        change=Becomes("user is None"),
        no_cell="no cell has another tenant's caller",
    ),
    Mutant(
        guard="tenancy.listed_templates",
        rule="The list of templates has those of the given clubs and of every club.",
        change=Never(),
        no_cell="no cell has another tenant's caller",
    ),
    Mutant(
        guard="templates.own_recipients_data",
        rule="A derived record has the variables of its own recipients only.",
        change=Never(),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="templates.own_data_is_not_shared",
        rule="A text with a recipient's own variables is no other recipient's.",
        change=Becomes("field.personal"),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="scopes.own_words",
        rule="Own words of a single recipient need the scope of own words.",
        change=Becomes("_LITERAL <= send.data.keys()"),
        no_cell="cells use keys of every scope",
    ),
    Mutant(
        guard="scopes.dry_run",
        rule="The counts of a dry run need the scope that the counts of a send need.",
        change=Removed(),
        no_cell="cells use keys of every scope",
    ),
    Mutant(
        guard="scopes.dry_run_samples",
        rule="The messages of single users in a dry run need the scope of reading users.",
        change=Becomes("True"),
        no_cell="cells use keys of every scope",
    ),
    Mutant(
        guard="templates.saved_template",
        rule="A template from which no message can be rendered does not replace the previous version.",
        change=Becomes("None"),
        no_cell=EXAMPLE_TEMPLATES,
    ),
    Mutant(
        guard="accepted_sends.do_not_queue",
        rule="While DynamoDB hangs, only one send waits for its record.",
        change=Never(),
        no_cell="cells interrupt DynamoDB for every function at once",
    ),
    Mutant(
        guard="templates.warnings_do_not_queue",
        rule="While the directory hangs, only one send waits for its warnings.",
        change=Never(),
        no_cell="warnings change no notification",
    ),
    Mutant(
        guard="signatures.all_headers",
        rule="Every header of a request is signed.",
        change=Becomes('{"host": host_header(url), "x-amz-date": scope.stamp}'),
        no_cell=ANY_SIGNATURE,
    ),
    Mutant(
        guard="signatures.no_later_header",
        rule="The HTTP client adds no header to a signed request.",
        change=Without(2),
        no_cell=ANY_SIGNATURE,
    ),
    Mutant(
        guard="push.sandbox_key",
        rule="An endpoint of Apple's sandbox gets the text under its own key.",
        change=Never(),
        no_cell="the cells' platform applications are those of production",
    ),
    Mutant(
        guard="archive.values_of_earlier_versions",
        rule="A compaction removes the values that earlier versions archived.",
        change=Becomes('self.read(paths).drop("date", "hour", "batch")'),
        no_cell="no cell begins with an archive of an earlier version",
    ),
    Mutant(
        guard="archive.uncounted_batch_is_not_read",
        rule="Files of a batch that was never counted are not read.",
        change=Without(1),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive.uncounted_batch_is_removed",
        rule="Files of a batch that was never counted are removed.",
        change=Removed(),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive.concurrent_write",
        rule="A failed staging waits for the end of the concurrent write of the archive.",
        change=Replaced("raise"),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="archive.failed_write",
        rule="A batch that cannot be archived is not counted.",
        change=Becomes("wait([writing])"),
        no_cell="no cell makes the archive's disk fail",
    ),
    Mutant(
        guard="archive.replays",
        rule="Replayed records are left out of the archive.",
        change=Never(),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="erasure.snapshots",
        rule="The snapshots that still name an erased person are removed.",
        change=Removed(),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="archive.one_append",
        rule="Two writers never append the same offsets to the archive.",
        change=Becomes('writer.overwrite(F.col("at") == F.lit(MARK))'),
        no_cell="no cell runs two drivers",
    ),
    Mutant(
        guard="archive.one_writer",
        rule="One thread at a time writes the archive or removes from it.",
        change=Becomes("threading.BoundedSemaphore(9)"),
        no_cell=NOT_BETWEEN_STAGING_AND_MERGE,
    ),
    Mutant(
        guard="erasure.other_users_endpoints",
        rule="Endpoints that other users' devices use are kept.",
        change=Without(2),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="erasure.other_tenants_user",
        rule="Only the data of that tenant's user is erased.",
        change=Without(1),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="erasure.directory_last",
        rule="The directory's rows are kept until every other store is erased.",
        change=Never(),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="erasure.archive",
        rule="The archive names an erased user as the log does.",
        change=Never(),
        no_cell=NO_ERASURE,
    ),
    Mutant(
        guard="views.repeatable",
        rule="A view that depends on the time or on chance is refused.",
        change=Never(),
        no_cell=ONE_PLAN,
    ),
    Mutant(
        guard="channels.each_has_a_sender",
        rule="Delivery does not start while a channel has no sender.",
        change=Never(),
        no_cell="a deployment has a sender for each channel",
    ),
    Mutant(
        guard="limits.copied_fields",
        rule="The fields that each derived record copies are bounded together.",
        change=Becomes('FIELDS_OF_SEND["data"].max_bytes'),
        no_cell="the test sends requests at every limit",
    ),
    Mutant(
        guard="devices.lsn_order",
        rule="LSNs order the rows of two generations.",
        change=Returns("row.version >= state.version"),
        no_cell="a test of each order is faster and as certain",
    ),
    Mutant(
        guard="json.nesting",
        rule="The nesting of JSON is bounded.",
        change=Never(),
        no_cell=TEST_OF_EVERY_TOPIC,
    ),
    Mutant(
        guard="json.surrogates",
        rule="Half of a surrogate pair is refused.",
        change=Never(),
        no_cell=TEST_OF_EVERY_TOPIC,
    ),
    Mutant(
        guard="decisions.other_content",
        rule="Of two contents for the same chunk and users the later is dead-lettered.",
        change=Never(),
        no_cell="a test of each field is faster and as certain",
    ),
    Mutant(
        guard="idempotency.claimed_send",
        rule="Each attempt of a request produces the send of the first one.",
        change=Becomes("keyed.identify()"),
        cell="send_handler killed between chunks, request repeated with its key",
    ),
    Mutant(
        guard="idempotency.in_progress",
        rule="One attempt at a time executes a request.",
        change=Never(),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.other_request",
        rule="Another request under a key is refused.",
        change=Never(),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.tenants_key",
        rule="Tenants may use the same key.",
        change=Returns("sha256(key.encode()).hexdigest()"),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.released",
        rule="After an error the next attempt need not wait for the time-out.",
        change=Removed(),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.stored_response",
        rule="A repeated request gets the first response.",
        change=Removed(),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.owner",
        rule="An attempt that lost its claim changes nothing.",
        change=Becomes('"attribute_exists(id) OR #owner = :owner"'),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="idempotency.expired_claim",
        rule="An expired claim that DynamoDB has not deleted does not count.",
        change=Becomes('"attribute_not_exists(id) OR expires_at < :now AND expires_at > :now"'),
        no_cell=ONE_CALLER,
    ),
    Mutant(
        guard="cancellations.before_publishing",
        rule="Nothing of a cancelled send is published.",
        change=Never(),
        cell="a send is cancelled while delivery is killed",
    ),
    Mutant(
        guard="cancellations.single_recipient",
        rule="A record's single recipient is cancelled by delivery alone.",
        change=Becomes("chunk.cancelled"),
        no_cell="no cell cancels a send while preference_checker repeats a record of one recipient",
    ),
    Mutant(
        guard="cancellations.ended_send",
        rule="A send that has ended is not cancelled.",
        change=Never(),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="cancellations.tenants_send",
        rule="A tenant cancels its own sends only.",
        change=Returns("send.send_id"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="cancellations.hostile_send_id",
        rule="An id that no send has stops no batch.",
        change=Becomes("list(asked)"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="cancellations.consistent_read",
        rule="A cancellation takes effect with the next batch.",
        change=Becomes('{self._table: {"Keys": [{"id": {"S": id_}} for id_ in ids], "ConsistentRead": False}}'),
        no_cell="LocalStack's reads are always consistent",
    ),
    Mutant(
        guard="cancellations.unread_key",
        rule="A send whose cancellation was not read is not published.",
        change=Replaced("return found"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.previous_revision",
        rule="Of two concurrent changes of a control the second is refused.",
        change=Becomes('"attribute_not_exists(id)" if control.revision == 1 else "revision >= :previous"'),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.hostile_delayed_record",
        rule="A delayed record with an id that no send has is stored.",
        change=Never(),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.changed_again",
        rule="A send whose control changed during a sweep is swept again.",
        change=Becomes('"changed_at_ms >= :changed OR changed_at_ms < :changed"'),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.late_record",
        rule="A record that is stored under an earlier control is released, too.",
        change=Becomes("True"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.paused_again",
        rule="The records of a send that is paused again are held.",
        change=Always(),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.copy_of_a_pause",
        rule="A record held again is not deleted with the copy of the earlier pause.",
        change=Becomes("0"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.moved_send",
        rule="A released record of a send that was moved to a later time waits for it.",
        change=Becomes("False"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.paused_request",
        rule="preference_checker holds the requests of a paused send.",
        change=Returns("None"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.paused_delivery",
        rule="Nothing of a paused send is published.",
        change=Returns("None"),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.pause_of_an_ended_send",
        rule="A send that has ended is not paused.",
        change=Never(),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="send_controls.released_send",
        rule="A send is not moved once its records may be released.",
        change=Never(),
        no_cell=ONE_CANCELLATION,
    ),
    Mutant(
        guard="tenancy.scope_of_a_route",
        rule="A key reaches only the routes of its scopes.",
        change=Never(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.listed_sends",
        rule="A tenant lists its own sends only.",
        change=Becomes("club_id"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.other_tenants_send",
        rule="Another tenant's send is handled as an unknown one.",
        change=Never(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="limits.own_key",
        rule="Each key has its own use.",
        change=Returns('f"{self.kind.name}#{self.start_s}"'),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.send_counted_once",
        rule="The recipients of a repeated send are counted once.",
        change=Becomes('"attribute_not_exists(absent)"'),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.atomic_count",
        rule="The use of a window does not pass the maximum.",
        change=Becomes('"attribute_not_exists(used) OR used > :room OR used <= :room"'),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.malformed",
        rule="A key whose limit is malformed is refused.",
        change=Replaced(
            "if not isinstance(value, str) or not (value.isascii() and value.isdecimal()):\n    return None"
        ),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.refused",
        rule="A request above a limit is refused.",
        change=Never(),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.recipients_of_a_send",
        rule="A send above the key's recipients of the day is refused before its first record.",
        change=Removed(),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="limits.recipients_of_a_batch",
        rule="The sends of a batch are limited, too.",
        change=Removed(),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="audit.requested_send",
        rule="Each send over REST is in the audit log.",
        change=Removed(),
        no_cell=UNAUDITED,
    ),
    Mutant(
        guard="audit.controlled_send",
        rule="Each cancellation is in the audit log.",
        change=Removed(),
        no_cell=UNAUDITED,
    ),
    Mutant(
        guard="audit.own_entries",
        rule="The entries of tenants are apart.",
        change=Returns('"*"'),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.audit_log",
        rule="A tenant reads its own audit log only.",
        change=Becomes("() if club_id is None else (club_id,)"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.dead_letters",
        rule="A tenant reads its own dead letters only.",
        change=Becomes("_row(letter, club, marks)"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.dead_letter",
        rule="A tenant replays and discards its own dead letters only.",
        change=Always(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="templates.steps_of_regions",
        rule="Loading the formats of many regions takes a part of the template's steps.",
        change=Removed(),
        no_cell="no template of the cells has dates or numbers",
    ),
    Mutant(
        guard="tenancy.categories",
        rule="A tenant reads its own differences of the categories only.",
        change=Becomes("name in own"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.suppressions",
        rule="A tenant reads its own suppressions only.",
        change=Becomes("asked"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.removed_suppression",
        rule="A tenant removes its own suppressions only.",
        change=Becomes("found is None"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.api_keys",
        rule="A tenant rotates and revokes its own keys only.",
        change=Becomes("key.key_id == key_id"),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="api_keys.authority_of_the_caller",
        rule="A key has no more authority than the key that created it.",
        change=Never(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="tenancy.counted_audience",
        rule="A tenant counts its own users only.",
        change=Never(),
        no_cell=IDENTITY_ALWAYS,
    ),
    Mutant(
        guard="audiences.own_tenant",
        rule="An audience has users of its own tenant only.",
        change=Becomes('{"filter": []}'),
        no_cell=NO_AUDIENCE,
    ),
    Mutant(
        guard="audiences.exceptions",
        rule="A user that an audience leaves out is not notified.",
        change=Returns("self.condition(user, settings)"),
        no_cell=NO_AUDIENCE,
    ),
    Mutant(
        guard="audiences.recorded_chunk",
        rule="The users of a chunk are recorded once.",
        change=Becomes('"attribute_exists(part) OR attribute_not_exists(part)"'),
        no_cell=NO_AUDIENCE,
    ),
    Mutant(
        guard="audiences.confirmed_directory",
        rule="A user who was created before the request is in the audience.",
        change=Removed(),
        no_cell=NO_AUDIENCE,
    ),
    Mutant(
        guard="audiences.concurrent_expansion",
        rule="Of two concurrent expansions of an audience one continues.",
        change=Never(),
        no_cell=NO_AUDIENCE,
    ),
    Mutant(
        guard="simulator.audience",
        rule="A test key sends to no audience.",
        change=Never(),
        no_cell=SIMULATED,
    ),
    Mutant(
        guard="limits.audience",
        rule="A key with a limit of recipients sends to no audience, whose size is not known.",
        change=Never(),
        no_cell=LIMITED_KEYS,
    ),
    Mutant(
        guard="simulator.reserved_ids",
        rule="Only the reserved ids are simulator recipients.",
        change=Returns("user_id >= FIRST_ID"),
        no_cell=SIMULATED,
    ),
    Mutant(
        guard="simulator.never_published",
        rule="Nothing is published to a simulator recipient.",
        change=Never(),
        no_cell=SIMULATED,
    ),
    Mutant(
        guard="simulator.test_key",
        rule="A test key sends to simulator recipients only.",
        change=Never(),
        no_cell=SIMULATED,
    ),
    Mutant(
        guard="simulator.changes",
        rule="A test key changes no live send.",
        change=Never(),
        no_cell=SIMULATED,
    ),
    Mutant(
        guard="preferences.older_row",
        rule="A change through masscomm applies until the row has its version, and no longer.",
        change=Returns("self.changes"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="preferences.unknown_version",
        rule="A row with a version that no change had replaces no change.",
        change=Returns("applied"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="preferences.opt_in_to_another_row",
        rule="An opt-in does not replace an opt-out that may be newer.",
        change=Becomes("True"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="preferences.malformed_change",
        rule="A change that cannot be read opts out.",
        change=Returns("settings"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="preferences.changes_without_a_row",
        rule="A row that may still arrive is awaited, although the user has changed preferences.",
        change=Without(2),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="tenancy.preferences",
        rule="The preferences of another tenant's user are not shown.",
        change=Becomes("user is None"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="tenancy.changed_preferences",
        rule="The preferences of another tenant's user are not changed.",
        change=Becomes("user is None"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="preferences.opt_in",
        rule="In a category that needs an opt-in, a rule for the channel is none.",
        change=Never(),
        no_cell="no category of the cells needs an opt-in",
    ),
    Mutant(
        guard="unsubscribe.signature",
        rule="A link that we did not sign is refused.",
        change=Never(),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.expiry",
        rule="An expired link is refused.",
        change=Never(),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.tenant",
        rule="A link of one tenant does not concern a user of another.",
        change=Becomes("self.preferences.find(user_id, range(2**62))"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.category",
        rule="A link ends the e-mails of its category only.",
        change=Becomes("Wish(None, CHANNEL, False)"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.one_click",
        rule="A POST without the field of RFC 8058 changes nothing.",
        change=Never(),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.rate",
        rule="Requests to a link are limited.",
        change=Removed(),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="unsubscribe.https",
        rule="Links have https outside this machine.",
        change=Never(),
        no_cell=UNCHANGED_PREFERENCES,
    ),
    Mutant(
        guard="public_urls.https",
        rule="A tenant's server is called with TLS only.",
        change=Never(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="public_urls.credentials",
        rule="The URL of a tenant's server contains no credentials.",
        change=Never(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="public_urls.port",
        rule="A tenant's server is not called on a port of another service.",
        change=Never(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="public_urls.addresses",
        rule="No server inside the installation is called for a tenant.",
        change=Never(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="guarded_http.time_limit",
        rule="A tenant's server that answers slowly does not extend the time limit of a request.",
        change=Removed(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="guarded_http.response_size",
        rule="The response of a tenant's server is read up to a limit.",
        change=Never(),
        no_cell=NO_WEBHOOK,
    ),
    Mutant(
        guard="unsubscribe.mandatory_category",
        rule="E-mails of mandatory categories have no unsubscribe header.",
        change=Becomes("False"),
        no_cell=UNCHANGED_PREFERENCES,
    ),
)
