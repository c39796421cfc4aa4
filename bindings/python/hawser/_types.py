"""What comes over the socket, typed. All values are numbers: bytes, nanoseconds, 0 and 1, or the
number of an enumeration's member."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Dict, Mapping, Optional, Tuple, Union

#: A span of time: seconds as a float, a ``timedelta``, or a text with its unit such as ``"10ms"``. The only
#: int is 0, which needs no unit.
Time = Union[float, timedelta, str]


def nanoseconds(time: Time) -> Union[int, str]:
    """A span as the protocol has it: nanoseconds, or the text as it is."""
    if isinstance(time, str):
        return time
    if isinstance(time, timedelta):
        nanos = (time.days * 86_400 + time.seconds) * 1_000_000_000 + time.microseconds * 1_000
    elif isinstance(time, float):
        if not math.isfinite(time):
            raise ValueError(f"{time} is no span of time")
        nanos = round(time * 1e9)
    elif type(time) is int and time == 0:
        nanos = 0
    else:
        raise TypeError(f"{time!r} has no unit: give seconds as a float ({time}.0), a timedelta, or a text ('{time}s')")
    if nanos < 0:
        raise ValueError(f"{time} is negative, which no span of time is")
    return nanos


@dataclass(frozen=True)
class Field:
    """A field of an event."""

    name: str
    kind: str
    #: The names of an enumeration's members.
    values: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """An event that can be subscribed to."""

    name: str
    fields: Tuple[Field, ...]


@dataclass(frozen=True)
class Variable:
    """A state variable; it can be set where it has bounds."""

    name: str
    kind: str
    values: Mapping[int, str] = field(default_factory=dict)
    min: Optional[int] = None
    max: Optional[int] = None

    @property
    def modifiable(self) -> bool:
        """Whether the program lets it be set at all."""
        return self.max is not None


@dataclass(frozen=True)
class Source:
    """A running instance of a provider, with what it offers."""

    number: int
    provider: str
    events: Tuple[Event, ...]
    variables: Tuple[Variable, ...]


@dataclass(frozen=True)
class Flow:
    """A flow of a source: a connection, a session, a race."""

    flow: str
    provider: str
    kind: str
    local: Optional[str]
    remote: Optional[str]
    label: str
    #: For ``kernel.tcp``: the number of the network namespace, and of the interface to which the socket is bound, if any;
    #: the id and the command of the process that owns the socket, if known; the path of the control group.
    namespace: Optional[int] = None
    interface: Optional[int] = None
    pid: Optional[int] = None
    command: Optional[str] = None
    cgroup: Optional[str] = None

    def __str__(self) -> str:
        return self.flow


@dataclass(frozen=True)
class Signal:
    """An event as it came to a subscription."""

    subscription: int
    event: str
    #: Name of the flow, for ``probe``, ``modify``, ``steer``.
    flow: str
    #: Time by the provider's clock, in nanoseconds.
    time: int
    fields: Mapping[str, int]
    #: The requested variables, by the requested names.
    variables: Mapping[str, int]
    #: The number of signals of this subscription that were lost right before this one.
    lost: int


@dataclass(frozen=True)
class Ended:
    """A lease of this connection that ended before its time."""

    flow: str
    variable: str
    #: A higher priority has taken the variable, the flow has ended, or the provider could not keep it.
    why: str


@dataclass(frozen=True)
class Probe:
    """Variables of a flow at one moment."""

    flow: str
    time: int
    values: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.values[name]


@dataclass(frozen=True)
class Statistics:
    """What became of a subscription's events."""

    events: int
    passed: int
    lost: int
    crowded: int


@dataclass(frozen=True)
class Entry:
    """A line of the log of modifications."""

    first: int
    last: int
    count: int
    who: str
    flow: str
    variable: str
    before: int
    #: ``set``, ``refused``, ``expired``, ``released``, ``holder_gone``, ``panicked``, ``lost``,
    #: ``attached``, ``detached``.
    act: str
    #: The first and the last time in milliseconds since 1970.
    began: Optional[int] = None
    ended: Optional[int] = None
    #: The user id and the process id of the requester.
    user: Optional[int] = None
    process: Optional[int] = None
    value: Optional[int] = None
    why: Optional[str] = None
    #: For an attached text: the beginning of its SHA-256.
    sha256: Optional[str] = None


@dataclass(frozen=True)
class Audit:
    """The log of modifications, oldest first."""

    entries: Tuple[Entry, ...]
    #: The number of entries that newer ones have replaced.
    forgotten: int


@dataclass(frozen=True)
class Rights:
    """What this subscriber may do."""

    observe: Tuple[str, ...]
    #: Pattern, minimum and maximum.
    modify: Tuple[Tuple[str, int, int], ...]
    priority: int
    #: True if the client may attach processors to programs.
    attach: bool = False


@dataclass(frozen=True)
class Attachment:
    """Processors that take part in a program while it runs."""

    name: str
    #: The process that has attached it.
    who: str
    #: The place of each processor: ``cap after cc``.
    places: Tuple[str, ...]


def _values(of: Mapping[str, Any]) -> Mapping[int, str]:
    return {value["value"]: value["name"] for value in of.get("values", ())}


def read_source(of: Mapping[str, Any]) -> Source:
    """A source from the answer to ``offers``."""

    def event(one: Mapping[str, Any]) -> Event:
        fields = (Field(f["name"], f["kind"], _values(f)) for f in one["fields"])
        return Event(one["name"], tuple(fields))

    def variable(one: Mapping[str, Any]) -> Variable:
        return Variable(one["name"], one["kind"], _values(one), one.get("min"), one.get("max"))

    events, variables = map(event, of["events"]), map(variable, of["variables"])
    return Source(of["source"], of["provider"], tuple(events), tuple(variables))


def read_flow(of: Mapping[str, Any]) -> Flow:
    """A flow from the answer to ``flows``."""
    return Flow(**{key.name: of[key.name] for key in fields(Flow) if key.name in of})


def read_signal(of: Mapping[str, Any], lost: int) -> Signal:
    """A signal; ``lost`` were dropped on this side of the socket."""
    return Signal(
        of["subscription"],
        of["event"],
        of["flow"],
        of["time"],
        of["fields"],
        of.get("with", {}),
        of.get("lost", 0) + lost,
    )


def read_audit(of: Mapping[str, Any]) -> Audit:
    """The answer to ``audit``."""

    def entry(one: Mapping[str, Any]) -> Entry:
        return Entry(**{key.name: one[key.name] for key in fields(Entry) if key.name in one})

    return Audit(tuple(map(entry, of["audit"])), of["forgotten"])


def read_rights(of: Mapping[str, Any]) -> Rights:
    """The rights in the answer to ``hello``."""
    grants = ((g["variables"], g["min"], g["max"]) for g in of["modify"])
    return Rights(tuple(of["observe"]), tuple(grants), of["priority"], of["attach"])


def read_attachments(of: Mapping[str, Any]) -> Dict[int, Tuple[Attachment, ...]]:
    """By source, from the answer to ``attachments``."""

    def attachment(one: Mapping[str, Any]) -> Attachment:
        return Attachment(one["name"], one["who"], tuple(one["places"]))

    return {one["source"]: tuple(attachment(a) for a in one["attached"]) for one in of["attachments"]}
