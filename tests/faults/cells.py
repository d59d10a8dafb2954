"""The fault matrix: every cell is a fault, a load and what may be left behind."""

from tests.faults import broken, faults
from tests.faults.cell import Cell, Expectation, Load

MANY = Load(users=400, chunk=50)  # so that each step has several records under way
OWN = Load(users=60, own=True)

CELLS = (
    # --- a function's process is killed ---
    Cell(
        name="preference_checker killed before producing",
        fault=faults.killed("preference_checker", "build", "before"),
        load=MANY,
    ),
    Cell(
        name="preference_checker killed in the middle of producing",
        fault=faults.killed("preference_checker", "build", "middle"),
        load=MANY,
        ci=True,
    ),
    Cell(
        name="preference_checker killed after producing",
        fault=faults.killed("preference_checker", "build", "after"),
        load=MANY,
    ),
    Cell(name="builder killed before producing", fault=faults.killed("builder", "delivery", "before"), load=MANY),
    Cell(
        name="builder killed in the middle of producing",
        fault=faults.killed("builder", "delivery", "middle"),
        load=MANY,
    ),
    Cell(
        name="builder killed after producing", fault=faults.killed("builder", "delivery", "after"), load=MANY, ci=True
    ),
    Cell(name="delivery killed in the middle of publishing", fault=faults.killed_publishing, ci=True),
    Cell(
        name="delivery killed before producing",
        fault=faults.killed("delivery", "outcome", "before"),
        load=MANY,
        ci=True,
    ),
    Cell(
        name="delivery killed in the middle of producing",
        fault=faults.killed("delivery", "outcome", "middle"),
        load=MANY,
    ),
    Cell(name="delivery killed after producing", fault=faults.killed("delivery", "outcome", "after"), load=MANY),
    Cell(
        name="every function killed in turn",
        fault=faults.every_function_killed,
        load=Load(users=800, chunk=100),
        ci=True,
    ),
    Cell(name="delivery times out", fault=faults.timed_out),
    Cell(name="the same batch twice at the same time", fault=faults.twice, ci=True),
    Cell(
        name="an opt-out between two deliveries of one batch",
        fault=faults.opt_out_between,
        load=Load(users=400, own=True),
        ci=True,
    ),
    Cell(name="delivery asleep for longer than its lease", fault=faults.asleep),
    # --- Kafka ---
    Cell(name="acknowledgement of build lost", fault=faults.acknowledgement_lost("build"), load=MANY),
    Cell(name="acknowledgement of delivery lost", fault=faults.acknowledgement_lost("delivery"), load=MANY),
    Cell(name="acknowledgement of outcome lost", fault=faults.acknowledgement_lost("outcome"), load=MANY, ci=True),
    Cell(
        name="records of delivery unacknowledged for longer than the producer waits",
        fault=faults.unacknowledged("delivery"),
    ),
    Cell(name="connections to the broker cut", fault=faults.kafka_cut, load=MANY),
    Cell(name="broker killed and restarted", fault=faults.broker_killed, load=MANY),
    # --- OpenSearch ---
    Cell(name="OpenSearch says 429", fault=faults.opensearch_answers(429), ci=True),
    Cell(name="OpenSearch says 503", fault=faults.opensearch_answers(503)),
    Cell(name="OpenSearch does not answer in time", fault=faults.opensearch_times_out),
    Cell(name="OpenSearch answers a look-up by id in part", fault=faults.partial_mget, ci=True),
    Cell(name="OpenSearch answers a search in part", fault=faults.partial_search),
    Cell(name="OpenSearch killed", fault=faults.server_killed("opensearch")),
    # --- DynamoDB ---
    Cell(name="DynamoDB throttles", fault=faults.dynamodb_throttles, ci=True),
    Cell(name="DynamoDB's answers to conditional writes lost", fault=faults.dynamodb_answers_lost, ci=True),
    Cell(name="DynamoDB down before publishing", fault=faults.dynamodb_down),
    Cell(name="DynamoDB down while publishing", fault=faults.dynamodb_down_while_publishing),
    # --- SNS ---
    Cell(name="SNS throttles", fault=faults.sns_throttles),
    Cell(name="SNS says 5xx to one call in five", fault=faults.sns_answers("InternalError", share=0.2)),
    Cell(
        name="SNS resets connections after it took the message",
        fault=faults.sns_answers("reset_after", times=7),
        expectation=Expectation(bound=7),
        ci=True,
    ),
    Cell(name="SNS says that credentials have expired", fault=faults.sns_answers("ExpiredToken", times=60)),
    Cell(
        name="SNS says EndpointDisabled",
        fault=faults.sns_refuses_endpoints("EndpointDisabled"),
        load=OWN,
        expectation=Expectation(gone=(5, 6, 25)),
        ci=True,
    ),
    Cell(
        name="SNS says NotFound",
        fault=faults.sns_refuses_endpoints("NotFound"),
        load=OWN,
        expectation=Expectation(gone=(5, 6, 25)),
    ),
    Cell(
        name="SNS says InvalidParameter of an endpoint",
        fault=faults.sns_refuses_endpoints("InvalidParameter"),
        load=OWN,
        expectation=Expectation(gone=(5, 6, 25)),
    ),
    Cell(
        name="SNS says that a platform application is disabled",
        fault=faults.sns_answers("PlatformApplicationDisabled", times=1),
    ),
    Cell(name="the send expires while SNS is away", fault=faults.expires),
    # --- longer than all attempts ---
    Cell(name="OpenSearch away for longer than all attempts", fault=faults.opensearch_outage),
    Cell(name="SNS away for longer than all attempts", fault=faults.sns_outage),
    # --- the registry ---
    Cell(name="registry down, warm", fault=faults.registry_down_warm),
    Cell(name="registry down, cold", fault=faults.registry_down_cold),
    # --- records ---
    Cell(
        name="unknown schema id",
        fault=broken.among_good("unknown_schema", places=(1,)),
        expectation=Expectation(dead_letters=("unknown_schema",)),
    ),
    Cell(
        name="poison at the start of a batch",
        fault=broken.among_good("undecodable", places=(0,)),
        expectation=Expectation(dead_letters=("undecodable",)),
    ),
    Cell(
        name="poison in the middle of a batch",
        fault=broken.among_good("undecodable", places=(2,)),
        expectation=Expectation(dead_letters=("undecodable",)),
        ci=True,
    ),
    Cell(
        name="poison at the end of a batch",
        fault=broken.among_good("undecodable", places=(4,)),
        expectation=Expectation(dead_letters=("undecodable",)),
    ),
    Cell(name="an oversize record", fault=broken.oversize, expectation=Expectation(dead_letters=("too_large",))),
    Cell(name="no recipients", fault=faults.none, load=Load(users=0)),
    Cell(name="one recipient", fault=faults.none, load=Load(users=1)),
    Cell(
        name="recipients named twice",
        fault=faults.none,
        load=Load(users=20, named=(*range(20), *range(5, 15), 5)),
        ci=True,
    ),
    # --- the other processes ---
    Cell(name="a user created while change data capture is down", fault=faults.newcomer, load=Load(users=0)),
    Cell(name="Connect killed", fault=faults.server_killed("connect")),
    Cell(name="Postgres killed", fault=faults.server_killed("postgres")),
    Cell(name="Spark killed", fault=faults.server_killed("spark")),
    Cell(name="the function host killed", fault=faults.server_killed("lambda_host"), load=MANY),
)
