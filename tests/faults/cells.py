"""The fault matrix: each cell has a fault, the sends during it, and an expectation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from functions.delivery.publish import UNRECORDED
from local.emulators.event_source import Pollers
from masscomm.directory.chosen import STATE
from masscomm.kafka import topics
from tests.faults import (
    audiences,
    broken,
    caps,
    counting,
    delaying,
    delivering,
    digests,
    events,
    fallbacks,
    flood,
    generations,
    pacing,
    processes,
    providers,
    quiet,
    receipts,
    requesting,
    second_broker,
    servers,
    sweeps,
    tenants,
)
from tests.faults.moments import Moment
from tests.support.fault_stack.cell import Cell, Deployment, Expectation, FaultOf, Load

MANY = Load(users=400, chunk=50)  # With this number of users, several records are in progress at each step.
OWN = Load(users=60, own=True)
MAIL = Load(users=400, channel="email")
ONE_SLICE = Load(users=UNRECORDED)
NO_LOAD = Load(users=0)  # for faults that request the sends themselves, or need none
REFUSED_USERS = Expectation(refused_users=(5, 6, 25))
TAKEN_AND_LOST = 7


def _killed(function: str, topic: str, *few: Moment) -> list[Cell]:
    """Return one cell for each moment of a kill. Only the moments `few` run with the other tests."""
    when: dict[Moment, str] = {"before": "before", "middle": "in the middle of", "after": "after"}
    return [
        Cell(
            name=f"{function} killed {words} producing",
            fault=processes.killed(function, topic, moment),
            load=MANY,
            ci=moment in few,
        )
        for moment, words in when.items()
    ]


def _dead_lettered(name: str, reason: str, position: int, *, ci: bool = False) -> Cell:
    fault = broken.among_valid(reason, positions=(position,))
    return Cell(name=name, fault=fault, load=NO_LOAD, expectation=Expectation(dead_letters=(reason,)), ci=ci)


_COMPACT = (
    # --- a killed function ---
    *_killed("preference_checker", "build", "middle"),
    *_killed("builder", "delivery", "after"),
    *_killed("delivery", "outcome"),
    # With the other tests it runs in several environments: _IN_ENVIRONMENTS.
    Cell(name="delivery killed in the middle of publishing", fault=processes.killed_publishing),
    Cell(
        name="every function killed in turn",
        fault=processes.every_function_killed,
        load=Load(users=800, chunk=100),
        ci=True,
    ),
    Cell(name="delivery of the critical lane killed during a bulk send", fault=processes.critical_killed_during_bulk),
    Cell(name="delivery times out", fault=processes.timed_out),
    Cell(
        name="the provider is slower than an invocation is long",
        fault=processes.slower_than_an_invocation,
    ),
    Cell(name="a function takes too long for longer than all attempts", fault=processes.times_out_repeatedly),
    Cell(
        name="a record crashes its function at each attempt",
        fault=processes.crashes_repeatedly,
        expectation=Expectation(dead_letters=("crashes",)),
    ),
    Cell(name="the same batch twice at the same time", fault=processes.twice, ci=True),
    Cell(
        name="an opt-out between two deliveries of one batch",
        fault=processes.opt_out_between,
        load=Load(users=400, own=True),
        ci=True,
    ),
    Cell(
        name="an opt-out between two checks of one batch",
        fault=processes.recorded_decision_counts,
        load=Load(users=400, own=True),
    ),
    Cell(
        name="users absent at the first check and partly absent at the second",
        fault=delivering.absent_then_partly_absent,
        load=NO_LOAD,
    ),
    Cell(
        name="preference_checker killed between delaying for quiet hours and its outcome",
        fault=quiet.killed_while_holding,
        load=NO_LOAD,
    ),
    Cell(name="quiet hours begin while SNS is down", fault=quiet.begin_while_provider_is_down, load=NO_LOAD),
    Cell(name="delivery asleep for longer than its lease", fault=processes.asleep, load=ONE_SLICE),
    Cell(
        name="a record repeated in another lane", fault=processes.repeated_in_another_lane, load=Load(users=90), ci=True
    ),
    Cell(name="each record repeated after it is counted", fault=processes.redelivered_after_counting),
    Cell(
        name="send_handler killed between chunks, request repeated with its key",
        fault=requesting.killed_between_chunks,
        load=NO_LOAD,
    ),
    Cell(
        name="a send is cancelled while delivery is killed",
        fault=requesting.cancelled_while_killed,
        ci=True,
        timeout_s=60.0,
    ),
    Cell(
        name="a send is cancelled during a large batch",
        fault=requesting.cancelled_during_a_batch,
        load=Load(users=1_200),
        timeout_s=60.0,
    ),
    Cell(
        name="a send is paused while delivery and the scheduler are killed",
        fault=requesting.paused_while_killed,
        timeout_s=60.0,
    ),
    Cell(
        name="audience_expander killed at each write of an audience or an occurrence",
        fault=audiences.expander_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    Cell(
        name="preference_checker killed while digests are joined and closed",
        fault=digests.checker_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    Cell(
        name="preference_checker killed between the places of a cap and its decisions",
        fault=caps.checker_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    Cell(
        name="preference_checker killed between the places of a minute and its decisions",
        fault=pacing.checker_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    Cell(
        name="preference_checker killed while fallbacks begin to wait and are decided about",
        fault=fallbacks.checker_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    Cell(
        name="receipts killed while it lets fallbacks go",
        fault=fallbacks.receipts_killed,
        load=NO_LOAD,
        timeout_s=90.0,
    ),
    # --- tenants ---
    Cell(
        name="a tenant's broadcast behind another tenant's larger one",
        fault=tenants.broadcasts_side_by_side,
        load=NO_LOAD,
    ),
    # --- Kafka ---
    Cell(name="acknowledgement of build lost", fault=servers.acknowledgement_lost("build"), load=MANY),
    Cell(name="acknowledgement of delivery lost", fault=servers.acknowledgement_lost("delivery"), load=MANY),
    Cell(name="acknowledgement of outcome lost", fault=servers.acknowledgement_lost("outcome"), load=MANY, ci=True),
    Cell(
        name="records of delivery unacknowledged for longer than the producer waits",
        fault=servers.unacknowledged("delivery"),
    ),
    Cell(name="connections to the broker cut", fault=servers.kafka_cut, load=MANY),
    Cell(name="broker killed and restarted", fault=processes.server_killed("kafka"), load=MANY),
    Cell(name="the leader of every topic killed", fault=second_broker.leader_killed, load=MANY),
    # --- OpenSearch ---
    Cell(name="OpenSearch responds 429", fault=servers.opensearch_answers(429), ci=True),
    Cell(name="OpenSearch responds 503", fault=servers.opensearch_answers(503)),
    Cell(name="OpenSearch does not answer in time", fault=servers.opensearch_times_out),
    Cell(name="OpenSearch answers a look-up by id in part", fault=servers.partial_mget),
    Cell(name="OpenSearch answers a search in part", fault=servers.partial_search),
    Cell(name="OpenSearch killed", fault=processes.server_killed("opensearch")),
    # --- DynamoDB ---
    Cell(name="DynamoDB throttles", fault=servers.dynamodb_throttles, ci=True),
    Cell(name="DynamoDB's answers to conditional writes lost", fault=servers.dynamodb_answers_lost, ci=True),
    Cell(name="DynamoDB down while deciding", fault=servers.dynamodb_down_while_deciding),
    Cell(name="DynamoDB down before publishing", fault=servers.dynamodb_down),
    Cell(
        name="a slice that no item of DynamoDB holds",
        fault=delivering.very_many_devices,
        load=NO_LOAD,
    ),
    Cell(name="DynamoDB down while publishing", fault=servers.dynamodb_down_while_publishing),
    Cell(name="DynamoDB stores no results of small sends", fault=servers.results_not_stored, timeout_s=60.0),
    # --- the delay store ---
    Cell(
        name="delayed records stored twice among unreadable ones", fault=delaying.twice_among_unreadable, load=NO_LOAD
    ),
    Cell(name="an unreadable item in each sweep", fault=sweeps.unreadable_items, load=NO_LOAD, ci=True, timeout_s=60.0),
    # --- SNS ---
    Cell(name="SNS throttles", fault=providers.sns_throttles),
    Cell(name="SNS responds 5xx to one call in five", fault=providers.sns_answers("InternalError", share=0.2)),
    Cell(
        name="SNS resets connections after it took the message",
        fault=providers.sns_answers("reset_after", times=TAKEN_AND_LOST),
        expectation=Expectation(bound=TAKEN_AND_LOST),
        ci=True,
    ),
    Cell(name="SNS responds that credentials have expired", fault=providers.sns_answers("ExpiredToken", times=60)),
    *(
        Cell(
            name=f"SNS responds {code}",
            fault=providers.sns_refuses_endpoints(code),
            load=OWN,
            expectation=REFUSED_USERS,
            ci=ci,
        )
        for code, ci in (("EndpointDisabled", True), ("NotFound", False), ("InvalidParameter", False))
    ),
    Cell(
        name="devices whose endpoints come late or never",
        fault=delivering.endpoints_late_or_never,
        load=NO_LOAD,
        expectation=Expectation(dead_letters=("invalid",) * 3),
    ),
    Cell(name="SNS responds EndpointDisabled for one device of two", fault=providers.one_of_two_disabled, load=OWN),
    Cell(
        name="SNS responds that a platform application is disabled",
        fault=providers.sns_answers("PlatformApplicationDisabled", times=1),
    ),
    Cell(
        name="a platform application is disabled until an operator enables it",
        fault=providers.application_off,
        timeout_s=75,
    ),
    Cell(name="the send expires while SNS is down", fault=providers.expires, load=NO_LOAD),
    # --- SES ---
    Cell(name="delivery killed in the middle of mailing", fault=providers.killed_mailing, load=MAIL),
    Cell(
        name="SES throttles",
        fault=providers.ses_answers(429, "TooManyRequestsException", "Maximum sending rate exceeded.", times=30),
        load=MAIL,
    ),
    Cell(name="SES responds 5xx", fault=providers.ses_answers(500, "InternalFailure", "Failure.", times=30), load=MAIL),
    Cell(
        name="SES cuts connections after it took the message",
        fault=providers.ses_answers_lost,
        load=MAIL,
        expectation=Expectation(bound=5),
    ),
    Cell(name="SES rejects some messages", fault=providers.ses_rejects, load=NO_LOAD),
    Cell(name="an address on the suppression list", fault=providers.suppressed_address, load=NO_LOAD),
    # --- receipts ---
    Cell(
        name="receipts arrive while their function and its servers fail", fault=receipts.receipts_while_everything_fails
    ),
    Cell(name="receipts arrive long before their outcomes", fault=receipts.too_early, load=Load(users=40)),
    Cell(
        name="receipts report inactive tokens and bounced addresses",
        fault=receipts.learnt_afterwards,
        load=NO_LOAD,
        ci=True,
    ),
    # --- events ---
    *(
        Cell(name=f"webhook_receiver killed {words}", fault=events.receiver_killed(moment), load=NO_LOAD, ci=ci)
        for words, moment, ci in (
            ("before producing", events.before_producing(topics.EVENT), False),
            ("after producing", events.after_producing(topics.EVENT), True),
            ("before recording", events.before_writing(events.ACCEPTED_IDS), False),
            ("after recording", events.after_writing(events.ACCEPTED_IDS), False),
        )
    ),
    *(
        Cell(name=f"event_matcher killed {words}", fault=events.matcher_killed(moment), load=NO_LOAD)
        for words, moment in (
            ("before producing", events.before_producing(topics.WEBHOOK)),
            ("after producing", events.after_producing(topics.WEBHOOK)),
        )
    ),
    *(
        Cell(
            name=f"webhook_sender killed {words}",
            fault=events.sender_killed(moment, posts),
            load=NO_LOAD,
            timeout_s=60.0,
        )
        for words, moment, posts in (
            ("before recording", events.before_writing(events.sent_messages), 2),
            ("after recording", events.after_writing(events.sent_messages), 1),
            ("before putting results", events.before_writing(events.results), 1),
            ("after putting results", events.after_writing(events.results), 1),
        )
    ),
    Cell(name="SQS away from the door, and its answers lost", fault=events.queue_away, load=NO_LOAD, timeout_s=60.0),
    Cell(name="SQS delivers a webhook again", fault=events.message_redelivered, load=NO_LOAD, ci=True),
    Cell(name="no event reaches Kafka", fault=events.kafka_away, load=NO_LOAD, ci=True, timeout_s=60.0),
    Cell(name="registry down for events, warm and cold", fault=events.registry_away, load=NO_LOAD, timeout_s=60.0),
    Cell(
        name="webhook_sender reads no endpoint",
        fault=events.endpoints_unreadable,
        load=NO_LOAD,
        ci=True,
        timeout_s=60.0,
    ),
    Cell(name="hostile webhooks among good ones", fault=events.hostile_bodies, load=NO_LOAD, timeout_s=60.0),
    # --- outages that exhaust all attempts ---
    Cell(name="OpenSearch down for longer than all attempts", fault=servers.opensearch_outage),
    Cell(
        name="OpenSearch down, and the records too large to be handed over",
        fault=servers.handed_over_without_payload,
        load=Load(users=1_500),
    ),
    Cell(name="SNS down for longer than all attempts", fault=providers.sns_outage),
    # --- the registry ---
    Cell(name="registry down, warm", fault=servers.registry_down_warm, ci=True),
    Cell(name="registry down, cold", fault=servers.registry_down_cold),
    # --- broken records ---
    _dead_lettered("unknown schema id", "unknown_schema", 1, ci=True),
    Cell(
        name="records of unknown schemas on every topic and in every lane",
        fault=broken.unknown_schemas_everywhere,
        load=Load(users=60),
        timeout_s=90.0,
    ),
    Cell(
        name="a schema that is registered late among foreign ones",
        fault=counting.schema_is_late,
        load=Load(users=60),
        timeout_s=90.0,
    ),
    Cell(
        name="the channels of a category change while the job is down",
        fault=counting.category_changes,
        load=Load(users=60),
        timeout_s=180.0,
    ),
    Cell(
        name="a dead letter is replayed late, and one that is counted",
        fault=counting.letters_are_replayed,
        load=Load(users=60),
        timeout_s=60.0,
    ),
    Cell(
        name="sends of a wrong year and from the future",
        fault=counting.times_are_wrong,
        load=Load(users=60),
        expectation=Expectation(dead_letters=("invalid",) * 3),
        ci=True,
    ),
    _dead_lettered("poison at the start of a batch", "undecodable", 0, ci=True),
    _dead_lettered("poison in the middle of a batch", "undecodable", 2, ci=True),
    _dead_lettered("poison at the end of a batch", "undecodable", 4),
    Cell(
        name="an oversize record",
        fault=broken.oversize,
        load=NO_LOAD,
        expectation=Expectation(dead_letters=("too_large",)),
    ),
    Cell(
        name="a chunk index reused for other users",
        fault=broken.chunk_index_reused,
        load=NO_LOAD,
        expectation=Expectation(dead_letters=("invalid",) * 2),
    ),
    Cell(
        name="a flood of hostile records over every topic at once",
        fault=flood.flood(20_000, timeout_s=120.0),
        load=Load(users=400),
        timeout_s=240.0,
    ),
    Cell(name="no recipients", fault=processes.none, load=NO_LOAD, ci=True),
    Cell(name="one recipient", fault=processes.none, load=Load(users=1), ci=True),
    Cell(
        name="recipients named twice",
        fault=processes.none,
        load=Load(users=20, named=(*range(20), *range(5, 15), 5)),
        ci=True,
    ),
    Cell(
        name="phones change hands between four environments of the device registrar",
        fault=flood.phones_change_hands,
        load=NO_LOAD,
        timeout_s=60.0,
    ),
    Cell(
        name="a generation of the directory is replaced while functions and connectors die",
        fault=generations.replaced,
        load=NO_LOAD,
        timeout_s=60.0,
    ),
    Cell(
        name="a captured table is truncated until a new generation answers",
        fault=generations.truncated,
        load=NO_LOAD,
        timeout_s=60.0,
    ),
    # --- processes other than functions ---
    Cell(name="a user created while change data capture is down", fault=processes.new_user, load=NO_LOAD),
    Cell(name="Connect killed", fault=processes.server_killed("connect")),
    Cell(name="Postgres killed", fault=processes.server_killed("postgres")),
    Cell(name="Spark killed", fault=processes.server_killed("spark")),
    Cell(
        name="a send is controlled while Postgres and Spark are down",
        fault=requesting.controlled_without_counts,
    ),
    Cell(
        name="a driver of the metrics job hangs while another one takes over",
        fault=counting.driver_is_replaced,
        load=Load(users=60),
        timeout_s=90.0,
    ),
    Cell(
        name="a topic is made again while the metrics job runs",
        fault=counting.topic_is_made_again,
        load=Load(users=60),
        timeout_s=90.0,
    ),
    Cell(name="the function host killed", fault=processes.server_killed("lambda_host"), load=MANY),
)

# The faults that are also injected with pollers in on-demand mode, which retries batches whole.
_ON_DEMAND = (
    "preference_checker killed in the middle of producing",
    "builder killed after producing",
    "delivery killed in the middle of publishing",
    "every function killed in turn",
    "a record crashes its function at each attempt",
    "poison in the middle of a batch",
    "OpenSearch down for longer than all attempts",
    "DynamoDB down while publishing",
    "broker killed and restarted",
)
# Those that are also injected with several environments of each function of the chain, and one mapping a topic.
_IN_ENVIRONMENTS = (
    "delivery killed in the middle of publishing",
    "every function killed in turn",
    "a record crashes its function at each attempt",
    "OpenSearch down for longer than all attempts",
)
# Those that are also injected while look-ups are answered from memory.
_WITH_STATE = (
    "delivery killed in the middle of publishing",
    "every function killed in turn",
    "audience_expander killed at each write of an audience or an occurrence",
    "a captured table is truncated until a new generation answers",
)
# The cells of this column only.
_OF_STATE = (
    Cell(name="OpenSearch away until the send has ended", fault=servers.opensearch_away, load=MANY),
    Cell(name="the directory's state killed", fault=processes.server_killed("directory_state"), load=MANY),
)


def _column(
    title: str,
    deployment: Deployment,
    names: Sequence[str],
    *,
    ci: Sequence[str] = (),
    column: Callable[[FaultOf], FaultOf] = lambda fault: fault,
) -> list[Cell]:
    """Return the cells of these names in another deployment. The first of them restarts the host of the functions.
    Only the cells `ci` run with the other tests.
    """
    return [
        replace(
            cell,
            name=f"{title}: {cell.name}",
            fault=column(cell.fault),
            deployment=deployment,
            ci=cell.name in ci,
            timeout_s=2 * cell.timeout_s,
        )
        for cell in (*_COMPACT, *_OF_STATE)
        if cell.name in names
    ]


CELLS = (
    *_COMPACT,
    *_column("on-demand pollers", Deployment(pollers=Pollers.ON_DEMAND), _ON_DEMAND),
    *_column(
        "from memory",
        Deployment(directory=STATE),
        (*_WITH_STATE, *(cell.name for cell in _OF_STATE)),
        ci=[_OF_STATE[0].name],
        column=processes.with_state,
    ),
    *_column("four environments", Deployment(environments=4), _IN_ENVIRONMENTS, ci=_IN_ENVIRONMENTS[:1]),
)
