"""The libraries in each function's package; other libraries would make cold starts slower."""

from infra.packaging.contents import Contents, all_contents, library_contents

# botocore and urllib3 fetch the role's credentials (masscomm.aws.authentication).
_EVERY = {"aws-lambda-powertools", "botocore", "orjson", "pyyaml", "urllib3"}
_CHAIN = _EVERY | {"confluent-kafka", "fastavro"}
_METRICS = _EVERY - {"pyyaml"} | {"psycopg", "psycopg-pool"}

# Package → the distributions that its own modules import; these distributions' requirements are not listed.
DIRECT = {
    "audience_expander": _CHAIN | {"python-dateutil", "tzdata"},
    "audiences": _EVERY | {"confluent-kafka", "tzdata"},
    "builder": _CHAIN | {"babel", "jinja2", "regex"},
    "cdc_consumer": _CHAIN | {"babel", "jinja2", "regex"},
    "delivery": _CHAIN | {"phonenumbers", "regex", "tzdata"},
    "device_registrar": _CHAIN,
    "metrics_handler": _METRICS | {"tzdata"},
    "metrics_stream": _METRICS | {"tzdata"},
    "event_matcher": _CHAIN | {"jsonschema-rs"},
    "events_api": _CHAIN | {"cryptography", "jsonschema-rs", "tzdata"},
    "webhook_receiver": _CHAIN | {"cryptography", "jsonschema-rs"},
    "webhook_sender": _CHAIN | {"cryptography"},
    "webhook_batch_sender": _CHAIN | {"cryptography"},
    "webhook_retry_sender": _CHAIN | {"cryptography"},
    "key_revocation": _CHAIN | {"boto3", "cryptography", "psycopg", "psycopg-pool", "tzdata"},
    "operations_handler": _CHAIN | {"boto3", "cryptography", "psycopg", "psycopg-pool", "tzdata"},
    "preference_checker": _CHAIN | {"tzdata"},
    "previews": _CHAIN - {"fastavro"}
    | {"babel", "jinja2", "phonenumbers", "pydantic", "pydantic-core", "regex", "tzdata"},
    "preferences_handler": _CHAIN | {"tzdata"},
    "users_stream": _CHAIN | {"tzdata"},
    "receipts": _CHAIN | {"phonenumbers", "tzdata"},
    "scheduler": _CHAIN | {"boto3"},
    "webhook_events": _CHAIN | {"psycopg", "psycopg-pool"},
    "sends_api": _METRICS | {"pyyaml"},
    "sends_stream": _METRICS | {"pyyaml"},
    "send_handler": _CHAIN | {"babel", "jinja2", "pydantic", "pydantic-core", "python-dateutil", "regex", "tzdata"},
}


def _contents() -> dict[str, Contents]:
    return {each.name: each for each in all_contents()}


def test_packages_import_exactly_the_listed_distributions() -> None:
    assert {name: set(each.direct) for name, each in _contents().items()} == DIRECT


def test_library_of_the_authorizer_is_small() -> None:
    (library,) = library_contents()
    assert library.direct == {"cryptography", "pyjwt", "urllib3"}
    assert not any(module.startswith("functions") for module in library.modules)


def test_function_on_the_hot_path_contains_no_sdk() -> None:
    """The first answer of the other functions cannot load one, whatever the path to it."""
    with_sdk = {name for name, each in _contents().items() if each.distributions & {"boto3", "opensearch-py"}}
    assert with_sdk == {"key_revocation", "operations_handler", "scheduler"}


def test_no_package_holds_another_functions_code() -> None:
    for name, each in _contents().items():
        package = each.handler.split(".")[1]
        inside = {module.split(".")[1] for module in each.modules if module.startswith("functions.")}
        assert inside <= {package, "catalogue"}, name


def test_local_import_counts_but_type_checking_import_does_not() -> None:
    contents = _contents()
    assert not any("mypy" in name or "stubs" in name for each in contents.values() for name in each.distributions)
    assert "botocore" in contents["delivery"].distributions
