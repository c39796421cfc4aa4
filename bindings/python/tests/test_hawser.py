"""Against a real `hawser serve --interact` in a user namespace, with curl.

`HAWSER` names the command; to be run inside a namespace, from the package's folder:

    unshare -Urn env HAWSER=… python3 -m unittest discover -s tests -t .
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from datetime import timedelta
from typing import Awaitable, Callable, List, Optional

import hawser
from hawser import _bus

COMMAND = os.environ.get("HAWSER", "hawser")
ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = 6_000_000
CAP = 20_000


class Place(unittest.IsolatedAsyncioTestCase):
    """A server of files behind a slow wire, which lets itself be watched and steered."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="hawser-python-")
        self.addCleanup(self.folder.cleanup)
        top = pathlib.Path(self.folder.name)
        self.content = os.urandom(SIZE)
        (top / "files").mkdir()
        (top / "files" / "file").write_bytes(self.content)
        self.got = top / "got"
        self.socket = str(top / "x.sock")
        rights = top / "rights.toml"
        rights.write_text('[[rule]]\nname = "blind"\n[[rule]]\nname = "see"\nobserve = ["*"]\n')
        with rights.open("a") as file:
            file.write('[[rule]]\nobserve = ["*"]\nmodify = [{ variables = "*.cwnd", min = 1448 }]\npriority = 5\nattach = true\n')
        rights.chmod(0o600)
        serve = [COMMAND, "serve", str(top / "files"), "--dev", "tun:h0", "--kernel-addr", "10.9.0.1/24"]
        serve += ["--addr", "10.9.0.2/24", "--faults", "rate=20Mbit/s,delay=20ms,queue=200kB"]
        serve += [f"--interact={self.socket}", "--rights", str(rights)]
        self.serving = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, self.serving)
        until = time.monotonic() + 20
        while not os.path.exists(self.socket):
            self.assertIsNone(self.serving.poll(), "it serves")
            self.assertLess(time.monotonic(), until, "it listens")
            time.sleep(0.02)

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def curl(self) -> subprocess.Popen[bytes]:
        command = ["curl", "-sS", "--retry", "5", "--retry-connrefused", "-o", str(self.got)]
        process = subprocess.Popen(command + ["http://10.9.0.2/file"])
        self.addCleanup(self.end, process)
        return process

    async def finish(self, curl: subprocess.Popen[bytes]) -> None:
        self.assertEqual(await asyncio.to_thread(curl.wait, 30), 0)
        self.assertEqual(self.got.read_bytes(), self.content, "byte-exact")

    async def window(self, bus: hawser.Bus) -> int:
        """The largest window of a connection."""
        windows = [0]
        for flow in await bus.flows():
            if flow.kind == "conn":
                windows.append((await bus.probe(flow, ".conn.cc.cwnd"))[".conn.cc.cwnd"])
        return max(windows)

    async def provider(self, bus: hawser.Bus, name: str) -> hawser.Source:
        """A provider, which may come a moment after the socket."""
        end = time.monotonic() + 15
        while True:
            for source in await bus.offers():
                if source.provider == name:
                    return source
            self.assertLess(time.monotonic(), end, f"{name} is offered")
            await asyncio.sleep(0.01)

    async def until(self, what: str, bus: hawser.Bus, smallest: int, largest: Optional[int] = None) -> int:
        """Waits for a window within bounds."""
        end = time.monotonic() + 15
        while True:
            window = await self.window(bus)
            if smallest <= window and (largest is None or window <= largest):
                return window
            self.assertLess(time.monotonic(), end, f"{what}: {window}")
            await asyncio.sleep(0.01)

    async def test_offers_signals_and_filters(self) -> None:
        async with hawser.connect(self.socket, name="watch", priority=0) as bus:
            tcp = await self.provider(bus, "tcp")
            acked = next(event for event in tcp.events if event.name == "tcp.acked")
            self.assertIn("bytes", [field.name for field in acked.fields])
            cwnd = next(variable for variable in tcp.variables if variable.name == "tcp.conn.cc.cwnd")
            self.assertTrue(cwnd.modifiable)
            curl = self.curl()
            async with await bus.subscribe("tcp.acked", with_=[".conn.cc.cwnd"], every="50ms") as signals:
                times = []
                async for one in signals:
                    self.assertEqual(one.event, "tcp.acked")
                    self.assertGreater(one.variables[".conn.cc.cwnd"], 0)
                    times.append((one.flow, one.time))
                    if len(times) == 8:
                        break
                of_one = [at for flow, at in times if flow == times[-1][0]]
                self.assertTrue(all(b > a for a, b in zip(of_one, of_one[1:])))
                statistics = await signals.statistics()
                self.assertGreater(statistics.events, statistics.passed)
                await signals.change(every=0, frequency=3, scope="remote.port=1")
                subscriptions = await bus.subscriptions()
                self.assertEqual((subscriptions[0]["interval"], subscriptions[0]["scope"]), (0, "remote.port=1"))
            self.assertEqual(await bus.subscriptions(), [])
            await self.finish(curl)

    async def test_a_lease_is_given_back(self) -> None:
        async with hawser.connect(self.socket, name="holder", priority=2) as bus:
            self.assertEqual((bus.process, bus.rights.priority), (self.serving.pid, 5))
            curl = self.curl()
            await self.until("it grows", bus, CAP * 2)
            flow = next(flow for flow in await bus.flows() if flow.kind == "conn")
            self.assertGreater(await bus.modify(flow, ".conn.cc.cwnd", CAP, lease=5.0), CAP)
            self.assertEqual((await bus.probe(flow, "tcp.conn.cc.cwnd"))["tcp.conn.cc.cwnd"], CAP)
            self.assertEqual(await bus.release(flow, ".conn.cc.cwnd"), CAP)
            self.assertGreater(await self.window(bus), CAP)
            await self.finish(curl)
            await asyncio.sleep(0.2)
            acts = [entry.act for entry in (await bus.audit()).entries]
            self.assertEqual(acts, ["set", "released"])

    async def test_what_is_refused_is_an_exception_with_its_reason(self) -> None:
        async with hawser.connect(self.socket, name="see", priority=0) as bus:
            with self.assertRaisesRegex(hawser.Refused, "no provider has an event `tcp.ackd`"):
                await bus.subscribe("tcp.ackd")
            with self.assertRaisesRegex(hawser.Refused, "the source 99 does not exist"):
                await bus.probe("99:0")
            curl = self.curl()
            await self.until("it is there", bus, 1)
            flow = next(flow for flow in await bus.flows() if flow.kind == "conn")
            with self.assertRaisesRegex(hawser.Refused, "no right to set tcp.conn.cc.cwnd.*rights file"):
                await bus.modify(flow, ".conn.cc.cwnd", CAP, lease="1s", priority=0)
            with self.assertLogs("hawser", "WARNING"):
                await bus.steer(flow, ".conn.window", CAP, lease="1s")
                await bus.flows()
            # Unrelated calls continue.
            await bus.steer(flow, ".conn.cc.cwnd", CAP, lease="1s")
            await bus.flows()
            self.assertRegex(str(bus.refused.popleft()), "no provider has a variable `tcp.conn.window`")
            self.assertFalse(bus.refused)
            with self.assertRaisesRegex(ValueError, "at most 65536 bytes"):
                await bus.steer(flow, "x" * 70_000, CAP, lease="1s")
            await self.finish(curl)
        with self.assertRaisesRegex(hawser.Refused, "no right to take priority 3"):
            async with hawser.connect(self.socket, name="see", priority=3):
                pass
        async with hawser.connect(self.socket, name="blind", priority=0) as bus:
            with self.assertRaisesRegex(hawser.Refused, "`blind` has no right|no provider"):
                await bus.subscribe("tcp.acked", priority=0)
        with self.assertRaisesRegex(hawser.Nobody, "nobody listens there"):
            async with hawser.connect(self.socket + "x"):
                pass

    async def test_processors_are_attached_and_detached(self) -> None:
        cap = f"void cap(event_t ev, tcp_conn c) {{ if (c.cc.cwnd > {CAP}) c.cc.cwnd = {CAP}; }}\n"
        async with hawser.connect(self.socket, name="attach", priority=1) as bus:
            self.assertTrue(bus.rights.attach)
            source = (await self.provider(bus, "tcp")).number
            with self.assertRaisesRegex(hawser.Refused, "`cb`"):
                await bus.attach(source, "cap", cap + "attach cap after cb;")
            self.assertEqual(await bus.attachments(), {source: ()})
            await bus.attach(source, "cap", cap + "attach cap after cc;")
            there = hawser.Attachment("cap", "attach", ("cap after cc",))
            self.assertEqual(await bus.attachments(), {source: (there,)})
            curl = self.curl()
            await self.until("it is capped", bus, CAP, CAP)
            await bus.detach(source, "cap")
            await self.until("it grows again", bus, CAP + 1)
            await self.finish(curl)
            with self.assertRaisesRegex(hawser.Refused, "not attached"):
                await bus.detach(source, "cap")
            await asyncio.sleep(0.2)
            entries = [entry for entry in (await bus.audit()).entries if entry.act == "attached"]
            text = hashlib.sha256((cap + "attach cap after cc;").encode()).hexdigest()
            self.assertEqual([entry.sha256 for entry in entries], [text[:16]])
        async with hawser.connect(self.socket, name="see", priority=0) as bus:
            with self.assertRaisesRegex(hawser.Refused, "no right to attach"):
                await bus.attach(source, "cap", cap + "attach cap after cc;")

    async def test_a_waiting_client_is_notified_when_the_process_is_gone(self) -> None:
        async with hawser.connect(self.socket, name="watch", priority=0) as bus:
            signals = await bus.subscribe("tcp.*")
            self.end(self.serving)
            with self.assertRaises(hawser.Gone):
                async for _ in signals:
                    pass
            with self.assertRaises(hawser.Gone):
                await bus.flows()

    async def test_the_example_caps_the_window_until_it_is_killed(self) -> None:
        example = ROOT / "examples" / "cap_window.py"
        self.assertLess(len(example.read_text().splitlines()), 40)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        arguments = [sys.executable, str(example), str(CAP), self.socket]
        capping = subprocess.Popen(arguments, env=environment)
        self.addCleanup(self.end, capping)
        async with hawser.connect(self.socket, name="test", priority=0) as bus:
            while not any(subscription["who"] == "cap-window" for subscription in await bus.subscriptions()):
                self.assertIsNone(capping.poll())
                await asyncio.sleep(0.02)
            curl = self.curl()
            await self.until("it is capped", bus, CAP, CAP)
            for _ in range(20):
                await asyncio.sleep(0.02)
                self.assertEqual(await self.window(bus), CAP)
            os.kill(capping.pid, signal.SIGKILL)
            capping.wait()
            await self.until("it grows again", bus, CAP * 2)
            await self.finish(curl)
            await asyncio.sleep(0.2)
            entries = [entry for entry in (await bus.audit()).entries if entry.who == "cap-window"]
            self.assertEqual({entry.act for entry in entries}, {"set", "holder_gone"})
            self.assertTrue(all(entry.variable == "tcp.conn.cc.cwnd" for entry in entries))


class Peers(unittest.IsolatedAsyncioTestCase):
    """Sockets at which somebody else listens, or nobody who keeps to the protocol."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hawser-python-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.socket = os.path.join(folder.name, "x.sock")

    def test_usual_sockets(self) -> None:
        with unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR="/run/user/7"):
            self.assertEqual(hawser.usual_socket(), "/run/user/7/hawser/interact.sock")
        with unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=""):
            with unittest.mock.patch("os.geteuid", return_value=0):
                self.assertEqual(hawser.usual_socket(), "/run/hawser/interact.sock")
            with unittest.mock.patch("os.geteuid", return_value=7), self.assertRaises(hawser.Nobody):
                hawser.usual_socket()

    async def test_another_user_who_listens_is_sent_nothing(self) -> None:
        received: List[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.read())
            writer.close()

        async with await asyncio.start_unix_server(serve, self.socket):
            writer = (await asyncio.open_unix_connection(self.socket))[1]
            self.assertEqual(_bus._listener(writer), os.geteuid())
            writer.close()
            with unittest.mock.patch("hawser._bus._listener", return_value=os.geteuid() + 4242):
                with self.assertRaisesRegex(hawser.Nobody, "neither this user nor root"):
                    async with hawser.connect(self.socket):
                        pass
            while len(received) < 2:
                await asyncio.sleep(0.01)
        self.assertEqual(received, [b"", b""])

    async def test_a_line_without_end_is_bounded(self) -> None:
        sent = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            try:
                while True:
                    writer.write(b"a" * (1 << 20))
                    await writer.drain()
                    sent += 1 << 20
            except ConnectionError:
                writer.close()

        async with await asyncio.start_unix_server(serve, self.socket):
            with self.assertRaises(hawser.Gone):
                async with hawser.connect(self.socket):
                    pass
        self.assertLess(sent, 64 << 20)


class Spans(unittest.TestCase):
    """Seconds are floats, nanoseconds integers."""

    def test_spans(self) -> None:
        spans: List[hawser.Time] = [0.01, 0, "2s", timedelta(seconds=1, microseconds=5), 5.0]
        want = [10_000_000, 0, "2s", 1_000_005_000, 5_000_000_000]
        self.assertEqual([hawser.nanoseconds(span) for span in spans], want)

    def test_a_number_without_a_unit_is_refused(self) -> None:
        for wrong in (5, 1, True):
            with self.assertRaisesRegex(TypeError, "has no unit: give seconds as a float"):
                hawser.nanoseconds(wrong)
        no_spans: List[hawser.Time] = [-1.0, float("nan"), float("inf"), timedelta(seconds=-1)]
        for no_span in no_spans:
            with self.assertRaises(ValueError):
                hawser.nanoseconds(no_span)


class Package(unittest.TestCase):
    """Its offers."""

    def test_its_version_is_that_of_the_workspace(self) -> None:
        manifest = (ROOT.parent.parent / "Cargo.toml").read_text()
        version = next(line for line in manifest.splitlines() if line.startswith("version = "))
        self.assertEqual(version, f'version = "{hawser.__version__}"')

    def test_the_reference_has_every_public_name(self) -> None:
        page = (ROOT / "REFERENCE.md").read_text()
        names = list(hawser.__all__)
        for kind in (hawser.Bus, hawser.Subscription, hawser.Tware):
            names += [name for name in vars(kind) if not name.startswith("_")]
        self.assertEqual([name for name in names if f"`{name}" not in page], [])


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def line(**members: object) -> bytes:
    return json.dumps(members).encode() + b"\n"


class Protocol(unittest.IsolatedAsyncioTestCase):
    """Against a process that sends what a test wants: the protocol is that of docs/interact.md."""

    async def listen(self, script: Script) -> str:
        folder = tempfile.TemporaryDirectory(prefix="hawser-python-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "s")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            rights = {"observe": ["*"], "modify": [], "attach": False, "priority": 1}
            writer.write(line(hello={"version": 1, "process": os.getpid(), "rights": rights}))
            await script(reader, writer)
            writer.close()

        server = await asyncio.start_unix_server(serve, path)
        self.addCleanup(server.close)
        return path

    @staticmethod
    def signal(subscription: int, event: str, number: int) -> bytes:
        return line(
            signal={"subscription": subscription, "event": event, "flow": "0:1", "time": number, "fields": {}}
        )

    async def test_handlers_are_called_in_the_order_of_the_signals(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number in range(2):
                await reader.readline()
                writer.write(line(subscribed=number))
            for number in range(100):
                writer.write(self.signal(number % 2, "even" if number % 2 == 0 else "odd", number))

        tware = hawser.Tware("order")
        seen: List[int] = []

        @tware.on("even")
        async def even(bus: hawser.Bus, signal: hawser.Signal) -> None:
            await asyncio.sleep(0.001)
            seen.append(signal.time)

        @tware.on("odd")
        async def odd(bus: hawser.Bus, signal: hawser.Signal) -> None:
            seen.append(signal.time)

        with self.assertRaises(hawser.Gone):
            await tware.main(await self.listen(script))
        self.assertEqual(seen, list(range(100)))

    async def test_a_tware_that_may_connects_again(self) -> None:
        times = 0

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal times
            times += 1
            await reader.readline()
            writer.write(line(subscribed=0))
            writer.write(self.signal(0, "even", times))

        tware = hawser.Tware("again")
        seen: List[int] = []
        enough = asyncio.Event()

        @tware.on("even")
        async def even(bus: hawser.Bus, signal: hawser.Signal) -> None:
            seen.append(signal.time)
            if len(seen) == 3:
                enough.set()

        running = asyncio.ensure_future(tware.main(await self.listen(script), reconnect=True))
        await asyncio.wait_for(enough.wait(), 20)
        running.cancel()
        self.assertEqual(seen, [1, 2, 3])

    async def test_a_bus_connects_again_and_its_subscriptions_go_on(self) -> None:
        times = 0
        asked: List[object] = []

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal times
            times += 1
            for number in range(2 if times == 1 else 1):
                asked.append(json.loads(await reader.readline()))
                # A different number each time, as from another process.
                writer.write(line(subscribed=number + 10 * times) if number == 0 else line(changed=10))
            writer.write(self.signal(10 * times, "even", times))

        async with hawser.connect(await self.listen(script)) as bus:
            signals = await bus.subscribe("even", every="5ms")
            await signals.change(every="9ms")
            self.assertEqual((await signals.__anext__()).time, 1)
            with self.assertRaises(hawser.Gone):
                await signals.__anext__()
            with self.assertRaises(hawser.Gone):
                await bus.flows()
            await bus.reconnect(timeout=20.0)
            self.assertEqual((await asyncio.wait_for(signals.__anext__(), 20)).time, 2)
            self.assertEqual(signals.number, 20)
        subscriptions = [request["subscribe"] for request in asked if "subscribe" in request]  # type: ignore[operator,index]
        self.assertEqual([subscription["interval"] for subscription in subscriptions], ["5ms", "9ms"])

    async def test_a_bus_stops_trying_when_the_time_is_over(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            pass

        path = await self.listen(script)
        async with hawser.connect(path) as bus:
            os.unlink(path)
            begin = time.monotonic()
            with self.assertRaises(hawser.Nobody):
                await bus.reconnect(timeout="300ms")
            self.assertLess(time.monotonic() - begin, 5)
            with self.assertRaises(hawser.Nobody):
                await bus.flows()

    def test_an_error_is_one_harmless_line(self) -> None:
        from hawser._errors import printable

        self.assertEqual(printable("a\x1b[2J\nb\u202ec\u0085\u2028\t"), "a\\u001b[2J\\u000ab\\u202ec\\u0085\\u2028\t")

    async def test_a_lease_that_was_taken_is_reported(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(line(ended={"flow": "0:1", "variable": "tcp.conn.cc.cwnd", "why": "taken"}))
            writer.write(line(flows=[]))

        async with hawser.connect(await self.listen(script)) as bus:
            self.assertEqual(await bus.flows(), [])
            self.assertEqual(list(bus.ended), [hawser.Ended("0:1", "tcp.conn.cc.cwnd", "taken")])

    async def test_a_slow_reader_is_disconnected_with_the_reason(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(b'{"signal":{"subscr')

        async with hawser.connect(await self.listen(script)) as bus:
            with self.assertRaisesRegex(hawser.Gone, f"process {os.getpid()} has closed the connection.*5 s"):
                await bus.flows()

    async def test_values_have_the_names_that_were_asked_for(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):
                await reader.readline()
                values = {"tcp.conn.cc.cwnd": 9, "tcp.conn.srtt": 7}
                writer.write(line(probed={"flow": "0:1", "time": 1, "values": values}))

        async with hawser.connect(await self.listen(script)) as bus:
            probe = await bus.probe("0:1", ".conn.cc.cwnd", "tcp.conn.srtt")
            self.assertEqual(probe.values, {".conn.cc.cwnd": 9, "tcp.conn.srtt": 7})
            self.assertEqual(set((await bus.probe("0:1")).values), {"tcp.conn.cc.cwnd", "tcp.conn.srtt"})

    async def test_the_end_of_the_process_ends_a_tware_without_a_traceback(self) -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(line(subscribed=0))

        path = await self.listen(script)
        program = (
            "import sys, hawser\ntware = hawser.Tware('ending')\n"
            "@tware.on('even')\nasync def even(bus, signal): pass\ntware.run(sys.argv[1])\n"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=asyncio.subprocess.PIPE
        )
        _, output = await asyncio.wait_for(process.communicate(), 30)
        self.assertEqual((process.returncode, output), (1, b"ending: the other process is gone\n"))


if __name__ == "__main__":
    unittest.main()
