"""The guards of the product code, and the proof that each is needed.

A comment in the code names each guard (tests/faults/mutation.py). Without the guard the named cell must fail; if it
names none, a test that is marked `kills(guard="...")` must fail.
"""

from dataclasses import dataclass, field

from tests.faults.mutation import Always, Argument, Becomes, Change, Never, Removed, Replaced, Returns, Without


@dataclass(frozen=True)
class Mutant:
    """One guard that is removed, and the cell or tests that must then fail."""

    guard: str
    # The rule that the guard enforces.
    rule: str
    change: Change = field(default_factory=Never)
    # The cell of the fault matrix that must fail without the guard; otherwise tests must fail.
    cell: str = ""


MUTANTS = (
    Mutant("tenancy.caller_without_tenant", "Every route refuses a caller without a tenant."),
    Mutant(
        "tenancy.events_of_an_endpoint",
        "A tenant does not see another tenant's events in the results of its own endpoint.",
        Returns("()"),
    ),
    Mutant("tokens.size", "A token above the maximum size is not parsed."),
    Mutant("tokens.expired", "A token is refused after its end."),
    Mutant(
        "tokens.malformed_clubs", "A token whose clubs are malformed permits no club.", Returns("{EVERY_CLUB: 'true'}")
    ),
    Mutant("tokens.bounded_refetch", "Unknown key ids do not make the API read the issuer's keys for each request."),
    Mutant(
        "tenancy.absent_context", "A request without an authorizer's context may read no tenant.", Returns("ALL_CLUBS")
    ),
    Mutant(
        "tenancy.other_tenants_user",
        "A user of another tenant is handled as an unknown user: the request waits for the directory.",
        Becomes("user is None"),
    ),
    Mutant("registry.schema_id_range", "The schema registry is not asked for a number that is no schema id."),
    Mutant(
        "registry.unit_of_the_writer",
        "A time in micro- or nanoseconds, by its writer's schema, is read in milliseconds.",
        Removed(),
    ),
    Mutant(
        "registry.local_time",
        "A record whose schema has a local time or a date in the place of a moment is dead-lettered.",
    ),
    Mutant(
        "metrics.hanging_database",
        "A request does not wait for a metrics database that hangs.",
        Returns("super().wait(gen, interval, timeout)"),
    ),
    Mutant(
        "metrics.unit_of_the_writer",
        "The job reads times in the unit of the writer's schema, as functions do.",
        Removed(),
    ),
    Mutant(
        "metrics.local_time",
        "The job quarantines the records whose schema has no moments, which functions dead-letter.",
    ),
    Mutant("registry.rotated_password", "A rotated password of the schema registry is read from its secret again."),
    Mutant("registry.known_schema", "The registry's 404 counts only while it knows our own schema."),
    Mutant(
        "registry.denied_id_waits",
        "A record with an unknown schema id waits for its schema before it is dead-lettered.",
    ),
    Mutant(
        "registry.denied_id_expires", "Records of a schema id that was unknown for some time are dead-lettered at once."
    ),
    Mutant(
        "metrics.schema_id_range",
        "The job quarantines a number that is no schema id, and does not ask the registry.",
        Without(2),
    ),
    Mutant(
        "metrics.position_header",
        "A position header that is not UTF-8 quarantines its record and fails no batch.",
        Becomes('F.decode(header(SOURCE_TOPIC), "UTF-8")'),
    ),
    Mutant(
        "metrics.bytes_left_over",
        "A value with bytes left over is quarantined, as the functions dead-letter it.",
        Becomes("F.lit(True)"),
    ),
    Mutant(
        "metrics.texts_not_counted",
        "A send with a text that is not UTF-8 is quarantined, whatever field the text is in.",
        Returns("F.coalesce(whole, F.lit(False))"),
    ),
    Mutant("own_topics.internal_topic", "A pattern that includes a topic of masscomm or Kafka is refused."),
    Mutant("own_topics.event_id", "The event id of a topic's record is its position, and cannot be mapped."),
    Mutant(
        "own_topics.event_id_of_recreated_topic",
        "A topic that was created again has other event ids than before.",
        Returns('f"{partition}:{offset}"'),
    ),
    Mutant(
        "own_topics.offset_of_another_topic",
        "A topic that was created again is read from its beginning.",
        Becomes("place.offset >= 0"),
    ),
    Mutant(
        "own_topics.recreated_topic", "The job notices that a topic was created again, also between two of its batches."
    ),
    Mutant(
        "own_topics.headers_of_masscomm",
        "A dead letter is not replayed to a topic that a header of the record names.",
        Becomes('tuple((name, bytes(each or b"")) for name, each in headers or ())'),
    ),
    Mutant("own_topics.unlisted_error", "A fault of the code that one record reveals does not stop the others."),
    Mutant("own_topics.size_of_dead_letter", "A record that is too large for the topic dead-letter stops no batch."),
    Mutant("own_topics.recursive_schema", "A deeply nested Avro value of another system ends no process."),
    Mutant("own_topics.items_without_bytes", "A short Avro value of another system does not become a long list."),
    Mutant("metrics.permanent_postgres_error", "The job quarantines records that Postgres refuses permanently."),
    Mutant(
        "metrics.denied_id_is_retried",
        "The archive asks again for an unknown schema before it appends a record without its values.",
        Returns("Learned(added, refused, False)"),
    ),
    Mutant(
        "metrics.counted_ids",
        "A record whose id is counted is not counted again, even if its table is not the latest.",
        Becomes('"true"'),
    ),
    Mutant(
        "metrics.read_committed", "Records of an aborted transaction are not counted.", Becomes('"read_uncommitted"')
    ),
    Mutant("metrics.topic_id", "A topic that was deleted and made again is another topic."),
    Mutant("metrics.counted_offsets", "An offset that is counted is left out.", Removed()),
    Mutant(
        "metrics.lane_offsets",
        "A record that its lane has merged is left out, even with another number of lanes.",
        Returns("False"),
    ),
    Mutant(
        "metrics.one_task_a_lane", "A second run of a lane's task waits for the first.", Becomes('b"select %s + %s"')
    ),
    Mutant(
        "metrics.quarantined_by_a_lane",
        "A record that a lane has quarantined stays so if its schema is learned before the last lane is merged.",
        Becomes("merged"),
    ),
    Mutant("metrics.unfinished_batch", "A recompute waits while a batch is merged in some lanes only.", Always()),
    Mutant("metrics.second_driver", "A lane of a driver that was replaced merges nothing."),
    Mutant("opensearch.wrong_address", "A wrong address of OpenSearch dead-letters no document.", Without(2)),
    Mutant(
        "opensearch.closed_index", "A row waits while its index is closed, for example during a restore.", Without(2)
    ),
    Mutant("opensearch.refused_document", "A document that OpenSearch refuses fails no other document.", Always()),
    Mutant("dynamodb.refused_item", "An item that no DynamoDB table takes is the record's fault."),
    Mutant(
        "dynamodb.item_size",
        "A value larger than an item of DynamoDB is stored in several items.",
        Becomes("350_000_000"),
        cell="a slice that no item of DynamoDB holds",
    ),
    Mutant("dynamodb.transaction_size", "A transaction of DynamoDB has at most 100 items and 4 MB."),
    Mutant("dynamodb.transaction_token", "A repeated transaction of DynamoDB is the first one.", Becomes("None")),
    Mutant(
        "delivery_ledger.absent_item",
        "A lease or slice of many records is written only where none is stored.",
        Becomes('"attribute_not_exists(absent)"'),
    ),
    Mutant(
        "delivery_ledger.recorded_results",
        "Results in the delivery ledger are not published again.",
        Without(2),
        cell="delivery killed in the middle of publishing",
    ),
    Mutant(
        "delivery_ledger.slice_by_slice",
        "A slice is recorded before the next slice begins.",
        Becomes("{record_id: None for record_id in pending}"),
        cell="delivery killed in the middle of publishing",
    ),
    Mutant(
        "delivery_ledger.first_write_wins",
        "The first result of a recipient is kept.",
        Always(),
        cell="an opt-out between two deliveries of one batch",
    ),
    Mutant("integers.canonical", "An integer from outside has one spelling.", Becomes("decoded is None")),
    Mutant(
        "tokens.time_of_any_size",
        "A time of hundreds of digits in an access token is refused.",
        Becomes("isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)"),
    ),
    Mutant(
        "dead_letters.marked_topic",
        "A mark concerns no dead letter of a topic that was created again.",
        Becomes("True"),
    ),
    Mutant(
        "delivery_ledger.write_retry",
        "A failed write of the ledger is retried before the next slice.",
        Always(),
        cell="DynamoDB down while publishing",
    ),
    Mutant(
        "lease.one_holder", "One invocation at a time leases a record.", Becomes('GUARDED + " OR until_ms > :lapsed"')
    ),
    Mutant(
        "lease.lost_lease",
        "An invocation that lost its lease begins no further call.",
        Argument(1),
        cell="delivery asleep for longer than its lease",
    ),
    Mutant(
        "endpoints.ready_devices",
        "Devices with an endpoint do not wait for devices without one.",
        Becomes("[] if any(map(_is_unregistered, devices)) else devices"),
        cell="devices whose endpoints come late or never",
    ),
    Mutant("email.sender", "A sender without an address fails no recipient."),
    Mutant(
        "email.domain_of_another_owner", "An e-mail to a domain with a sharp s goes to no domain with ss.", Always()
    ),
    Mutant("endpoints.one_push_a_phone", "A phone with several rows gets one message.", Removed()),
    Mutant(
        "endpoints.refused_row",
        "The state of a refused row ends the wait for its endpoint.",
        Replaced('raise DeadLetter("invalid", "no endpoint")'),
    ),
    Mutant(
        "endpoints.dead_endpoint",
        "An endpoint that the provider refuses permanently is reported to the device registrar.",
        Removed(),
        cell="SNS responds EndpointDisabled",
    ),
    Mutant(
        "endpoints.disabled_endpoint",
        "A disabled endpoint is not called.",
        Without(1),
        cell="SNS responds EndpointDisabled for one device of two",
    ),
    Mutant(
        "endpoints.each_device",
        "Each device of a recipient is tried.",
        Becomes("len(errors) == len(answers) and any(isinstance(error, Transient) for error in errors)"),
        cell="a platform application is disabled until an operator enables it",
    ),
    Mutant(
        "ids.delayed_part",
        "A delayed part has the same id at each attempt.",
        Becomes(
            'released_id(request.record_id, f"{_DIRECTORY}{request.waits}", request.range_start, request.range_end)'
        ),
    ),
    Mutant(
        "ids.derived_id",
        "A derived id follows from its parent and positions.",
        Replaced("from uuid import uuid4\n\nreturn str(uuid4())"),
        cell="builder killed after producing",
    ),
    Mutant(
        "sends.unit_of_time",
        "A send with a time in another unit than milliseconds is dead-lettered, not sent at once or expired.",
    ),
    Mutant("sends.too_old", "A send with a timestamp of weeks ago, which the metrics do not count, is not delivered."),
    Mutant(
        "sends.late_part",
        "A part of a send that was requested weeks after its first part is counted.",
        Becomes("stored.requested_at_ms"),
    ),
    Mutant(
        "receipts.too_old",
        "An outcome is counted, whatever the clock of the provider whose receipt it is of.",
        Becomes("0"),
    ),
    Mutant(
        "metrics.too_old",
        "A send or an outcome of an earlier year is quarantined.",
        Replaced("is_too_old = F.lit(False)"),
        cell="sends of a wrong year and from the future",
    ),
    Mutant(
        "sends.unit_of_written_time",
        "A request whose time was converted from seconds is refused, also under a key that has been used.",
    ),
    Mutant(
        "receipts.unit_of_time",
        "A receipt of 1970 is dead-lettered, so that its outcome is not quarantined by the metrics.",
    ),
    Mutant(
        "delivery.faster_channel",
        "The pushes of a batch do not wait for its e-mails.",
        Returns("0.0, len(delivery.positions)"),
    ),
    Mutant("delivery.delayed_users", "The users of a delayed record are looked up again before publishing."),
    Mutant(
        "delivery.late_users", "The users of a record that was built long ago are looked up again before publishing."
    ),
    Mutant(
        "delivery.expires_at",
        "No notification is published after expires_at.",
        cell="the send expires while SNS is down",
    ),
    Mutant(
        "delivery.look_up_expires",
        "Controls, opt-outs and devices older than a second are looked up again before a group is published.",
        Returns("False"),
        cell="a send is cancelled during a large batch",
    ),
    Mutant(
        "delivery.untried_recipients",
        "Recipients for which an invocation has no time wait as the refused ones of their record do.",
        Removed(),
    ),
    Mutant(
        "preferences.opt_out_before_publishing",
        "Opt-outs are checked right before publishing.",
        cell="an opt-out between two deliveries of one batch",
    ),
    Mutant(
        "preferences.mandatory_without_settings", "A mandatory message does not wait for user settings.", Without(2)
    ),
    Mutant(
        "batch.delivery_report",
        "A record whose delivery report has an error is redelivered.",
        Removed(),
        cell="records of delivery unacknowledged for longer than the producer waits",
    ),
    Mutant(
        "directory.error_is_no_absence",
        "An error in a look-up by id is not read as an absent document.",
        Replaced("return None"),
        cell="OpenSearch answers a look-up by id in part",
    ),
    Mutant(
        "directory.partial_search",
        "A partial search is no answer.",
        Without(1),
        cell="OpenSearch answers a search in part",
    ),
    Mutant(
        "directory.unknown_user",
        "A user counts as unknown only when change data capture has passed the time of the send.",
        Removed(),
        cell="a user created while change data capture is down",
    ),
    Mutant(
        "directory.database_clock_ahead",
        "A database's clock that is ahead does not make the directory complete too early.",
        Becomes("written_ms"),
    ),
    Mutant("directory_state.age", "A store that was not fed for long may miss deletes, and is not continued."),
    Mutant("directory_state.topic_ids", "A store of topics that were created again is not continued."),
    Mutant(
        "directory_state.gap",
        "A store that lacks records which are no longer in their topic is not continued.",
        Becomes('"latest"'),
    ),
    Mutant("directory_state.whole_topic", "A topic whose beginning is gone does not have every row."),
    Mutant("directory_state.missed_delete", "A tombstone deletes a row whose delete was compacted away.", Removed()),
    Mutant("directory_state.caught_up", "Look-ups wait until the topics have been read.", Always()),
    Mutant("directory_state.filled", "Look-ups wait until the topics have masscomm's own documents."),
    Mutant("directory_state.fed", "Look-ups are refused while the store is not fed."),
    Mutant("directory_state.one_generation", "An answer of another generation than the confirmed one is no proof."),
    Mutant("directory_state.tokens", "The store has digests of the tokens in rows of devices.", Returns("row")),
    Mutant("directory_state.tokens_of_states", "The store has digests of the tokens in states.", Returns("source")),
    Mutant("directory_state.plain_text", "Without TLS the service listens on loopback only."),
    Mutant("directory_state.token", "A caller without the token gets no answer."),
    Mutant(
        "directory_state.changes_kept", "Changes that are no longer in the store are not taken for others.", Never()
    ),
    Mutant(
        "directory_state.exceptions",
        "An audience has no users that are excepted by id.",
        Becomes("list(found)"),
    ),
    Mutant("directory_state.counted_exceptions", "Users that are excepted by id are not counted.", Removed()),
    Mutant("directory_state.valid_audience", "An audience that cannot be read is refused."),
    Mutant("directory_state.audience_time", "An audience that takes too long is refused as a whole."),
    Mutant("preferences.applied", "A change of preferences is acknowledged once look-ups see it.", Removed()),
    Mutant("directory.one_generation", "An answer of another generation than the confirmed one is no proof."),
    Mutant("directory.generation_behind", "A generation that is behind does not answer."),
    Mutant(
        "directory.generation_streamed",
        "A generation that has not streamed the changes since its snapshot does not answer.",
        Replaced("self._unwritten = None"),
    ),
    Mutant(
        "directory.generation_written",
        "The targets are read once Connect has stored a position behind a heartbeat.",
        Without(2),
    ),
    Mutant(
        "directory.answering_generation",
        "Completeness is proved for the generation that answers, not for the latest one.",
        Becomes('max(index.rpartition("-")[2] for index in self._client.indices.get_alias(index=f"{DEVICES}-*"))'),
        cell="a generation of the directory is replaced while functions and connectors die",
    ),
    Mutant("directory.later_generation", "A consumer of an old generation does not move the aliases back."),
    Mutant(
        "devices.every_generation",
        "Devices of the old and of the new generation are registered until the aliases move.",
        Becomes("ChangeDecoder(generations[0], clock=clock)"),
        cell="a generation of the directory is replaced while functions and connectors die",
    ),
    Mutant("devices.missed_delete", "A state ends whose row's delete was compacted away.", Returns("None")),
    Mutant(
        "devices.platform_words",
        "A platform is understood by its other names, in any case.",
        Becomes("_PLATFORMS.get(word)"),
    ),
    Mutant(
        "devices.platform_of_row",
        "A push has the form of the platform that the row names by another word.",
        Becomes('source["platform"]'),
    ),
    Mutant("devices.endpoint_of_platform", "A push has the form of its endpoint's platform."),
    Mutant(
        "devices.corrected_platform",
        "A device whose platform is corrected is registered in the other platform application.",
    ),
    Mutant("endpoints.application_of_platform", "A platform application of another platform is refused."),
    Mutant("inbox.foreign_message", "The inbox shows a message that is none of masscomm's as it is."),
    Mutant("devices.unknown_platform", "A row of an unknown platform is a dead letter."),
    Mutant(
        "devices.when_taken",
        "A row takes its token when it gets its user and its token, not when another column changes.",
    ),
    Mutant(
        "devices.token_moves",
        "A device whose token another user's row has taken gets no push.",
        cell="phones change hands between four environments of the device registrar",
    ),
    Mutant(
        "devices.token_comes_back",
        "A device gets pushes again when the newer row of its token is deleted or inactive.",
        cell="phones change hands between four environments of the device registrar",
    ),
    Mutant("devices.owner_in_a_new_snapshot", "A new snapshot that has the owner's row keeps the owner."),
    Mutant(
        "devices.most_holders",
        "A token of very many rows has a bounded number of holders.",
        Becomes("frozenset(map(str, newest))"),
    ),
    Mutant(
        "devices.owners_read_again",
        "An environment that has changed an owner reads everything again.",
        Becomes("not pending"),
    ),
    Mutant("devices.published", "A row is done when the topic has the state of its device.", Removed()),
    Mutant("receipts.published", "A receipt is done when the topic has its suppression.", Removed()),
    Mutant("preferences.published", "A change is answered when the topic has it.", Removed()),
    Mutant("own_documents.acknowledged", "A document is published when Kafka has acknowledged it."),
    Mutant(
        "own_documents.another_history", "An index that was restored is published again.", Becomes("progress is None")
    ),
    Mutant("own_documents.settled", "No record of an earlier write follows that of the sweep."),
    Mutant("own_documents.lower_versions", "A restored document replaces a record of a later write."),
    Mutant("own_documents.removed_record_first", "The topic has no document that the index has lost.", Removed()),
    Mutant("own_documents.changed_meanwhile", "A document that is written during its removal stays.", Removed()),
    Mutant(
        "devices.tokens_of_a_redelivered_row",
        "A redelivered row changes the owner of the token that it has lost.",
        Becomes("set()"),
    ),
    Mutant("erasure.moved_token", "Endpoints of tokens that come back to another user are kept.", Becomes("enabled")),
    Mutant(
        "devices.recorded_generation",
        "The state of a device carries its generation.",
        Becomes("None"),
        cell="a generation of the directory is replaced while functions and connectors die",
    ),
    Mutant(
        "provider_errors.throttling",
        "Throttling is no refusal.",
        Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
        cell="SNS throttles",
    ),
    Mutant(
        "provider_errors.expired_credentials",
        "Expired credentials fail no recipient.",
        Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
        cell="SNS responds that credentials have expired",
    ),
    Mutant(
        "provider_errors.sandbox",
        "While SES refuses unverified addresses, no recipient fails.",
        Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
    ),
    Mutant(
        "provider_errors.paused_account",
        "While SES has paused the account, no recipient fails.",
        Becomes("Row(codes=GUARDED.codes, error=Rejected)"),
    ),
    Mutant(
        "provider.lost_answers",
        "A call whose answer is lost is repeated once within an invocation.",
        Becomes("CallAnswer(error=error, retryable=True)"),
    ),
    Mutant(
        "provider.lost_answer_is_recorded",
        "A recipient whose answer was lost waits for the delay, even after a redelivery.",
        Becomes("not refused or any(answer.message_id is not None for _, answer in answers)"),
    ),
    Mutant("provider.rate_limit", "Calls keep the provider's rate.", Always(), cell="SNS throttles"),
    Mutant(
        "provider.time_budget",
        "No call begins that could outlive the invocation.",
        Always(),
        cell="the provider is slower than an invocation is long",
    ),
    Mutant(
        "provider.circuit_breaker",
        "A disabled platform application is not called.",
        Becomes("self._clock.monotonic() - 1"),
        cell="a platform application is disabled until an operator enables it",
    ),
    Mutant(
        "endpoints.wrong_application",
        "A wrong ARN of the platform application disables no device.",
        Becomes("code in _REFUSED"),
    ),
    Mutant("provider.unknown_endpoints", "A call of the wrong region disables only a few devices."),
    Mutant(
        "devices.unknown_endpoints", "Devices stay enabled if SNS knows no endpoint of their group.", Becomes("answer")
    ),
    Mutant("push.collapse_id", "A push replaces no push of another club.", Becomes("collapse_key")),
    Mutant("provider.call_deadline", "A provider call fails at its deadline.", Removed()),
    Mutant("pooled_http.call_deadline", "A request to DynamoDB or OpenSearch fails at its deadline.", Removed()),
    Mutant(
        "pooled_http.ended_connection", "No request is sent on a connection that the server has ended.", Returns("True")
    ),
    Mutant(
        "signatures.renewed",
        "A signer is used for a second, and not after the clock was set back.",
        Becomes("signer is None"),
    ),
    Mutant(
        "suppressions.before_publishing",
        "No message is published to an address on the suppression list.",
        cell="an address on the suppression list",
    ),
    Mutant(
        "addresses.invisible_characters",
        "An address has no invisible characters around it: for sending, and on the suppression list.",
        Returns("address.strip()"),
    ),
    Mutant(
        "addresses.fault_is_named",
        "A fault in an address that we find is invalid_address, and not the provider's refusal.",
    ),
    Mutant(
        "metrics.calls_without_invalid_addresses",
        "A recipient with an invalid address is not counted as a call to the provider.",
    ),
    Mutant(
        "erasure.address_of_the_envelope",
        "An erased person's address is found in receipts, whose domains are in ASCII.",
        Removed(),
    ),
    Mutant(
        "decisions.first_write_wins",
        "The decision log keeps the first decisions about a record.",
        Always(),
        cell="an opt-out between two checks of one batch",
    ),
    Mutant(
        "decisions.held_stays_held",
        "A HELD recipient stays HELD when the user's settings change before the second check.",
        Argument(3),
        cell="preference_checker killed between delaying for quiet hours and its outcome",
    ),
    Mutant(
        "on_failure.record_is_read_again",
        "A record that its on-failure record leaves out is read again from Kafka.",
        cell="OpenSearch down, and the records too large to be handed over",
    ),
    Mutant(
        "on_failure.time_out_is_no_crash",
        "A function's time-out is no crash.",
        Returns("source_record, _LastInvocation.CRASH"),
        cell="a function takes too long for longer than all attempts",
    ),
    Mutant("on_failure.denied_id_expires", "A record whose schema stays unknown is dead-lettered."),
    Mutant(
        "on_failure.max_crashes",
        "A record that crashes its function again and again is dead-lettered.",
        cell="a record crashes its function at each attempt",
    ),
    Mutant(
        "on_failure.delayed_record",
        "An on-failure record's recipients are delayed and rescheduled.",
        Removed(),
        cell="OpenSearch down for longer than all attempts",
    ),
    Mutant("on_failure.refused_send", "A send that its checker would dead-letter is not rescheduled."),
    Mutant(
        "dead_letters.outcomes", "The recipients of a dead letter have outcomes.", Removed(), cell="an oversize record"
    ),
    Mutant(
        "dead_letters.refused_outcomes",
        "A dead-lettered record whose outcomes are refused for ever does not hold its partition.",
    ),
    Mutant(
        "dead_letters.undecodable_record",
        "An undecodable record is dead-lettered.",
        Replaced("result.error = error"),
        cell="poison in the middle of a batch",
    ),
    Mutant(
        "dead_letters.forgotten_ids",
        "A dead letter whose record may be forgotten is not replayed: it would be counted and published again.",
        cell="a dead letter is replayed late, and one that is counted",
    ),
    Mutant(
        "cdc.replayed_row",
        "A row is not replayed to its changelog: it would be the row's last version there.",
        Always(),
    ),
    Mutant("dead_letters.marks_are_seen", "An operation on dead letters ends when every reader sees it."),
    Mutant(
        "metrics.late_schema",
        "A send whose schema is registered after the job has read it is counted.",
        Removed(),
        cell="a schema that is registered late among foreign ones",
    ),
    Mutant(
        "metrics.late_schema_is_not_too_late",
        "A record is not produced again long after the chain has decided about it.",
        Becomes("GUARDED * 9_000"),
    ),
    Mutant(
        "metrics.unacknowledged_late_record",
        "A record of a late schema is produced again until Kafka has acknowledged it.",
        Becomes("list(results)"),
    ),
    Mutant(
        "retention.archived_without_a_problem",
        "A quarantined position is kept if the archive may have its record without a problem.",
        Becomes("[Problem.UNSTORABLE]"),
    ),
    Mutant(
        "metrics.refused_id_is_logged_once",
        "A schema id without a schema costs the job one log line.",
        Becomes("self._quiet"),
    ),
    Mutant(
        "metrics.watermark_clock",
        "The watermark is the time of the metrics database, not of the driver, whose clock may be ahead.",
        Replaced("import time\n\nat_ms = time.time_ns() // 1_000_000"),
    ),
    Mutant(
        "metrics.recreated_topic",
        "A topic that is deleted and created again ends the running job.",
        Removed(),
        cell="a topic is made again while the metrics job runs",
    ),
    Mutant(
        "metrics.columns_of_results",
        "A record whose results of webhooks are in columns that do not fit is quarantined.",
        Replaced("do_not_fit = F.lit(False)"),
    ),
    Mutant(
        "metrics.texts_of_results",
        "A result of a webhook with a text that Postgres cannot store, or that is too long, is quarantined.",
        Replaced("bad_texts = F.lit(False)"),
    ),
    Mutant(
        "metrics.time_of_results",
        "Results far from the time of their record are quarantined: recompute would not find them.",
        Replaced("is_apart = F.lit(False)"),
    ),
    Mutant(
        "metrics.sample_of_several_lanes",
        "Lanes that merge at the same time list no more successes of an endpoint than one lane.",
        Removed(),
    ),
    Mutant(
        "recompute.results_of_webhooks",
        "A result counts in the day of its attempt, even if its record is of the next day.",
        Replaced("results = F.lit(False)"),
    ),
    Mutant("metrics.replaced_driver", "A driver that was replaced by another one stores no watermark."),
    Mutant(
        "metrics.redelivery_window",
        "The job keeps the ids of counted records for as long as dead letters and sends can be repeated.",
        Replaced("_LOWEST = {}"),
    ),
    Mutant(
        "dead_letters.repeated_request",
        "A repeated request to replay or discard a dead letter gets the first response.",
    ),
    Mutant(
        "broadcast.queue_lease",
        "Each tenant that broadcasts has a queue of its own.",
        Without(1),
        cell="a tenant's broadcast behind another tenant's larger one",
    ),
    Mutant(
        "receipts.same_id",
        "A repeated receipt gives an outcome of the same id.",
        Becomes("derived_id(message.outcome_id, str(self._clock.monotonic()), message.channel, 0, 1)"),
        cell="receipts arrive while their function and its servers fail",
    ),
    Mutant(
        "receipts.one_device_of_several",
        "A recipient bounces only when all its devices have refused.",
        cell="receipts arrive while their function and its servers fail",
    ),
    Mutant(
        "receipts.unknown_message",
        "A receipt of a message that is not stored yet is delayed.",
        cell="receipts arrive long before their outcomes",
    ),
    Mutant(
        "receipts.dead_token",
        "A dead token is reported to the device registrar.",
        Removed(),
        cell="receipts report inactive tokens and bounced addresses",
    ),
    Mutant("receipts.own_address", "Only the address that the message was sent to is suppressed.", Always()),
    Mutant("receipts.automatic_reply", "The reply of a recipient who is out of office is no bounce."),
    Mutant("receipts.credentials_of_another_app", "Credentials of another project or app disable no device."),
    Mutant(
        "receipts.long_address",
        "A long address in a bounce does not end in an error that is no dead letter.",
        Returns("parseaddr(text)[1]"),
    ),
    Mutant("receipts.no_complaint", "A recipient who reports a message as no spam gets further messages."),
    Mutant(
        "receipts.dead_address",
        "A dead address is suppressed.",
        Removed(),
        cell="receipts report inactive tokens and bounced addresses",
    ),
    Mutant(
        "masking.log_lines",
        "Log lines are masked.",
        Returns('visible_json(json.dumps(keys, default=str, separators=(",", ":"), ensure_ascii=False))'),
    ),
    Mutant("masking.library_log_lines", "Log lines of libraries are masked.", Removed()),
    Mutant("masking.spans", "Spans are masked.", Becomes("taken()")),
    Mutant("masking.dead_letter_headers", "The headers of a dead letter are masked.", Argument(1)),
    Mutant("masking.outcomes", "The rule in an outcome is masked.", Without(2)),
    Mutant(
        "masking.provider_errors",
        "A provider's refusal is stored as a code, without its text.",
        Returns('Decision(Status.FAILED, reason, "provider", str(rejected)[:200])'),
    ),
    Mutant(
        "tls.database",
        "A database's certificate is verified even if its address asks for less.",
        Becomes('GUARDED | {"sslmode": "require"}'),
    ),
    Mutant("tls.broker", "A broker's certificate is verified."),
    Mutant("terminal.control_characters", "Control characters are printed visibly.", Replaced("yield segment")),
    Mutant("terminal.markup", "Markup in printed text is not interpreted.", Always()),
    Mutant(
        "quiet_hours.recheck",
        "Quiet hours are checked again before a delayed notification is published.",
        Becomes("{}"),
        cell="quiet hours begin while SNS is down",
    ),
    Mutant(
        "delay_store.one_sweep", "One sweep at a time releases a delayed record.", Returns("self._is_releasable(item)")
    ),
    Mutant("delay_store.parts_of_a_copy", "The parts of a delayed record belong to one copy.", Becomes("item.id")),
    Mutant("delay_store.unreadable_item", "An unreadable item is skipped."),
    Mutant("send_controls.damaged_item", "A stored control that cannot be read concerns its send alone."),
    Mutant("send_controls.unreadable", "Nothing is decided or published for a send whose control cannot be read."),
    Mutant("send_controls.unreadable_delivery", "Nothing is published for a send whose control cannot be read."),
    Mutant("sends.unreadable_control_in_a_list", "The list of sends has those whose control cannot be read."),
    Mutant("webhooks.unreadable_control", "A send's events follow once its control can be read."),
    Mutant("whole_batches.done_once", "A record that is done is not processed again with its batch.", Becomes("True")),
    Mutant("whole_batches.crashes", "A record that crashes its function alone is handed over.", Becomes("False")),
    Mutant("whole_batches.retries", "A record that fails is handed over after its retries."),
    Mutant("whole_batches.end_is_marked", "An invocation that has failed and ended has not crashed.", Removed()),
    Mutant("whole_batches.raised", "In on-demand mode a failed record is redelivered, though no response is read."),
    Mutant(
        "metrics.available_now_watermark",
        "A run that ends advances the watermark to its start, whatever the topics get meanwhile.",
        Removed(),
    ),
    Mutant("archive.ends_at_its_start", "A run that ends does not append what the topics get meanwhile."),
    Mutant("discarded_batches.acknowledged", "A discarded batch stays until Kafka has its records."),
    Mutant("discarded_batches.unreadable", "An object that cannot be read delays no discarded batch."),
    Mutant("unlisted.retried_first", "A record with an unlisted error is retried before it is given up."),
    Mutant("unlisted.whole_batch", "An unlisted error of every record of a batch gives none of them up."),
    Mutant("unlisted.flood", "A flood of unlisted errors gives few records up.", Always()),
    Mutant(
        "unlisted.handled_alone",
        "A fault in the code that one record causes fails no other record of its batch.",
        Always(),
    ),
    Mutant(
        "opensearch.unlisted_status", "An unlisted refusal of one document is not retried for ever.", Becomes("False")
    ),
    Mutant(
        "dynamodb.unlisted_refusal",
        "An unlisted refusal of one item stops no function.",
        Becomes("code in _WRONG or code == _INVALID"),
    ),
    Mutant("endpoints.unlisted_refusal", "An unlisted refusal of one token is not retried for ever.", Becomes("True")),
    Mutant(
        "queues.unreadable_lease", "The lease of a broadcast queue that cannot be read hides no other, and is replaced."
    ),
    Mutant("stored.unreadable_item", "A stored item that cannot be read hides and delays no other one."),
    Mutant("stored.known_fields", "A field of a later version is ignored.", Returns("dict(values)")),
    Mutant(
        "delay_store.unreadable_control",
        "A controlled send that cannot be read is skipped.",
        cell="an unreadable item in each sweep",
    ),
    Mutant(
        "delay_store.critical_first",
        "Critical records of every minute are released before the others.",
        Becomes("GUARDED[::-1]"),
    ),
    Mutant("templates.steps", "A rendering takes a limited number of steps."),
    Mutant("templates.filter_arguments", "A filter with hostile arguments ends."),
    Mutant("templates.blank_message", "A message without a text is not sent."),
    Mutant("templates.control_characters", "No message has control characters, which mail servers refuse.", Removed()),
    Mutant("templates.direction_controls", "A value has no control that reverses the template's text after it."),
    Mutant("templates.loop_items", "A loop has a limited number of items."),
    Mutant(
        "locales.parents",
        "A locale's parent is CLDR's: es-MX finds the template of es-419, pt-AO that of pt-PT.",
        Becomes("None"),
    ),
    Mutant(
        "locales.script",
        "No text and no formats in another script stand in for a language.",
        Returns("self.language == other.language"),
    ),
    Mutant("templates.grapheme_clusters", "A text is cut between the characters that a reader sees.", Returns("text")),
    Mutant(
        "templates.plural_of_the_shown_number",
        "The plural is that of the number which the text shows.",
        Returns("number"),
    ),
    Mutant("templates.dotted_capital", "Upper and lower case are those of the template's language.", Becomes("False")),
    Mutant(
        "templates.steps_of_entries",
        "The entries of a list or mapping are steps, whatever their characters.",
        Removed(),
    ),
    Mutant(
        "templates.steps_of_fitting",
        "The steps of a message include those of bringing its texts into the form of the channel.",
        Removed(),
    ),
    Mutant(
        "templates.share_of_steps",
        "A slow template leaves the other templates of its record their steps.",
        Becomes("Steps(RECORD_STEPS)"),
    ),
    Mutant(
        "templates.steps_of_a_preview",
        "All channels and renderings of a preview share the steps of one record.",
        Replaced("writer = MessageWriter(content, channel, templates, [user])"),
    ),
    Mutant(
        "templates.cache_bytes", "The cache of templates is bounded in bytes.", Becomes("len(self._entries) > 1_000")
    ),
    Mutant("tenancy.previewed_user", "A preview reads no user of another tenant.", Becomes("user is None")),
    Mutant("tenancy.listed_templates", "The list of templates has those of the given clubs and of every club."),
    Mutant("templates.own_recipients_data", "A derived record has the variables of its own recipients only."),
    Mutant(
        "templates.own_data_is_not_shared",
        "A text with a recipient's own variables is no other recipient's.",
        Becomes("field.personal"),
    ),
    Mutant(
        "scopes.without_scopes",
        "A context without scopes has none.",
        Becomes('authorizer.get(SCOPES, " ".join(ALL_SCOPES))'),
    ),
    Mutant(
        "scopes.mandatory",
        "A send that passes opt-outs needs a scope of its own, whatever its texts.",
        Becomes("category(type_).mandatory and any(each >= LITERAL_NAMES for each in names)"),
    ),
    Mutant(
        "sends.template_of_an_optional_category", "By REST, a mandatory send has no template of a category that is not."
    ),
    Mutant("sends.mandatory_template", "By Kafka, a mandatory send has no template of a category that is not."),
    Mutant(
        "scopes.own_words",
        "Own words of a single recipient need the scope of own words.",
        Becomes("LITERAL_NAMES <= names[0]"),
    ),
    Mutant("scopes.dry_run", "The counts of a dry run need the scope that the counts of a send need.", Removed()),
    Mutant(
        "single_users.samples",
        "The messages of single users in a dry run need the scope of reading users.",
        Becomes("True"),
    ),
    Mutant("single_users.named", "Counts, dry runs and previews that name users need the scope of reading users."),
    Mutant("single_users.small_group", "Numbers about a few users need the scope of reading users."),
    Mutant("request_slots.kind", "The slots of one kind of requests are not those of another.", Becomes('""')),
    Mutant(
        "costly_requests.limit",
        "A caller has two costly requests of a kind at the same time.",
        Replaced("yield\nreturn"),
    ),
    Mutant(
        "costly_requests.slot_of_a_route", "Requests hold the slots of their route.", Replaced("return route(request)")
    ),
    Mutant("request_slots.freed", "A costly request that fails frees its slot.", Removed()),
    Mutant(
        "costly_requests.overview",
        "An overview that decodes dead letters has a slot.",
        Replaced("return self.dead_letters.open_of(chosen, READ)"),
    ),
    Mutant("rest.large_body", "Routes whose requests are small refuse a large body."),
    Mutant("dead_letters.outlined", "The values in a dead letter need the scope of reading users.", Becomes("False")),
    Mutant(
        "dead_letters.error",
        "The error of a dead letter, which may quote values, needs the scope of reading users.",
        Becomes("_text(letter.error)"),
    ),
    Mutant(
        "dead_letters.keys_of_a_map",
        "The keys of a map, such as user ids, are values of a dead letter.",
        Returns("name"),
    ),
    Mutant("dead_letters.audited", "Reading the values of a dead letter is audited.", Removed()),
    Mutant(
        "audit.before_reading",
        "The values of a dead letter are not shown if the audit log takes no entry.",
        Becomes("False"),
    ),
    Mutant(
        "templates.saved_template",
        "A template from which no message can be rendered does not replace the previous version.",
        Becomes("None"),
    ),
    Mutant("templates.warnings_do_not_queue", "While the directory hangs, only one send waits for its warnings."),
    Mutant(
        "signatures.all_headers",
        "Every header of a request is signed.",
        Becomes('{"host": host_header(url), "x-amz-date": scope.stamp}'),
    ),
    Mutant("push.sandbox_key", "An endpoint of Apple's sandbox gets the text under its own key."),
    Mutant(
        "push.scheme_of_link", "A push opens no address with a scheme that no app owns, such as javascript.", Without(2)
    ),
    Mutant("erasure.snapshots", "The snapshots that still name an erased person are removed.", Removed()),
    Mutant(
        "metrics.archived_beyond_the_counts",
        "Recompute leaves out the archived records that the stream has not counted yet.",
        Becomes("records"),
    ),
    Mutant(
        "recompute.deleted_records",
        "Records that retention deletes during a recompute are not taken for records that were never counted.",
    ),
    Mutant(
        "metrics.rows_of_a_new_partition",
        "Rows that are counted before their partition exists move into it.",
        Removed(),
    ),
    Mutant("retention.between_lanes", "A send is deleted only while no lane adds to it.", Removed()),
    Mutant("upgrade.metrics_job", "Tables are upgraded only after an earlier metrics job has ended."),
    Mutant(
        "recompute.changed_meanwhile",
        "A swap does not overwrite a send that the stream has changed since the comparison.",
    ),
    Mutant("recompute.announced_sends", "The sends that a swap changes are announced.", Removed()),
    Mutant(
        "recompute.earlier_part", "A task of an earlier part of a recompute merges nothing into a later one.", Removed()
    ),
    Mutant("recompute.one_at_a_time", "A second recompute does not use the tables of the first.", Removed()),
    Mutant(
        "recompute.wrong_clock",
        "A record belongs to its send, even if a wrong clock dated it long before the send.",
        Becomes("F.lit(False)"),
    ),
    Mutant(
        "archive.one_append",
        "Two writers never append the same offsets to the archive.",
        Becomes('writer.overwrite(F.col("at") == F.lit(MARK))'),
    ),
    Mutant(
        "archive.uncounted_positions",
        "A query of the archive's counted records leaves out the redelivered ones.",
        Becomes('spark.sql("select * from records where problem is null")'),
    ),
    Mutant(
        "archive.queries_only",
        "A query of the archive changes nothing and prints no settings.",
        Becomes("spark.sql(text)"),
    ),
    Mutant("erasure.other_users_endpoints", "Endpoints that other users' devices use are kept.", Without(2)),
    Mutant("erasure.other_tenants_user", "Only the data of that tenant's user is erased.", Without(1)),
    Mutant("erasure.other_tenants_event", "Only events of that tenant and of a type with a path are erased."),
    Mutant("erasure.bundled_schema", "A waiting message of another version is not read as one of this version."),
    Mutant("erasure.directory_last", "The directory's rows are kept until every other store is erased."),
    Mutant("views.repeatable", "A view that depends on the time or on chance is refused."),
    Mutant("channels.each_has_a_sender", "Delivery does not start while a channel has no sender."),
    Mutant(
        "limits.copied_fields",
        "The fields that each derived record copies are bounded together.",
        Becomes('FIELDS_OF_SEND["data"].max_bytes'),
    ),
    Mutant(
        "devices.positions_of_one_generation",
        "Log positions are compared within a generation only.",
        Replaced("state = next(iter(states.by_generation.values()), None)"),
        cell="a generation of the directory is replaced while functions and connectors die",
    ),
    Mutant(
        "devices.later_generation",
        "An environment that captures fewer generations keeps the states of later ones.",
        Returns("others"),
    ),
    Mutant(
        "devices.state_of_the_generation",
        "A device has the state of the generation that answers.",
        Returns('(not state.get("enabled", True), False)'),
    ),
    Mutant(
        "erasure.changed_device_state",
        "A state that changes while a person is erased is erased, too.",
        Replaced("write_changed(self.client, changed)"),
    ),
    Mutant(
        "devices.directory_first",
        "The first capture of the directory does not share OpenSearch with the registration of devices.",
        Removed(),
    ),
    Mutant("json.compact_nesting", "The nesting of compact JSON is bounded."),
    Mutant("json.nesting", "The nesting of JSON is bounded."),
    Mutant("json.read_without_loss", "Of equal keys in JSON none is lost.", Never()),
    Mutant("json.surrogates", "Half of a surrogate pair is refused."),
    Mutant("json.unsigned", "An integer beyond 64 bits is refused, as an unsigned one, too.", Becomes("value")),
    Mutant("decisions.other_content", "Of two contents for the same chunk and users the later is dead-lettered."),
    Mutant(
        "idempotency.claimed_send",
        "Each attempt of a request produces the send of the first one.",
        Becomes("new"),
        cell="send_handler killed between chunks, request repeated with its key",
    ),
    Mutant("idempotency.in_progress", "One attempt at a time executes a request."),
    Mutant("idempotency.other_request", "Another request under a key is refused."),
    Mutant("idempotency.tenants_key", "Tenants may use the same key.", Returns("sha256(key.encode()).hexdigest()")),
    Mutant("idempotency.released", "After an error the next attempt need not wait for the time-out.", Removed()),
    Mutant("idempotency.stored_response", "A repeated request gets the first response.", Removed()),
    Mutant(
        "idempotency.owner",
        "An attempt that lost its claim changes nothing.",
        Becomes('"attribute_exists(id) OR #owner = :owner"'),
    ),
    Mutant(
        "idempotency.expired_claim",
        "An expired claim that DynamoDB has not deleted does not count.",
        Becomes('"attribute_not_exists(id) OR expires_at < :now AND expires_at > :now"'),
    ),
    Mutant("named_sends.other_send", "The id of another tenant's send, or one that the service made, is refused."),
    Mutant(
        "sends.requested_does_not_fall", "The number of requested notifications does not fall.", Becomes("(name, each)")
    ),
    Mutant("sends.ended_is_requested", "No more notifications have ended than were requested.", Returns("totals")),
    Mutant("idempotency.refused_request", "A refused request leaves its idempotency key free."),
    Mutant("sends.unknown_category", "An unknown category over REST is refused."),
    Mutant("templates.unknown_template", "A template that does not exist is refused."),
    Mutant("idempotency.club_of_a_batch", "A batch has one club, to which its key belongs."),
    Mutant(
        "idempotency.stored_results",
        "A repeated batch gets the first results, whoever repeats it.",
        Becomes("json.dumps(batch.body(identity), ensure_ascii=False)"),
    ),
    Mutant("idempotency.partly_refused", "The key of a request with a part on Kafka stays bound.", Becomes("Problem")),
    Mutant("named_sends.other_content", "Other content under the id of a send is refused."),
    Mutant("named_sends.other_recipients", "Other recipients of a part are refused."),
    Mutant(
        "named_sends.whole_with_its_last_part",
        "A send counts as whole with its last part only.",
        Becomes("Part(digest, first, chunks, first + chunks)"),
    ),
    Mutant(
        "named_sends.concurrent_parts",
        "Concurrent parts of a send have different records.",
        Becomes('"attribute_exists(id) OR parts = :previous"'),
    ),
    Mutant("sends.half_surrogates", "A text that UTF-8 cannot encode is refused by its field."),
    Mutant(
        "api_keys.principals_request",
        "Callers may use the same Idempotency-Key for API keys.",
        Returns('f"keys#{sha256(idempotency_key.encode()).hexdigest()}"'),
    ),
    Mutant(
        "api_keys.made_once",
        "A repeated request makes no second API key.",
        Becomes('"attribute_not_exists(id) OR expires_at > :now"'),
    ),
    Mutant(
        "api_keys.no_later_end",
        "A rotation does not lengthen the life of a key that is revoked at the same time.",
        Becomes('""'),
    ),
    Mutant("api_keys.other_request", "Another request for an API key under an Idempotency-Key is refused."),
    Mutant("api_keys.rotated_key_outlives", "A rotation makes no key that ends with the previous one."),
    Mutant("api_keys.repeated_rotation_ends_the_key", "A repeated rotation ends the previous API key."),
    Mutant(
        "cancellations.before_publishing",
        "Nothing of a cancelled send is published.",
        cell="a send is cancelled while delivery is killed",
    ),
    Mutant(
        "cancellations.single_recipient",
        "A record's single recipient is cancelled by delivery alone.",
        Becomes("chunk.cancelled"),
    ),
    Mutant("cancellations.ended_send", "A send that has ended is not cancelled."),
    Mutant(
        "dynamodb.consistent_read",
        "A cancellation takes effect with the next batch.",
        Becomes('{table: {"Keys": list(keys), "ConsistentRead": False}}'),
    ),
    Mutant("dynamodb.unread_key", "A send whose cancellation was not read is not published.", Replaced("return found")),
    Mutant(
        "send_controls.previous_revision",
        "Of two concurrent changes of a control the second is refused.",
        Becomes('"attribute_not_exists(id)" if control.revision == 1 else "revision >= :previous"'),
    ),
    Mutant("send_controls.hostile_delayed_record", "A delayed record with an id that no send has is stored."),
    Mutant(
        "send_controls.changed_again",
        "A send whose control changed during a sweep is swept again.",
        Becomes('"changed_at_ms >= :changed OR changed_at_ms < :changed"'),
    ),
    Mutant(
        "send_controls.late_record",
        "A record that is stored under an earlier control is released, too.",
        Becomes("True"),
    ),
    Mutant("send_controls.paused_again", "The records of a send that is paused again are held.", Always()),
    Mutant(
        "send_controls.copy_of_a_pause",
        "A record held again is not deleted with the copy of the earlier pause.",
        Becomes("0"),
    ),
    Mutant(
        "send_controls.moved_send",
        "A released record of a send that was moved to a later time waits for it.",
        Becomes("False"),
    ),
    Mutant("send_controls.paused_request", "preference_checker holds the requests of a paused send.", Returns("None")),
    Mutant("send_controls.paused_delivery", "Nothing of a paused send is published.", Returns("None")),
    Mutant(
        "send_controls.moved_past_expiry",
        "A send that is moved past its expires_at does not wait for the new time.",
        Becomes("expires_at is not None and expires_at <= now_ms"),
    ),
    Mutant(
        "send_controls.published_part",
        "Of a record that was published in part, only the other recipients are held.",
        Always(),
    ),
    Mutant(
        "send_controls.queued_once",
        "The recipients of a held record are counted as queued once, however long the pause lasts.",
        Becomes("delivery"),
    ),
    Mutant(
        "send_controls.resumed_part",
        "A held part that is stored after the end of the pause does not wait for its limit.",
        Becomes("False"),
    ),
    Mutant(
        "send_controls.decided_request",
        "A request is not held once its recipients are decided about.",
        Returns("False"),
    ),
    Mutant(
        "send_controls.turns",
        "A resumed send does not wait until a backlog of due records is released.",
        Becomes("due if critical else [*due, *self._controlled(errors)]"),
    ),
    Mutant("send_controls.error_of_one_send", "A controlled send that cannot be read delays no other."),
    Mutant("send_controls.pause_of_an_ended_send", "A send that has ended is not paused."),
    Mutant("send_controls.released_send", "A send is not moved once its records may be released."),
    Mutant("send_controls.repeated_move", "A repeated move gets the same response, even after the new time."),
    Mutant("tenancy.scope_of_a_route", "A key reaches only the routes of its scopes."),
    Mutant("tenancy.listed_sends", "A tenant lists its own sends only.", Becomes("club_id")),
    Mutant("tenancy.overview", "The overview shows the caller's clubs only.", Becomes("asked")),
    Mutant(
        "scopes.overview",
        "A part of the overview needs the scope of its own route.",
        Replaced("return pool.submit(logs.carried(part))"),
    ),
    Mutant("tenancy.other_tenants_send", "Another tenant's send is handled as an unknown one."),
    Mutant("limits.own_key", "Each key has its own use.", Returns('f"{self.kind.name}#{self.start_s}"')),
    Mutant("limits.first_maker", "A key that a limited caller makes has no use of its own.", Returns("self.principal")),
    Mutant("limits.rotated_key", "A rotated key does not begin with an unused limit."),
    Mutant("limits.people", "People have the limits of their roles.", Becomes("{}")),
    Mutant(
        "limits.send_counted_once",
        "The recipients of a repeated send are counted once.",
        Becomes('"attribute_not_exists(absent)"'),
    ),
    Mutant(
        "limits.atomic_count",
        "The use of a window does not pass the maximum.",
        Becomes('"attribute_not_exists(used) OR used > :room OR used <= :room"'),
    ),
    Mutant(
        "limits.malformed",
        "A key whose limit is malformed is refused.",
        Replaced("if not isinstance(value, str) or not (value.isascii() and value.isdecimal()):\n    return None"),
    ),
    Mutant("limits.refused", "A request above a limit is refused."),
    Mutant(
        "limits.recipients_of_a_part",
        "Recipients are counted although others under the same id were counted.",
        Becomes("None if is_new else identity.send_id"),
    ),
    Mutant(
        "limits.recipients_of_a_send",
        "A send above the key's recipients of the day is refused before its first record.",
        Removed(),
    ),
    Mutant("limits.recipients_of_a_batch", "The sends of a batch are limited, too.", Removed()),
    Mutant("audit.requested_send", "Each send over REST is in the audit log.", Removed()),
    Mutant("audit.controlled_send", "Each cancellation is in the audit log.", Removed()),
    Mutant(
        "audit.entries_are_never_replaced",
        "No later write replaces an entry of the audit log.",
        Becomes('"attribute_exists(club) OR attribute_not_exists(club)"'),
    ),
    Mutant("audit.own_entries", "The entries of tenants are apart.", Returns('"*"')),
    Mutant(
        "tenancy.audit_log", "A tenant reads its own audit log only.", Becomes("() if club_id is None else (club_id,)")
    ),
    Mutant("tenancy.dead_letters", "A tenant reads its own dead letters only.", Becomes("_row(letter, club, marks)")),
    Mutant("tenancy.dead_letter", "A tenant replays and discards its own dead letters only.", Always()),
    Mutant(
        "templates.steps_of_regions",
        "Loading the formats of many regions takes a part of the template's steps.",
        Removed(),
    ),
    Mutant("tenancy.categories", "A tenant reads its own differences of the categories only.", Becomes("name in own")),
    Mutant("tenancy.suppressions", "A tenant reads its own suppressions only.", Becomes("asked")),
    Mutant("tenancy.removed_suppression", "A tenant removes its own suppressions only.", Becomes("found is None")),
    Mutant(
        "devices.enabled_on_request",
        "An operator enables only devices whose endpoint was reported as inactive.",
        Becomes("status.status == _ACTIVE"),
    ),
    Mutant("tenancy.disabled_devices", "A tenant reads its own disabled devices only.", Becomes("asked")),
    Mutant("tenancy.disabled_device_counts", "A tenant counts its own disabled devices only.", Becomes("asked")),
    Mutant("tenancy.enabled_device", "A tenant enables its own devices only.", Becomes("device is None")),
    Mutant("tenancy.api_keys", "A tenant rotates and revokes its own keys only.", Becomes("key is None")),
    Mutant("api_keys.authority_of_the_caller", "A key has no more authority than the key that created it."),
    Mutant("tenancy.counted_audience", "A tenant counts its own users only."),
    Mutant("audiences.own_tenant", "An audience has users of its own tenant only.", Becomes('{"filter": []}')),
    Mutant(
        "audiences.exceptions",
        "A user that an audience leaves out is not notified.",
        Returns("self.condition(user, settings)"),
    ),
    Mutant("audiences.confirmed_directory", "A user who was created before the request is in the audience.", Removed()),
    Mutant("audiences.concurrent_expansion", "Of two concurrent expansions of an audience one continues."),
    Mutant(
        "rebuild.state_after_rows",
        "A rebuilt generation is complete once all of its rows are written.",
        Becomes("[state for state in GUARDED if generation.snapshot_completed(0) is None]"),
    ),
    Mutant(
        "directory_state.confirmed_by_each_task",
        "What one task of directory_state has confirmed is confirmed by the task that answers.",
    ),
    Mutant(
        "directory_state.adopted_snapshot", "A store that another machine has copied whole is continued.", Removed()
    ),
    Mutant(
        "directory_state.databases_of_the_transaction",
        "A reader does not miss the documents of a database that another process makes as it begins.",
        Always(),
    ),
    Mutant(
        "directory_state.gap_of_the_snapshot",
        "A store with a gap is made from the topics, not from the snapshot.",
        Becomes("_run(with_snapshot=True)"),
    ),
    Mutant("directory_state.snapshot_of_all", "A snapshot is kept of a store that has read all topics."),
    Mutant("directory_state.snapshot_of_another_task", "One of several tasks keeps a snapshot."),
    Mutant("rebuild.lower_versions", "Documents of a new index are published over those of the lost one."),
    Mutant("rebuild.erased_user", "Lost changes of preferences do not come back to an erased user."),
    Mutant("rebuild.answering_generation", "Indices that answer look-ups are not rebuilt."),
    Mutant("rebuild.whole_topic", "A topic that has lost its first records rebuilds nothing."),
    Mutant("audiences.share_of_recording", "A record that has recorded its share of an audience hands the rest on."),
    Mutant("audiences.share_of_producing", "A record that has produced its share of an audience hands the rest on."),
    Mutant("audiences.time_of_a_share", "A slow audience is handed on after a time, too.", Returns("False")),
    Mutant("audiences.handed_on", "A record whose rest was handed on is not expanded again."),
    Mutant("audiences.age_of_the_last_share", "The last record of an audience does not outlive the recorded chunks."),
    Mutant("audiences.acknowledged_progress", "Progress is recorded once Kafka has acknowledged the records."),
    Mutant(
        "simulator.audience",
        "A test key's send to an audience has simulator recipients only.",
        Becomes("json.dumps(audience)"),
    ),
    Mutant("limits.audience", "The users of an audience are counted in the use of its key."),
    Mutant("simulator.dry_run", "A dry run of a test key shows simulator recipients only."),
    Mutant("simulator.reserved_ids", "Only the reserved ids are simulator recipients.", Returns("user_id >= FIRST_ID")),
    Mutant("simulator.never_published", "Nothing is published to a simulator recipient."),
    Mutant("simulator.test_key", "A test key sends to simulator recipients only."),
    Mutant("simulator.changes", "A test key changes no live send."),
    Mutant(
        "preferences.older_row",
        "A change through masscomm applies until the row has its version, and no longer.",
        Returns("self.changes"),
    ),
    Mutant(
        "preferences.unknown_version", "A row with a version that no change had replaces no change.", Returns("applied")
    ),
    Mutant(
        "preferences.opt_in_to_another_row", "An opt-in does not replace an opt-out that may be newer.", Becomes("True")
    ),
    Mutant("preferences.deleted_row", "A change that a deleted row had does not apply again.", Removed()),
    Mutant(
        "preferences.missed_delete",
        "A change that a row had whose deletion was not read does not apply again.",
        Returns("change.row(table, version)"),
    ),
    Mutant(
        "preferences.version_of_deleted_settings",
        "An opt-in from before a row was deleted does not apply again.",
        Returns('not source.get("deleted")'),
    ),
    Mutant("preferences.unreadable_changes", "A sweep skips changes of preferences that it cannot read."),
    Mutant("preferences.page_after_unreadable_changes", "A sweep of changed preferences reads every page.", Always()),
    Mutant(
        "preferences.unproducible_changes",
        "Changes of one user that can never be produced do not end a sweep.",
        Always(),
    ),
    Mutant("preferences.malformed_change", "A change that cannot be read opts out.", Returns("settings")),
    Mutant("cdc.missed_delete", "A tombstone deletes a row whose delete was compacted away.", Becomes("rows")),
    Mutant("cdc.delete_before_tombstone", "A tombstone after its delete deletes no row that was inserted again."),
    Mutant("cdc.young_tombstone", "A tombstone whose delete is in the topic deletes no row."),
    Mutant("cdc.consumed_before", "An old record that was consumed before is ignored."),
    Mutant("cdc.row_after_missed_delete", "A row that is inserted again is not written before a tombstone.", Removed()),
    Mutant("cdc.lost_column", "A row of a table that lost the column of opt-outs does not remove them."),
    Mutant(
        "cdc.infinity",
        "A user with an infinite date is not refused.",
        Replaced("if True:\n    return (epoch + timedelta(**{unit: number})).isoformat().replace('+00:00', 'Z')"),
    ),
    Mutant(
        "cdc.converted_texts",
        "A text with blanks at its end, or that was not logged, is not copied as it is.",
        Removed(),
    ),
    Mutant(
        "cdc.blanks",
        "The blanks that fill up a char(n) are no part of a time zone, an address or a language.",
        Removed(),
    ),
    Mutant(
        "cdc.lost_time_zone",
        "A row of a table that lost the column of time zones does not move the user's quiet hours.",
    ),
    Mutant(
        "directory.other_write_ahead_log",
        "Look-ups stop if the database assigns positions of its log again, which would hide newer rows.",
        Returns("False"),
    ),
    Mutant("templates.null", "No message has the word None in the place of a value.", Returns("found")),
    Mutant(
        "audiences.number_in_a_text",
        "A condition compares the numbers of a numeric column, which are texts.",
        Returns("None"),
    ),
    Mutant("audiences.names_of_a_locale", "All names of a locale are equal in a condition.", Becomes("str")),
    Mutant("cdc.refused_settings", "A user whose first settings cannot be read is opted out."),
    Mutant(
        "cdc.row_without_an_owner",
        "A user without a tenant, and a device without a user, are not reached by their earlier owner.",
    ),
    Mutant(
        "preferences.path_without_an_object",
        "JSON that is no object, where settings have a path, does not remove opt-outs.",
    ),
    Mutant(
        "preferences.snapshot_of_settings",
        "An opt-in that was made for the row of one snapshot does not apply to that of another.",
        Becomes("version"),
    ),
    Mutant(
        "preferences.rules_without_an_object",
        "Rules that are no object opt out, also false, 0 and an empty list.",
        Returns("value or {}"),
    ),
    Mutant("preferences.unknown_category", "An unknown name in the rules for categories opts out of everything."),
    Mutant("preferences.unknown_channel", "An unknown name in the rules for channels opts out of everything."),
    Mutant("preferences.unknown_name_in_category", "An unknown name in the rule for a category opts out of it."),
    Mutant("preferences.two_spellings", "Two spellings of a name allow only if both are true.", Becomes("value")),
    Mutant(
        "preferences.wish_replaces_other_spellings",
        "A change through masscomm replaces the rules under other spellings of the name.",
        Returns("{**rules, name: setting}"),
    ),
    Mutant("quiet_hours.unknown_name", "An unknown name in quiet hours means further hours at night.", Becomes("[]")),
    Mutant(
        "time_zones.other_names",
        "A time zone is found by its name in another case, and by its name in Windows.",
        Becomes("None"),
    ),
    Mutant("time_zones.sign_of_an_offset", "GMT+11 is eleven hours ahead of UTC.", Becomes("-size")),
    Mutant(
        "cdc.spelled_member",
        "An opt-out inside a JSON column is found under each spelling of its name.",
        Returns("exact"),
    ),
    Mutant(
        "categories.spelling",
        "A category has its channels, opt-ins and mandatory flag in any spelling.",
        Replaced("listed = name"),
    ),
    Mutant(
        "registry.second_user", "While its password is rotated, two users of the schema registry are valid.", Never()
    ),
    Mutant(
        "registry.owns_its_tables",
        "The schema registry's user owns the tables that an administrator has created for it.",
        Removed(),
    ),
    Mutant(
        "erasure.spelled_address",
        "An erased address is found in every spelling of its characters.",
        Returns("match[0].lower()"),
    ),
    Mutant(
        "erasure.normal_forms",
        "The suppressions of an address are erased in each of its normal forms.",
        Becomes("self.addresses.update([address.lower()])"),
    ),
    Mutant(
        "source_init.doubtful_wish",
        "`masscomm source init` proposes no rule for a column whose name does not say beyond doubt what true means.",
        Becomes("True"),
    ),
    Mutant(
        "source_init.inverted_wish",
        "`masscomm source init` reads names such as unsubscribed as opt-outs.",
        Returns("Wish(channels or tuple(_CHANNELS), True if is_flag and clear else None)"),
    ),
    Mutant("source_init.inverted", "`masscomm source init` inverts the values of an opt-out.", Becomes("flags")),
    Mutant(
        "source_init.null_is_no_consent", "`masscomm source init` counts a null in an opt-in as no.", Becomes("True")
    ),
    Mutant("source_init.undecided", "`masscomm source init` opts out every user where a wish cannot be mapped."),
    Mutant(
        "source_check.members_of_objects",
        "`masscomm source check` names the unknown members of objects, which opt out every user.",
    ),
    Mutant(
        "source_check.spelled_member",
        "`masscomm source check` finds a required member in any spelling, as the reader does.",
        Becomes("True"),
    ),
    Mutant(
        "source_check.unknown_settings",
        "`masscomm source check` names the unknown names in settings, which are opt-outs.",
        Returns("()"),
    ),
    Mutant(
        "audiences.names_of_a_zone",
        "A condition about time zones finds users by every name of the zone.",
        Becomes("str"),
    ),
    Mutant(
        "time_zones.renamed",
        "The present and the former names of a time zone are one zone.",
        Returns("str(zone) if offset is None else offset"),
    ),
    Mutant("audiences.unknown_setting", "A condition about a setting that no user can have is refused."),
    Mutant(
        "audiences.spelling_of_a_setting",
        "A condition finds a setting in any spelling of its name.",
        Returns("settings.get(name)"),
    ),
    Mutant(
        "preferences.changes_without_a_row",
        "A row that may still arrive is awaited, although the user has changed preferences.",
        Without(2),
    ),
    Mutant("tenancy.user", "Another tenant's user is not shown.", Becomes("person is None")),
    Mutant("tenancy.listed_users", "The list of users has those of one tenant.", Becomes('{"filter": []}')),
    Mutant("audit.user", "A user is shown only if the audit log has the reading.", Removed()),
    Mutant(
        "tenancy.changed_preferences",
        "The preferences of another tenant's user are not changed.",
        Becomes("user is None"),
    ),
    Mutant("preferences.opt_in", "In a category that needs an opt-in, a rule for the channel is none."),
    Mutant("unsubscribe.signature", "A link that we did not sign is refused."),
    Mutant("unsubscribe.expiry", "An expired link is refused."),
    Mutant(
        "unsubscribe.tenant",
        "A link of one tenant does not concern a user of another.",
        Becomes("self.preferences.find(user_id, range(2**62))"),
    ),
    Mutant(
        "unsubscribe.category", "A link ends the e-mails of its category only.", Becomes("Wish(None, CHANNEL, False)")
    ),
    Mutant("unsubscribe.one_click", "A POST whose form has another key than that of RFC 8058 changes nothing."),
    Mutant("unsubscribe.rate", "Clicks on a link are limited.", Removed()),
    Mutant(
        "unsubscribe.clicks_apart",
        "Requests of mail scanners use up no clicks on a link.",
        Becomes('f"unsubscribe:{token[-16:]}"'),
    ),
    Mutant(
        "unsubscribe.scanned_page", "The page of a link has its button, whatever number of requests a scanner makes."
    ),
    Mutant("unsubscribe.https", "Links have https outside this machine."),
    Mutant("public_urls.https", "A tenant's server is called with TLS only."),
    Mutant("public_urls.credentials", "The URL of a tenant's server contains no credentials."),
    Mutant("public_urls.port", "A tenant's server is not called on a port of another service."),
    Mutant("public_urls.addresses", "No server inside the installation is called for a tenant."),
    Mutant(
        "cloud_events.source_in_id", "CloudEvents of two sources under one id are two events.", Returns("f'{id_}@'")
    ),
    Mutant("cloud_events.version", "A CloudEvent of another version of the specification is refused."),
    Mutant(
        "events.fields_of_several",
        "An endpoint receives the fields of all its subscriptions that match.",
        Becomes("earlier"),
    ),
    Mutant("outbox.inserts_alone", "Only an inserted row of the outbox is an event."),
    Mutant(
        "outbox.time_with_zone", "A time in the outbox without its zone is dead-lettered.", Becomes("moment is None")
    ),
    Mutant("outbox.one_generation", "Of two generations, the outbox of one is read.", Becomes("captured")),
    Mutant("event_mapping.own_type", "A document of another system gives no event of masscomm's own types."),
    Mutant(
        "rules.derived_send_id", "No caller can choose the id of a rule's send.", Returns("_uuid5(rule + event_id)")
    ),
    Mutant("rules.no_loops", "No rule makes a send of masscomm's own events.", Never()),
    Mutant("rules.own_types", "A rule names none of masscomm's own event types."),
    Mutant("rules.clubs_of_the_owner", "A rule sends to the clubs of its owner only."),
    Mutant("rules.scopes_of_the_owner", "A rule sends with the scopes of its owner only."),
    Mutant("rules.unknown_category", "A rule of a category that is removed sends nothing."),
    Mutant(
        "rules.bounded_refusals",
        "A batch stores the refused events of a bounded number of rules.",
        Becomes("list(self._waiting)"),
    ),
    Mutant("rules.refusals_of_outages", "Refused events that cannot be stored now are stored later.", Removed()),
    Mutant(
        "rules.refused_by_deleted",
        "The refused events of a deleted rule are not stored.",
        Becomes('"attribute_exists(id) OR attribute_not_exists(id)"'),
    ),
    Mutant("rules.revoked_owner", "The rules of a key that has ended send nothing.", Becomes("key is not None")),
    Mutant(
        "rules.limit_of_the_owner", "Rules send within the limit of their owner.", Returns("Use(counted=True, used=0)")
    ),
    Mutant("rules.recipients_in_data", "The recipients in an event's data are user ids."),
    Mutant("rules.event_without_unit", "An event without a unit is sent to no unit."),
    Mutant(
        "tenancy.listed_rules",
        "A caller lists the rules of its own clubs.",
        Becomes("(club_id,) if club_id else tuple(clubs.ids)"),
    ),
    Mutant(
        "tenancy.matching_rules",
        "The rules for every club are shown to a caller of every club only.",
        Becomes("True"),
    ),
    Mutant(
        "aws_targets.partial_failure",
        "Of a request to a queue or a bus, the refused messages are repeated.",
        Becomes("{str(number) for number in range(count)}"),
    ),
    Mutant("aws_targets.role_of_the_account", "The role of a queue or a bus belongs to its account."),
    Mutant(
        "assumed_roles.external_id_is_required",
        "A role that can be assumed without its external id is refused.",
        Never(),
    ),
    Mutant(
        "tenancy.source",
        "A source of another tenant is as unknown ones.",
        Becomes("None if key is None else self.store.find([key]).get(key)"),
    ),
    Mutant("tenancy.clubs_of_source", "A caller makes sources for its clubs only."),
    Mutant("sources.signature", "An incoming webhook with another signature is refused."),
    Mutant("sources.age_at_receipt", "An incoming webhook that is sent again later is refused."),
    Mutant("sources.previous_secret", "The previous secret of a source ends."),
    Mutant("sources.own_tenants", "A source reports events of its tenants only."),
    Mutant("sources.one_bad_webhook", "A webhook that cannot be processed delays no other."),
    Mutant(
        "sources.recorded_after_kafka",
        "An incoming webhook that Kafka has not taken is produced again.",
        Becomes("list(new.values())"),
    ),
    Mutant("sources.repeated_body", "A captured request without a signed id is no second event under another id."),
    Mutant("sources.alone_after_a_fault", "A webhook that the code cannot process delays no other."),
    Mutant("sources.expired_accepted", "An accepted webhook is listed for 14 days."),
    Mutant("sources.expired_refusal", "A refused webhook is listed for 14 days."),
    Mutant("events.unit_is_a_path", "The unit of an event is a path."),
    Mutant("events.unit_of_time", "The time of an event is in milliseconds."),
    Mutant("events.unrecorded_messages", "A kill repeats at most the messages that are not recorded."),
    Mutant("events.sent_before_a_kill", "A message that was sent and recorded before a kill is not sent again."),
    Mutant("tenancy.rules_of_several_clubs", "A rule for several tenants is stored apart from those of each."),
    Mutant("webhooks.test_of_a_subscribed_type", "An endpoint gets test events of types to which it subscribes."),
    Mutant("events.records_left_out", "The records that a killed sender has recorded and not put are put.", Removed()),
    Mutant("delay_store.put_again", "A prepared record that was released is not put again.", Always()),
    Mutant("events.size_of_data", "The data of an event has at most 64 kB."),
    Mutant("events.expired_id", "The id of an event is recognised for a day."),
    Mutant("events.linear_patterns", "The patterns of a schema are matched in linear time.", Becomes("None")),
    Mutant("events.size_of_record", "A record of messages is bounded."),
    Mutant("events.unknown_type", "An event of an unknown type is dead-lettered.", Removed()),
    Mutant("events.misfit", "An event whose data does not fit its type is dead-lettered."),
    Mutant("events.faults_of_messages", "A message with an invalid field is dead-lettered."),
    Mutant(
        "events.after_a_failure",
        "Messages wait once their endpoint does not answer.",
        Returns("self.error is not None"),
    ),
    Mutant("events.time_for_an_attempt", "An attempt ends before the function is stopped.", Returns("True")),
    Mutant("events.time_of_a_batch", "A busy endpoint delays the others of its partition for seconds."),
    Mutant("events.failing_endpoint", "A failing or slow endpoint delays no other.", Returns("True")),
    Mutant(
        "events.slow_endpoint",
        "An endpoint that accepts slowly is slow.",
        Becomes("endpoint.failing_since_ms is not None"),
    ),
    Mutant(
        "events.one_probe",
        "One message probes a failing endpoint, by its schedule.",
        Becomes("stored is None or not stored.enabled"),
    ),
    Mutant("events.schedule_of_probes", "Only a probe makes the delay of the next one longer.", Always()),
    Mutant("events.end_of_the_schedule", "A message has a bounded number of attempts."),
    Mutant("events.rate_of_an_endpoint", "Messages beyond the rate of an endpoint are stored.", Returns("True")),
    Mutant("events.size_of_batch", "A request has at most max_bytes.", Becomes("len(some) == max_count")),
    Mutant(
        "delay_store.apart",
        "The claim of a large record costs one write unit.",
        Becomes("packed if len(packed) > _PART_BYTES else b''"),
    ),
    Mutant("delay_store.expiring_parts", "A result of a full record costs at most 0.05 write units.", Always()),
    Mutant("events.order_of_a_key", "A message waits for those before it with the same key.", Always()),
    Mutant("events.partition_of_a_key", "The events of a key share a partition.", Becomes("event.event_id")),
    Mutant("events.queue_of_a_key", "The waiting messages of a key are bounded.", Becomes("len(new)")),
    Mutant("events.lost_message", "Messages do not wait for one that does not exist any more.", Returns("False")),
    Mutant(
        "events.one_message_of_a_key",
        "A queue that refuses a message accepts no later one of the same request.",
        Becomes("False"),
    ),
    Mutant("webhooks.order_of_gathered", "An ordered endpoint gathers no messages in the delay store."),
    Mutant("events.max_wait", "A request that is not full waits for further messages.", Becomes("False")),
    Mutant("events.repeated_batch", "A repeated request has the same messages.", Becomes("False")),
    Mutant("webhook_authentication.overlap", "Previous credentials are used for a day only.", Becomes("True")),
    Mutant("webhook_authentication.unreadable", "An endpoint whose credentials cannot be read delays no other."),
    Mutant("webhook_authentication.other_server", "Stored credentials are not used for another server."),
    Mutant(
        "webhook_authentication.reserved_headers",
        "A tenant's headers replace none of masscomm's.",
        Becomes("all(map(_HEADER_NAME.fullmatch, names))"),
    ),
    Mutant("webhook_authentication.digest", "No password can be guessed from a stored digest.", Returns("fields")),
    Mutant(
        "webhook_tokens.one_request",
        "One environment requests an access token.",
        Becomes('f"attribute_exists(id) OR {condition}"'),
    ),
    Mutant("webhook_tokens.one_environment", "One environment renews an access token.", Always()),
    Mutant("webhook_tokens.age_of_refused", "An endpoint does not get a new token for each request.", Always()),
    Mutant(
        "kept_alive_http.connections_of_a_client",
        "Two endpoints do not share connections with a client certificate.",
        Becomes('_Server(target.scheme, target.host, target.port, "")'),
    ),
    Mutant("kept_alive_http.contexts", "The kept settings of TLS are bounded."),
    Mutant("events.kept_dead_letters", "An endpoint keeps about a million dead letters, and none is removed before."),
    Mutant(
        "events.expired_dead_letter",
        "A dead letter that DynamoDB has not deleted yet is neither listed nor sent again.",
        Becomes('after or ""'),
    ),
    Mutant("events.announced_endpoint", "An endpoint that masscomm disables is announced."),
    Mutant("events.size_of_waiting_record", "A record of waiting messages fits into an item."),
    Mutant(
        "registry.schema_of_released_record", "A record of another version does not get the id of this one's schema."
    ),
    Mutant(
        "subscriptions.batched_endpoint", "A subscription is published as its endpoint is.", Returns("subscription")
    ),
    Mutant("events.other_event_of_an_id", "Two events have two ids."),
    Mutant(
        "events.recorded_after_kafka",
        "An event that Kafka has not acknowledged is accepted again.",
        Becomes("{key: each.digest for key, each in new.items()}"),
    ),
    Mutant("tenancy.reported_events", "A caller reports events of its clubs only."),
    Mutant("tenancy.event_types", "Credentials for single clubs change no event type."),
    Mutant("tenancy.changed_categories", "Credentials for single clubs change no category."),
    Mutant("batch.unprepared", "A batch waits while the categories that are valid now are unknown."),
    Mutant("tenancy.saved_audiences", "A caller uses saved audiences of its clubs only."),
    Mutant("audiences.saved_users", "A saved audience names no user."),
    Mutant(
        "audiences.changed_definition",
        "A repeated send to a saved audience is the same one after the audience has changed.",
        Removed(),
    ),
    Mutant("conditions.changed_resource", "A change of what another request has changed since is refused."),
    Mutant("conditions.existing_resource", "An addition of what exists is refused."),
    Mutant("categories.new_category", "REST knows a new category at once.", Becomes("is_fresh")),
    Mutant(
        "categories.changed_meanwhile",
        "Of two changes of categories at the same time, the second one is refused.",
        Becomes('"attribute_exists(part) OR attribute_not_exists(part)"'),
    ),
    Mutant("categories.needed_versions", "Versions that no waiting send needs are dropped."),
    Mutant("digests.message", "The message of a digest is not collected."),
    Mutant("digests.critical", "Notifications of the critical lane are not collected."),
    Mutant("digests.cancelled", "Notifications of a cancelled send are not collected."),
    Mutant("digests.expires_before", "A notification that expires before its digest closes goes out alone."),
    Mutant("digests.quiet_hours", "A digest does not close in the user's quiet hours.", Returns("due_ms")),
    Mutant(
        "digests.single_recipient",
        "The record of a single collected recipient has an id of its own.",
        Becomes("len(request.positions) > 1"),
    ),
    Mutant("digests.out_of_time", "Recipients for whom there is no time are collected in a record of their own."),
    Mutant("digests.joined_once", "A repetition finds the digest that it has joined."),
    Mutant("digests.sender", "The record that has closed a digest produces its message."),
    Mutant(
        "digests.closing_record",
        "The message does not wait for another record than the one that closes the digest.",
        Replaced("self._close(digest, closing)"),
    ),
    Mutant(
        "digests.unreadable_control", "A send whose item cannot be read stops no other in its digest.", Returns("None")
    ),
    Mutant("digests.closed_stays", "What was decided when a digest closed stays."),
    Mutant("digests.recorded", "A recorded decision is not collected again.", Becomes("digest is None or not wanted")),
    Mutant(
        "digests.messages_of_decided",
        "A redelivered record produces the messages of its digests, however little time there is.",
        Becomes("counting.has_time"),
    ),
    Mutant("frequency_caps.all_or_none", "A cap that is full refuses, and then no place of another cap is taken."),
    Mutant(
        "frequency_caps.own_place",
        "A repetition finds its place, and a send over several channels counts once.",
        Returns("len(counted) >= cap.limit"),
    ),
    Mutant(
        "frequency_caps.changed_meanwhile",
        "Of two concurrent changes of a user's places, one is refused.",
        Becomes('"attribute_exists(recipient) OR attribute_not_exists(recipient)"'),
    ),
    Mutant("frequency_caps.out_of_time", "Recipients for whom there is no time are counted in a record of their own."),
    Mutant("frequency_caps.mandatory", "No cap applies to a mandatory category."),
    Mutant("frequency_caps.critical", "No cap applies in the critical lane."),
    Mutant("frequency_caps.cancelled", "A cancelled send takes no place."),
    Mutant("frequency_caps.recorded", "A recorded decision is not counted again.", Becomes("not wishes")),
    Mutant("frequency_caps.held_recipient", "A recipient that waits is counted when it is decided.", Returns("True")),
    Mutant(
        "frequency_caps.built_once",
        "The builder's first decision about a single recipient of a capped category stays.",
        Becomes("False"),
    ),
    Mutant(
        "frequency_caps.damaged_item", "A user whose places cannot be read gets nothing that is capped.", Becomes("{}")
    ),
    Mutant("frequency_caps.unsent", "A notification that ends unsent gives its place back.", Removed()),
    Mutant("sends.retired_category", "A send of a retired category over REST is refused."),
    Mutant("metrics.changed_categories", "A batch is counted with the categories that are valid for its records."),
    Mutant(
        "tenancy.subscription",
        "A subscription of another tenant is as unknown ones.",
        Becomes("None if key is None else self.store.find(key)"),
    ),
    Mutant("tenancy.subscribed_clubs", "A caller subscribes to the events of its clubs only."),
    Mutant(
        "subscriptions.later_change",
        "A change stays unpublished while an earlier one is published.",
        Becomes('"version = :version OR attribute_exists(id)"'),
    ),
    Mutant(
        "subscriptions.changed_while_published",
        "The last record of a subscription is its stored state.",
    ),
    Mutant(
        "subscriptions.deleted_endpoint",
        "The subscriptions of a deleted endpoint are deleted.",
        Returns("subscription"),
    ),
    Mutant(
        "subscriptions.marked_before_deletion",
        "A killed request deletes no endpoint without its subscriptions.",
        Removed(),
    ),
    Mutant(
        "subscriptions.marked_after_deletion",
        "A subscription that is created while its endpoint is deleted is deleted, too.",
        Removed(),
    ),
    Mutant(
        "subscriptions.idle_matcher",
        "A matcher that was idle for long reads every subscription again.",
        Becomes("False"),
    ),
    Mutant("dynamodb.unwritten_item", "Items that DynamoDB leaves unwritten are an error.", Removed()),
    Mutant("registry.bundled_schema", "A record of another version of its schema waits."),
    Mutant("kept_alive_http.idle_connections", "Idle connections are bounded."),
    Mutant("public_urls.loopback_in_production", "A deployment refuses servers on the function's own machine."),
    Mutant("tenancy.webhooks", "A caller lists the webhook endpoints of its clubs only.", Becomes("sorted(asked)")),
    Mutant("tenancy.created_webhook", "A caller creates webhook endpoints for its clubs only."),
    Mutant("tenancy.webhook", "A webhook endpoint of another tenant is as unknown ones.", Becomes("key is None")),
    Mutant("webhooks.previous_secret", "The previous secret signs for a day, and no longer.", Always()),
    Mutant("webhooks.gone", "An endpoint that answers 410 is disabled."),
    Mutant("webhooks.failing_for_days", "An endpoint that fails for days is disabled."),
    Mutant(
        "webhooks.failure_after_silence",
        "One failure after days without events does not disable an endpoint.",
        Always(),
    ),
    Mutant("webhooks.retry_after", "Retry-After is honoured up to a day.", Becomes("attempt.retry_after_s or 0")),
    Mutant(
        "webhooks.endpoint_revision",
        "Concurrent changes of an endpoint do not overwrite each other.",
        Becomes('"revision = :previous OR attribute_exists(id)"'),
    ),
    Mutant("webhooks.lost_response", "A change whose response was lost is not made twice.", Returns("False")),
    Mutant(
        "webhooks.recorded_event",
        "An event of a send that Kafka has not acknowledged is produced again.",
        Becomes("list(events)"),
    ),
    Mutant(
        "events.own_type",
        "A row of the outbox is none of masscomm's events.",
        Becomes("value.about.type not in OWN_EVENT_TYPES"),
    ),
    Mutant(
        "events.subscribed_outcomes",
        "Outcomes of a club without a subscription to its notifications are not decoded.",
        Without(2),
    ),
    Mutant(
        "subscriptions.implicit",
        "The endpoints of an earlier version get events before the first search for events.",
        Never(),
    ),
    Mutant(
        "subscriptions.endpoint_changed_meanwhile",
        "A subscription whose endpoint changes while all are published is published again.",
    ),
    Mutant("tenancy.deliveries", "A caller sees the deliveries of events of its clubs only.", Becomes("()")),
    Mutant(
        "webhooks.result_of_the_present_endpoint",
        "An answer of a URL that the tenant has left does not disable the endpoint.",
        Without(2),
    ),
    Mutant(
        "webhooks.created_once",
        "Of concurrent creations with one key, one stores the endpoint.",
        Becomes('"attribute_not_exists(id) OR attribute_exists(id)"'),
    ),
    Mutant("webhooks.other_request", "The idempotency key of another creation is refused."),
    Mutant(
        "webhooks.other_principal", "A creation that another principal repeats returns no secret.", Becomes("fields")
    ),
    Mutant(
        "webhooks.rotation_of_another_principal",
        "A rotation that another principal repeats returns no secret, and makes none.",
    ),
    Mutant(
        "webhooks.counted_endpoints",
        "Concurrent creations of endpoints do not exceed the maximum of a club.",
        Becomes('"version = :counted OR attribute_exists(id)"'),
    ),
    Mutant("webhooks.rotated_once", "A repeated rotation of a secret makes no third secret."),
    Mutant("webhooks.tested_once", "A repeated request sends the event webhook.test once.", Becomes("str(uuid4())")),
    Mutant("webhooks.resent_once", "A repeated request attempts a delivery again once."),
    Mutant(
        "webhooks.earlier_event",
        "An endpoint receives no events of before its creation, or of before it was enabled.",
    ),
    Mutant(
        "tenancy.dry_run_user",
        "A dry run does not tell a user of another tenant from an unknown one.",
        Becomes("set(users)"),
    ),
    Mutant(
        "gateway.principal_of_a_request",
        "The access log of the local gateway names the principal of a request.",
        Becomes('"-"'),
    ),
    Mutant(
        "dry_run.refused_before_a_provider",
        "A dry run counts a message that no provider would get, such as that to an invalid address, as failed.",
        Returns("CallAnswer(message_id='accepted')"),
    ),
    Mutant(
        "problems.unknown_fields", "A body with an unknown field is refused with the name of that field.", Becomes("[]")
    ),
    Mutant(
        "problems.not_utf8", "A body that is not UTF-8 is refused with that reason, and not with one of its fields."
    ),
    Mutant(
        "client.reasons_of_errors",
        "The client's error says the field and the reason of each error of the API.",
        Becomes("list[tuple[str, str]]()"),
    ),
    Mutant("client.removed_before", "The client takes a 404 after its own removal for success."),
    Mutant("client.unknown_send", "Following an unknown send ends.", Returns("error.status == httpx.codes.NOT_FOUND")),
    Mutant("client.webhook_time", "The client refuses a webhook that was signed long ago."),
    Mutant("mcp.max_recipients", "A server for agents sends to a limited number of recipients."),
    Mutant("mcp.send_only_if_allowed", "A server for agents sends only if it is told to.", Becomes("(tools.send,)")),
    Mutant(
        "webhooks.changed_again",
        "A send that changed again while it was examined is examined again.",
        Becomes('"changed_at_ms >= :examined"'),
    ),
    Mutant("time_zones.unknown_is_counted", "Users whose unknown time zone counts as UTC are counted.", Removed()),
    Mutant(
        "unsubscribe.missing_way_out_is_seen",
        "The health names the categories whose e-mails offer no way to unsubscribe.",
        Becomes("[]"),
    ),
    Mutant(
        "unsubscribe.mandatory_category",
        "E-mails of mandatory categories have no unsubscribe header.",
        Becomes("False"),
    ),
    Mutant("sends.completed_registration", "A send whose registration was lost is registered with its record."),
    Mutant("sends.record_of_another_send", "A record of another send under a used id is dead-lettered."),
    Mutant("sends.same_send", "A send has one content, over REST and by Kafka.", Returns("self.key == other.key")),
    Mutant("sends.hostile_send_id", "An id that no send has stops no batch.", Always()),
    Mutant("sends.expired_item", "An expired send frees its id.", Becomes('"attribute_not_exists(send_id)"')),
    Mutant("sends.expired_message", "A message is shown for 30 days.", Returns("True")),
    Mutant("tenancy.kept_message", "A tenant reads the messages of its own sends only.", Returns("_message(item)")),
    Mutant("kept_messages.category", "The message of a mandatory or unknown category is not kept.", Returns("False")),
    Mutant(
        "kept_messages.shown_category",
        "The message of a category that has become mandatory is not shown.",
        Becomes("message is None"),
    ),
    Mutant("kept_messages.critical", "The message of a send in the critical lane is not kept.", Never()),
    Mutant("kept_messages.small", "A small send by Kafka writes one item.", Never()),
    Mutant("kept_messages.too_large", "Variables that are too large for an item stop no send.", Returns("None")),
    Mutant("single_users.kept_message", "The values of few users need the scope of reading users.", Becomes("False")),
    Mutant(
        "erasure.kept_message",
        "An erased person's messages are deleted.",
        Becomes("'recipients = :alone AND contains(user_ids, :user) AND club_id = :club'"),
    ),
    Mutant("tenancy.registered_send", "A tenant reads and controls its own sends only.", Returns("self")),
    Mutant("webhooks.unknown_send", "The events of a send that only counts know wait for the counts."),
    Mutant("webhooks.expired_event", "An event is not announced again after its record has expired.", Removed()),
    Mutant("tenancy.counted_send", "Counts of another tenant's send with the same id are not shown.", Removed()),
    Mutant("tenancy.counted_states", "States of another tenant's send with the same id are not shown."),
    Mutant(
        "tenancy.send_results",
        "Results of another tenant's records with the id of a send are not shown.",
        Becomes('"(club_id >= :club OR club_id < :club) AND at_ms >= :since AND expires_at > :now"'),
    ),
    Mutant("results.small_sends", "Results are stored for the positions of small sends only."),
    Mutant("results.registered_parts", "A send does not end before all of its parts are registered."),
    Mutant("results.unreadable", "A send whose results cannot be read is answered with its counts."),
    Mutant(
        "audiences.failure_of_another_send",
        "A dead-lettered record of another send does not mark a send as failed.",
        Becomes("send is not None"),
    ),
    Mutant("audiences.of_the_moment", "The users of a scheduled send are sought when it is due."),
    Mutant(
        "audiences.released_early",
        "A record that the scheduler releases early, by its own clock, is not lost.",
        Replaced("due_ms, reason = begin_ms, SEND_AT"),
    ),
    Mutant("audiences.paused_until_expanded", "The users of a paused send are sought when it is resumed."),
    Mutant("audiences.cancelled_before_its_time", "A send that is cancelled before its time has no users."),
    Mutant("audiences.registered_send", "A record of another send under a used id expands nothing."),
    Mutant("audiences.replayed_letter", "The replay of a dead-lettered audience expands it."),
    Mutant("idempotency.mode_of_a_key", "A rehearsal leaves the key of the live send free.", Becomes('""')),
    Mutant("limits.use_of_a_key", "Another key and another amount are counted.", Returns("f'send#{send_id}'")),
    Mutant("named_sends.produced_part", "A repeated part that the broker has produces nothing."),
    Mutant("sends.registered_first", "A send that can be controlled is registered before it is produced."),
    Mutant("delivery_ledger.other_recipients", "Other recipients under a recorded id have outcomes of their own."),
    Mutant(
        "audiences.recorded_chunk",
        "The users of a chunk are recorded once.",
        Becomes('self._put({"TableName": self._table, "Item": item})'),
    ),
)
