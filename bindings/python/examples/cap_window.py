"""Caps the congestion window of every TCP flow: cap_window.py BYTES [SOCKET]

While a window is held the congestion controller goes on beneath; at a loss it is given back, so that the cap never
raises a window. When this program ends, however it ends, the windows grow again.
"""

import sys

import hawser

CWND = ".conn.cc.cwnd"
cap = int(sys.argv[1])
tware = hawser.Tware("cap-window")


@tware.on("*tcp.acked", with_=[CWND], every="10ms")
async def acked(bus: hawser.Bus, signal: hawser.Signal) -> None:
    if signal.variables[CWND] >= cap:
        await bus.steer(signal.flow, CWND, cap, lease="1s")


@tware.on("*tcp.recovery_began", "*tcp.timeout")
async def lost(bus: hawser.Bus, signal: hawser.Signal) -> None:
    try:
        await bus.release(signal.flow, CWND)
    except hawser.Refused:
        pass  # There was no lease.


if __name__ == "__main__":
    tware.run(sys.argv[2] if len(sys.argv) > 2 else None)
