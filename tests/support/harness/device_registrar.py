import base64
from collections.abc import Callable, Sequence

from functions.device_registrar.device_states import DeviceState, DeviceStates, InMemoryDeviceStates
from functions.device_registrar.endpoints import Endpoints, InMemoryEndpoints
from functions.device_registrar.register_devices import RegisterDevices
from functions.device_registrar.token_holders import InMemoryTokenHolders, TokenHolders
from masscomm.chain.batch import BatchDriver
from masscomm.clock import FixedClock
from masscomm.directory.document_publisher import DocumentPublisher, InMemoryDocumentPublisher
from masscomm.directory.generations import CreationTimes, InMemoryCreationTimes
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.producer import InMemoryProducer
from tests.support.harness.chain import entry, event


class Context:
    def __init__(self) -> None:
        self.remaining_ms = 60_000

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


class Registrar:
    def __init__(self, *generations: str, before: "Registrar | None" = None) -> None:
        """Create a registrar. With `before`, it is another environment of that registrar."""
        self.states: InMemoryDeviceStates = before.states if before else InMemoryDeviceStates()
        self.holders: InMemoryTokenHolders = before.holders if before else InMemoryTokenHolders()
        self.endpoints: InMemoryEndpoints = before.endpoints if before else InMemoryEndpoints()
        self.publisher = InMemoryDocumentPublisher()
        self.producer = InMemoryProducer()
        self.context = Context()
        self.clock = FixedClock(5)
        self.created: InMemoryCreationTimes = before.created if before else InMemoryCreationTimes(g1=1, g2=2)
        self.use_case = RegisterDevices(
            generations=generations or ("g1",),
            created=self.created,
            states=self.states,
            holders=self.holders,
            endpoints=self.endpoints,
            publisher=self.publisher,
            clock=self.clock,
            workers=4,
        )
        codec = Codec(InMemorySchemaRegistry())
        self.driver = BatchDriver(function="device_registrar", codec=codec, producer=self.producer)

    def run(self, *records: KafkaRecord) -> list[int]:
        entries = [
            {
                "topic": r.topic,
                "partition": r.partition,
                "offset": r.offset,
                "timestamp": r.timestamp_ms,
                "key": base64.b64encode(r.key or b"").decode(),
                "value": None if r.value is None else base64.b64encode(r.value).decode(),
            }
            for r in records
        ]
        answer = self.driver.run({"records": {"any-0": entries}}, self.context, self.use_case)
        return [item["itemIdentifier"]["offset"] for item in answer["batchItemFailures"]]

    def state(self, device_id: str, generation: str) -> DeviceState:
        return self.states.stored[device_id].by_generation[generation]

    def take_calls(self) -> list[tuple[str, str]]:
        """Return the provider calls since the last call of this method."""
        calls, self.endpoints.calls = self.endpoints.calls, []
        return calls


def environment_of(
    states: DeviceStates,
    holders: TokenHolders,
    endpoints: Endpoints,
    created: CreationTimes,
    publisher: DocumentPublisher | None = None,
) -> Callable[[Sequence[KafkaRecord]], None]:
    """Return an environment that captures g1 and g2, to which a batch is redelivered until it is done."""
    use_case = RegisterDevices(
        generations=["g1", "g2"],
        created=created,
        states=states,
        holders=holders,
        endpoints=endpoints,
        publisher=publisher or InMemoryDocumentPublisher(),
        clock=FixedClock(5),
        workers=1,
    )
    codec = Codec(InMemorySchemaRegistry())
    driver = BatchDriver(function="device_registrar", codec=codec, producer=InMemoryProducer())

    def invoke(records: Sequence[KafkaRecord]) -> None:
        events = event(*(entry(each.value, topic=each.topic, key=each.key) for each in records))
        while driver.run(events, Context(), use_case)["batchItemFailures"]:
            pass

    return invoke
