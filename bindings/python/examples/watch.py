"""Prints what happens to TCP flows, ten times a second each: watch.py [SOCKET]"""

import sys

import hawser

CWND, SRTT = ".conn.cc.cwnd", ".conn.srtt"
tware = hawser.Tware("watch", priority=0)


@tware.on("*tcp.acked", with_=[CWND, SRTT], every=0.1)
async def acked(bus: hawser.Bus, signal: hawser.Signal) -> None:
    window, round_trip = signal.variables[CWND], signal.variables[SRTT] / 1e6
    print(f"{signal.time / 1e9:12.3f} {signal.flow} window {window:>9} round trip {round_trip:8.3f} ms")


@tware.on("*tcp.timeout", "*tcp.recovery_began", "*tcp.closed")
async def on_signal(bus: hawser.Bus, signal: hawser.Signal) -> None:
    print(f"{signal.time / 1e9:12.3f} {signal.flow} {signal.event} {dict(signal.fields)}")


if __name__ == "__main__":
    tware.run(sys.argv[1] if len(sys.argv) > 1 else None)
