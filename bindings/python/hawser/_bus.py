"""A connection to a running process: requests, answers in their order, signals in between.

One task reads. A signal that a subscription's program does not take in time is dropped here, and
counted in the next one's ``lost``: the other end never waits for this one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections import deque
from itertools import count
from types import TracebackType
from typing import Any, AsyncIterator, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ._errors import Gone, HawserError, Nobody, Refused, printable
from ._types import (
    Attachment,
    Audit,
    Ended,
    Flow,
    Probe,
    Rights,
    Signal,
    Source,
    Statistics,
    Time,
    nanoseconds,
    read_attachments,
    read_audit,
    read_flow,
    read_rights,
    read_signal,
    read_source,
)

_VERSION = 1
_log = logging.getLogger("hawser")
#: The limit of a request, bytes, without its line end.
_REQUEST = 64 << 10
#: The limit of a line, bytes: the offers of many sources are one line.
_LINE = 16 << 20
#: The limit of signals that wait for the program, for each subscription.
_WAITING = 65_536
#: The pause before another attempt to connect, seconds: the first, and the maximum.
_RETRY, _MAX_RETRY = 0.1, 5.0
#: The limit of notices of ended leases, and of refusals, that wait for the program.
_NOTICES = 1_024

_Line = Dict[str, Any]
Names = Union[str, Sequence[str]]


def usual_socket() -> str:
    """Where a process listens by default: ``$XDG_RUNTIME_DIR/hawser/interact.sock``; without that
    folder root's listen in ``/run``."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or ("/run" if os.geteuid() == 0 else None)
    if not folder:
        raise Nobody("XDG_RUNTIME_DIR is not set, so there is no usual socket: give its path")
    return os.path.join(folder, "hawser", "interact.sock")


def _listener(writer: asyncio.StreamWriter) -> int:
    """The user whose process listens at the other end: what it sends decides what this one does."""
    credentials = struct.Struct("iII")  # struct ucred, unix(7): pid, uid, gid
    connection = writer.get_extra_info("socket")
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return int(credentials.unpack(packed)[1])


def _list(names: Names) -> List[str]:
    return [names] if isinstance(names, str) else list(names)


class Subscription(AsyncIterator[Signal]):
    """Signals, as an asynchronous iterator. Leaving ``async with`` unsubscribes."""

    def __init__(self, bus: Bus, number: int, request: _Line) -> None:
        self._bus = bus
        self.number = number
        #: The request, which ``Bus.reconnect`` repeats.
        self._request = request
        #: Each with its place among the signals of all subscriptions.
        self._waiting: Deque[Tuple[int, _Line]] = deque()
        self._lost = 0
        self._more = asyncio.Event()
        self._over = False

    def _take(self, signal: _Line) -> None:
        if len(self._waiting) < _WAITING:
            self._waiting.append((next(self._bus._places), signal))
            self._more.set()
            self._bus._more.set()
        else:
            self._lost += 1

    def _end(self) -> None:
        self._over = True
        self._more.set()
        self._bus._more.set()

    async def __anext__(self) -> Signal:
        while not self._waiting:
            if self._over:
                if self._bus._failure is not None and not self._bus._closing:
                    raise self._bus._failure
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        lost, self._lost = self._lost, 0
        _, signal = self._waiting.popleft()
        return read_signal(signal, lost)

    async def change(
        self,
        *,
        every: Optional[Time] = None,
        frequency: Optional[int] = None,
        scope: Optional[Union[str, Flow]] = None,
        priority: Optional[int] = None,
    ) -> None:
        """Receives more, or less; what is not given stays as it is."""
        change: _Line = {"subscription": self.number}
        if every is not None:
            change["interval"] = nanoseconds(every)
        if frequency is not None:
            change["frequency"] = frequency
        if scope is not None:
            change["scope"] = _scope(scope)
        if priority is not None:
            change["priority"] = priority
        await self._bus._ask({"change": change})
        self._request.update((key, value) for key, value in change.items() if key != "subscription")

    async def statistics(self) -> Statistics:
        """What became of its events at their sources."""
        answer = await self._bus._ask({"statistics": self.number})
        return Statistics(**answer["statistics"])

    async def close(self) -> None:
        """Unsubscribes; what waits can still be taken."""
        if not self._over:
            self._bus._subscriptions.pop(self.number, None)
            self._end()
            await self._bus._ask({"unsubscribe": self.number})

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            await self.close()
        except Gone:
            pass


def _scope(scope: Union[str, Flow]) -> Union[str, Mapping[str, str]]:
    return {"flow": scope.flow} if isinstance(scope, Flow) else scope


class Bus:
    """A subscriber of a running process. Use it as ``async with connect(…) as bus``: what it holds is
    given back when it ends, however it ends."""

    def __init__(self, path: Optional[str], name: str, priority: int) -> None:
        self._path = path
        self._hello = {"name": name, "priority": priority}
        self._priority = priority
        self._writer: Optional[asyncio.StreamWriter] = None
        self._reading: Optional[asyncio.Task[None]] = None
        #: The callers that wait for an answer; with the subscription that the answer concerns, if any.
        self._answers: Deque[Tuple[asyncio.Future[_Line], Optional[Subscription]]] = deque()
        self._subscriptions: Dict[int, Subscription] = {}
        #: Refusals of lines of ``steer``, the oldest first; the program takes them out.
        self.refused: Deque[Refused] = deque(maxlen=_NOTICES)
        #: Leases that ended before their time, the oldest first; the program takes them out.
        self.ended: Deque[Ended] = deque(maxlen=_NOTICES)
        self._failure: Optional[HawserError] = None
        self._closing = False
        self._places = count()
        #: Set when any subscription has a signal, or has ended.
        self._more: asyncio.Event
        #: The rights of this connection, once connected.
        self.rights = Rights((), (), 0)
        #: The other process's id, once connected.
        self.process = 0

    async def __aenter__(self) -> Bus:
        await self._connect()
        return self

    async def reconnect(self, *, timeout: Optional[Time] = None) -> None:
        """Connects again, as soon as a process listens there: for ever, or for so long. Subscriptions go on with what
        is signalled from then on; what was held has been given back, and is to be set again."""
        limit = None if timeout is None else asyncio.get_running_loop().time() + _seconds(timeout)
        wait = _RETRY
        while True:
            await self.close()
            self._closing, self._failure = False, None
            try:
                await self._connect()
                break
            except (Gone, Nobody) as error:
                if limit is not None and asyncio.get_running_loop().time() + wait > limit:
                    self._fail(error)
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, _MAX_RETRY)
        subscriptions = list(self._subscriptions.values())
        self._subscriptions.clear()
        for one in subscriptions:
            one._over = False
            await self._ask({"subscribe": one._request}, one)

    async def _connect(self) -> None:
        path = self._path if self._path is not None else usual_socket()
        self._more = asyncio.Event()
        try:
            reader, self._writer = await asyncio.open_unix_connection(path, limit=_LINE)
        except OSError as error:
            why = f"{path}: nobody listens there ({error}); is `hawser … --interact` running?"
            raise Nobody(why) from error
        user = _listener(self._writer)
        if user not in (os.geteuid(), 0):
            self._writer.close()
            raise Nobody(f"{path}: user {user} listens there, who is neither this user nor root")
        self._reading = asyncio.ensure_future(self._read(reader))
        try:
            hello = (await self._ask({"hello": self._hello}))["hello"]
            if hello["version"] != _VERSION:
                raise HawserError(f"it speaks version {hello['version']}, expected {_VERSION}")
        except BaseException:
            await self.close()
            raise
        self.process = hello["process"]
        self.rights = read_rights(hello["rights"])

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection: subscriptions end, and what is held is given back."""
        self._closing = True
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def offers(self) -> List[Source]:
        """Which events and variables there are."""
        answer = await self._ask({"offers": {}})
        return [read_source(source) for source in answer["offers"]]

    async def flows(self) -> List[Flow]:
        """The flows that there are."""
        answer = await self._ask({"flows": {}})
        return [read_flow(flow) for flow in answer["flows"]]

    async def subscribe(
        self,
        events: Names,
        *,
        with_: Names = (),
        every: Time = 0,
        frequency: int = 0,
        scope: Union[str, Flow] = "",
        priority: Optional[int] = None,
    ) -> Subscription:
        """Receives events from now on: names or patterns, with the values of variables (`.conn.srtt`
        for the provider's own), at most one in the span ``every`` for each event of each flow (the
        last), and of those every ``frequency``-th; of all flows, one, or those of a rule such as
        ``"remote.port=443"``."""
        request: _Line = {
            "events": _list(events),
            "with": _list(with_),
            "interval": nanoseconds(every),
            "frequency": frequency,
            "scope": _scope(scope),
            "priority": self._priority if priority is None else priority,
        }
        subscription = Subscription(self, -1, request)
        await self._ask({"subscribe": request}, subscription)
        return subscription

    async def merged(self, *subscriptions: Subscription) -> AsyncIterator[Signal]:
        """The signals of several subscriptions in the order in which they came, until all are over."""
        while True:
            ready = [one for one in subscriptions if one._waiting]
            if ready:
                yield await min(ready, key=lambda one: one._waiting[0][0]).__anext__()
            elif all(one._over for one in subscriptions):
                if self._failure is not None and not self._closing:
                    raise self._failure
                return
            else:
                self._more.clear()
                await self._more.wait()

    async def probe(self, flow: Union[str, Flow], *variables: str) -> Probe:
        """Variables of a flow, by name or pattern; all that may be read when none is named. Values are found by
        the names that were asked for, as those of signals are, and by whole names where a pattern was given."""
        probe = {"flow": str(flow), "variables": list(variables)}
        answer = (await self._ask({"probe": probe}))["probed"]
        return Probe(answer["flow"], answer["time"], _as_asked(answer["values"], variables))

    async def modify(
        self,
        flow: Union[str, Flow],
        variable: str,
        value: int,
        *,
        lease: Time,
        priority: Optional[int] = None,
    ) -> int:
        """Sets a variable for the length of a lease, and gives the value before. The lease ends by
        itself, or with this connection: the variable is the transport's own again."""
        request = _modify(flow, variable, value, lease)
        if priority is not None:
            request["priority"] = priority
        before = (await self._ask({"modify": request}))["modified"]["before"]
        return int(before)

    async def steer(self, flow: Union[str, Flow], variable: str, value: int, *, lease: Time) -> None:
        """The same without waiting for what comes of it, for many. What the source refuses is in the
        log; what cannot be understood is in ``refused``, and a warning of the logger ``hawser``."""
        self._say({"steer": _modify(flow, variable, value, lease)})
        await self._drain()

    async def release(self, flow: Union[str, Flow], variable: str) -> int:
        """Gives a variable back before its lease is over; the value that it was held at."""
        request = {"release": {"flow": str(flow), "variable": variable}}
        return int((await self._ask(request))["released"]["before"])

    async def attach(self, source: int, name: str, text: str, *, params: Sequence[str] = ()) -> str:
        """Attaches processors, written in the language, to the program of a source, from its next event
        on, with values of the text's params such as ``"CAP=20000"``. They stay when this connection is gone, until they are detached; a text of the same name takes
        their place. A text that is wrong is refused with its place, and changes nothing. What the checker
        warns of is given back, or an empty text."""
        attach = {"source": source, "name": name, "text": text, "params": list(params)}
        answer = await self._ask({"attach": attach})
        return str(answer["attached"].get("warnings", ""))

    async def detach(self, source: int, name: str) -> None:
        """Takes processors off again, whoever has attached them."""
        await self._ask({"detach": {"source": source, "name": name}})

    async def attachments(self) -> Dict[int, Tuple[Attachment, ...]]:
        """What is attached, by source: all sources to which something can be."""
        return read_attachments(await self._ask({"attachments": {}}))

    async def audit(self) -> Audit:
        """The log of modifications, of all subscribers. The last tenth of a second may be missing."""
        return read_audit(await self._ask({"audit": {}}))

    async def subscriptions(self) -> List[Mapping[str, Any]]:
        """The subscriptions of all subscribers, as the protocol has them."""
        answer = await self._ask({"subscriptions": {}})
        return list(answer["subscriptions"])

    async def _ask(self, request: _Line, subscription: Optional[Subscription] = None) -> _Line:
        answer: asyncio.Future[_Line] = asyncio.get_running_loop().create_future()
        self._say(request)
        self._answers.append((answer, subscription))
        await self._drain()
        return await answer

    def _say(self, request: _Line) -> None:
        if self._failure is not None:
            raise self._failure
        if self._writer is None or self._closing:
            raise Gone("there is no connection: use `async with hawser.connect(…) as bus`")
        line = json.dumps(request).encode()
        if len(line) > _REQUEST:
            raise ValueError(f"a request has at most {_REQUEST} bytes; this one has {len(line)}")
        self._writer.write(line + b"\n")

    async def _drain(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.drain()
            except ConnectionError:
                pass  # The reading task passes the reason on, to the callers that wait.

    async def _read(self, reader: asyncio.StreamReader) -> None:
        why = "the other process is gone"
        try:
            while True:
                text = await reader.readline()
                if not text.endswith(b"\n"):
                    # A line that is cut off in the middle was not read in time.
                    if text and os.path.exists(f"/proc/{self.process}"):
                        why = (
                            f"process {self.process} has closed the connection: it does so when a subscriber takes "
                            "nothing of what it is sent for 5 s; read faster, or subscribe with `every`"
                        )
                    break
                ended = self._receive(json.loads(text))
                why = ended or why
        except (ConnectionError, ValueError, KeyError, TypeError) as error:
            why = f"{why}: {error}"
        finally:
            self._fail(Gone(why))

    def _receive(self, line: _Line) -> Optional[str]:
        """Takes a line; returns the error that is no answer to a request."""
        if "signal" in line:
            signal = line["signal"]
            subscription = self._subscriptions.get(signal["subscription"])
            if subscription is not None:
                subscription._take(signal)
            return None
        if "ended" in line:
            ended = line["ended"]
            self.ended.append(Ended(ended["flow"], ended["variable"], ended["why"]))
            return None
        if line.get("of") == "steer":
            refusal = Refused(line["error"])
            self.refused.append(refusal)
            _log.warning("a modification by steer is refused: %s", printable(refusal))
            return None
        if not self._answers:
            return str(line.get("error", line))
        answer, subscription = self._answers.popleft()
        if "subscribed" in line and subscription is not None:
            # Signals follow at once, before the waiting caller runs.
            subscription.number = line["subscribed"]
            self._subscriptions[subscription.number] = subscription
        if not answer.done():
            if "error" in line:
                answer.set_exception(Refused(line["error"]))
            else:
                answer.set_result(line)
        return None

    def _fail(self, why: HawserError) -> None:
        self._failure = why
        while self._answers:
            answer, _ = self._answers.popleft()
            if not answer.done():
                answer.set_exception(why)
        for subscription in self._subscriptions.values():
            subscription._end()


def _seconds(time: Time) -> float:
    nanos = nanoseconds(time)
    if isinstance(nanos, int):
        return nanos / 1e9
    for unit, seconds in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("min", 60.0), ("h", 3600.0), ("s", 1.0)):
        if nanos.endswith(unit):
            return float(nanos[: -len(unit)]) * seconds
    raise ValueError(f"{nanos!r} has no unit: ns, us, ms, s, min or h")


def _as_asked(values: Mapping[str, int], asked: Sequence[str]) -> Dict[str, int]:
    """Values by the names that were asked for: ``.conn.srtt`` is the provider's own variable."""
    out = dict(values)
    for name in asked:
        whole = min((known for known in values if known.endswith(name)), key=len, default=None)
        if name.startswith(".") and whole is not None:
            out[name] = values[whole]
            if whole not in asked and not any("*" in other or "?" in other for other in asked):
                out.pop(whole, None)
    return out


def _modify(flow: Union[str, Flow], variable: str, value: int, lease: Time) -> _Line:
    return {"flow": str(flow), "variable": variable, "value": value, "lease": nanoseconds(lease)}


def connect(path: Optional[str] = None, *, name: str = "python", priority: int = 1) -> Bus:
    """A connection to the process that listens at ``path`` (without one, at the usual place), under a
    name that its log has, and with the priority of what is set: ``async with connect() as bus``."""
    return Bus(path, name, priority)
