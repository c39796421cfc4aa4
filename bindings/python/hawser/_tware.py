"""T-wares: functions that are called on signals."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ._bus import _MAX_RETRY, _RETRY, Bus, Subscription, connect
from ._errors import Gone, HawserError, Nobody, printable
from ._types import Signal, Time

Handler = Callable[[Bus, Signal], Awaitable[None]]


class Tware:
    """A program that receives signals, remembers, modifies::

        tware = hawser.Tware("watcher")

        @tware.on("tcp.timeout", with_=[".conn.rto"])
        async def on_signal(bus, signal):
            print(signal.flow, signal.variables[".conn.rto"])

        tware.run()
    """

    def __init__(self, name: str, *, priority: int = 1) -> None:
        self.name = name
        self.priority = priority
        self._wishes: List[Tuple[Tuple[str, ...], Mapping[str, Any], Handler]] = []

    def on(
        self, *events: str, with_: Sequence[str] = (), every: Time = 0, frequency: int = 0, scope: str = ""
    ) -> Callable[[Handler], Handler]:
        """Calls the function on these events, filtered as ``Bus.subscribe`` has it."""
        options = {"with_": with_, "every": every, "frequency": frequency, "scope": scope}

        def add(handler: Handler) -> Handler:
            self._wishes.append((events, options, handler))
            return handler

        return add

    async def attend(self, bus: Bus) -> None:
        """Runs on a connection until that ends, or a handler raises. Handlers are called one after the other, in
        the order in which the signals came: a handler that waits long holds the others up."""
        handlers: Dict[int, Handler] = {}
        subscriptions: List[Subscription] = []
        for events, options, handler in self._wishes:
            subscriptions.append(await bus.subscribe(events, **options))
            handlers[subscriptions[-1].number] = handler
        async for signal in bus.merged(*subscriptions):
            await handlers[signal.subscription](bus, signal)

    async def main(self, path: Optional[str] = None, *, reconnect: bool = False) -> None:
        """Connects and attends; with ``reconnect`` again whenever the other process is gone, as soon as one
        listens there."""
        wait = _RETRY
        while True:
            try:
                async with connect(path, name=self.name, priority=self.priority) as bus:
                    wait = _RETRY
                    await self.attend(bus)
            except (Gone, Nobody):
                if not reconnect:
                    raise
            if not reconnect:
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, _MAX_RETRY)

    def run(self, path: Optional[str] = None, *, reconnect: bool = False) -> None:
        """The same as a whole program. An interrupt ends it; so does the end of the other process, and what is
        refused, with one line on standard error and exit code 1."""
        try:
            asyncio.run(self.main(path, reconnect=reconnect))
        except KeyboardInterrupt:
            pass
        except HawserError as error:
            sys.exit(f"{self.name}: {printable(error)}")
