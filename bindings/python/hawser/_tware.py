"""T-wares: functions that are called on signals."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, List, Mapping, Optional, Sequence, Tuple

from ._bus import Bus, Subscription, connect
from ._types import Signal, Time

Handler = Callable[[Bus, Signal], Awaitable[None]]


class Tware:
    """A program that hears signals, remembers, modifies::

        tware = hawser.Tware("watcher")

        @tware.on("tcp.timeout", with_=[".conn.rto"])
        async def told(bus, signal):
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
        """Runs on a connection until that ends, or a handler raises."""
        subscribed = [(await bus.subscribe(e, **options), handler) for e, options, handler in self._wishes]

        async def take(subscription: Subscription, handler: Handler) -> None:
            async for signal in subscription:
                await handler(bus, signal)

        tasks = [asyncio.ensure_future(take(*one)) for one in subscribed]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def main(self, path: Optional[str] = None) -> None:
        """Connects and attends."""
        async with connect(path, name=self.name, priority=self.priority) as bus:
            await self.attend(bus)

    def run(self, path: Optional[str] = None) -> None:
        """The same as a whole program; an interrupt ends it."""
        try:
            asyncio.run(self.main(path))
        except KeyboardInterrupt:
            pass
