import json
from typing import Any

from infra.provision import administrator_url, deployed_functions


class Client:
    """Fakes of boto3's clients, all in one object; calls: the arguments of each call."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls.append(arguments)
            return self._answers[operation]

        return call


def test_administrator_connects_directly_with_rdss_password() -> None:
    instance = {
        "Endpoint": {"Address": "metrics.example", "Port": 5432},
        "DBName": "metrics",
        "MasterUserSecret": {"SecretArn": "arn:secret"},
    }
    secret = json.dumps({"username": "administrator", "password": "a/b@c:d"})
    client = Client(describe_db_instances={"DBInstances": [instance]}, get_secret_value={"SecretString": secret})
    url = administrator_url(lambda _: client, "masscomm-prod-metrics")
    assert url.startswith("postgresql://administrator:a%2Fb%40c%3Ad@metrics.example:5432/metrics?")
    assert url.endswith("&sslmode=verify-full")
    assert client.calls == [{"DBInstanceIdentifier": "masscomm-prod-metrics"}, {"SecretId": "arn:secret"}]


def test_addresses_and_roles_are_those_of_the_deployed_functions() -> None:
    settings = {"Environment": {"Variables": {"OPENSEARCH_URL": "https://directory"}}, "Role": "arn:role"}
    client = Client(get_function_configuration=settings)
    found = deployed_functions(lambda _: client, "masscomm-prod")
    assert {"FunctionName": "masscomm-prod-delivery-critical"} in client.calls
    assert found["cdc_consumer"].variables["OPENSEARCH_URL"] == "https://directory"
    assert found["cdc_consumer"].role_arn == "arn:role"
