"""The configuration of programs outside masscomm that produce records to its topics or consume them."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network

from masscomm.kafka.topics import Topic, base_of, chain_topics

# Prefixes of the consumer groups of masscomm itself, and of Kafka Connect.
_OWN_GROUPS = ("masscomm.", "connect-", "__")
# The producer in schemas/topics.yaml whose topics are open to programs. A record on any other topic would be sent
# without a check of preferences.
_OPEN_TO = "monolith"


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """A program outside masscomm with a sign-in to the brokers and a path to them and to the schema registry.

    Attributes other than the name and the role determine the path. The route between the VPCs is made by hand.
    """

    # The name of the program, as in schemas/topics.yaml where the file has it.
    name: str
    # The IAM role as which the program signs in, of this account or another.
    role_arn: str
    # The network from which the program connects.
    cidr: str | None = None
    # The security group of the program, in a peered VPC of the same region.
    security_group: str | None = None
    # A VPC of this account in which the registry's host name resolves. Otherwise, the program's DNS needs the record.
    vpc_id: str | None = None
    # Names in schemas/topics.yaml; each stands for the topics of all its lanes. Empty: the topics for which the file
    # names the program.
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: A value is malformed, or a topic is not open to the program.
        """
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", self.name):
            raise ValueError(f"client {self.name!r}: the name has small letters, digits and hyphens")
        if not re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", self.role_arn):
            raise ValueError(f"client {self.name}: {self.role_arn!r} is not the ARN of a role")
        if self.cidr is not None and IPv4Network(self.cidr).prefixlen < 8:
            raise ValueError(f"client {self.name}: cidr {self.cidr} is larger than a private network")
        if not self.allowed():
            raise ValueError(f"client {self.name}: no topics, and schemas/topics.yaml names none for it")
        if unknown := set(self.topics) - self.open_topics():
            raise ValueError(f"client {self.name}: {', '.join(sorted(unknown))}: not open to it")

    @property
    def account(self) -> str:
        """Return the id of the role's account."""
        return self.role_arn.split(":")[4]

    def allowed(self) -> list[str]:
        """Return the names of the topics in Kafka that the policy of the program names."""
        return [topic.name for topic in chain_topics() if self._is_allowed(topic)]

    def _is_allowed(self, topic: Topic) -> bool:
        return base_of(topic.name) in self.topics if self.topics else self.name in self._named(topic)

    def open_topics(self) -> set[str]:
        """Return the names in schemas/topics.yaml of the topics that `topics` may have."""
        raise NotImplementedError

    def _named(self, topic: Topic) -> tuple[str, ...]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """A program that produces records."""

    def open_topics(self) -> set[str]:
        return {base_of(topic.name) for topic in chain_topics() if _OPEN_TO in topic.producers}

    def _named(self, topic: Topic) -> tuple[str, ...]:
        return topic.producers


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """A program that consumes records."""

    # The prefix of its consumer groups.
    group_prefix: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.group_prefix or any(
            own.startswith(self.group_prefix) or self.group_prefix.startswith(own) for own in _OWN_GROUPS
        ):
            raise ValueError(f"consumer {self.name}: group_prefix {self.group_prefix!r} has groups of masscomm")

    def open_topics(self) -> set[str]:
        return {base_of(topic.name) for topic in chain_topics()}

    def _named(self, topic: Topic) -> tuple[str, ...]:
        return topic.consumers


def sources(clients: tuple[ClientConfig, ...]) -> dict[str, str]:
    """Return the networks and security groups of the programs, each with the names of its programs for a description.

    A security group refuses a second rule with the same source and port.
    """
    found: dict[str, dict[str, None]] = {}
    for client in clients:
        for source in (client.cidr, client.security_group):
            if source is not None:
                found.setdefault(source, {})[client.name] = None
    return {source: ", ".join(names) for source, names in found.items()}
