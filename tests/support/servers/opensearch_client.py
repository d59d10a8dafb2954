"""The functions' OpenSearch client, with operations that only tests need."""

from typing import Any

from masscomm.directory.client import Indices, OpenSearch


class TestIndices(Indices):
    __test__ = False

    def delete(self, *, index: str, ignore_unavailable: bool = False) -> Any:
        return self._client.request("DELETE", index, params={"ignore_unavailable": ignore_unavailable})

    def close(self, *, index: str) -> Any:
        return self._client.request("POST", f"{index}/_close")

    def put_settings(self, *, index: str, body: Any) -> Any:
        return self._client.request("PUT", f"{index}/_settings", body)


class TestClient(OpenSearch):
    """Returns one client to every caller of a test; deployed functions create one each."""

    __test__ = False
    indices: TestIndices

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        super().__init__(url, timeout_s=timeout_s)
        self.indices = TestIndices(self)

    def update(self, *, index: str, id: str, body: Any, refresh: bool = False) -> Any:
        return self.request("POST", f"{index}/_update/{id}", body, {"refresh": refresh})
