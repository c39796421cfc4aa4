#!/usr/bin/env python3
"""Writes frames.txt: what the network layer must make of frames, by scapy's reckoning.

Run it with scapy 2.6 or later after a change:  python3 frames.py > frames.txt

The station under test is 192.0.2.2/24 and 2001:db8::2/64 with the address 02:00:00:00:00:02; its
neighbour and gateway is 192.0.2.1, 2001:db8::1 with 02:00:00:00:00:01. Lines of a case:

  case NAME            a fresh station on Ethernet without any offload
  at MS                the time in milliseconds
  in HEX               a frame arrives
  is VERDICT           what it is
  send IP PROTOCOL FIELD HEX   a packet to send; FIELD is where its checksum is to be completed
  poll                 deadlines are dealt with
  mtu IP BYTES         what is known of the path
  out HEX              the next frame out; a case ends with none left
"""

import socket

from scapy.all import (ARP, ICMP, IP, TCP, UDP, Ether, ICMPv6DestUnreach, ICMPv6EchoReply,
                       ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
                       ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, ICMPv6ParamProblem,
                       ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
                       IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Raw, raw)
from scapy.layers.inet import IPOption_EOL, IPOption_NOP
from scapy.layers.inet6 import HBHOptUnknown, RouterAlert
from scapy.utils import checksum
from scapy.utils6 import in6_getnsma, in6_getnsmac

US_MAC, PEER_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01"
OTHER_MAC = "02:00:00:00:00:09"
US4, PEER4, FAR4 = "192.0.2.2", "192.0.2.1", "198.51.100.7"
US6, PEER6, FAR6 = "2001:db8::2", "2001:db8::1", "2001:db8:ffff::7"
LINK6 = "fe80::ff:fe00:2"  # RFC 4291, appendix A, of 02:00:00:00:00:02

to_us = Ether(dst=US_MAC, src=PEER_MAC)
to_peer = Ether(dst=PEER_MAC, src=US_MAC)
p4 = IP(src=PEER4, dst=US4)
p6 = IPv6(src=PEER6, dst=US6)
UDP_MSG = UDP(sport=5000, dport=4000) / b"who are you?"


def case(name):
    print(f"\ncase {name}")


def arrives(frame, verdict):
    print("in", raw(frame).hex())
    print("is", verdict)


def leaves(frame):
    print("out", raw(frame).hex())


def packet(version, proto, src, dst, hdr_len, tot_len, transport, ttl=64, dscp=0, ecn=0, label=0):
    return (f"packet v{version} proto={proto} {src} > {dst} hdr={hdr_len} tot={tot_len} ttl={ttl} "
            f"dscp={dscp} ecn={ecn} label={label} {raw(transport).hex()}")


def error(kind, mtu, kind_no, code, proto, src, dst, quoted):
    return f"error kind={kind} mtu={mtu} type={kind_no} code={code} proto={proto} {src} > {dst} {raw(quoted).hex()}"


UNREACHABLE, REFUSED, TOO_BIG, OTHER = 1, 2, 3, 4



def sent(dst, datagram, src, field):
    """A `send` line for a UDP datagram: its checksum field holds the pseudo-header's sum."""
    family = socket.AF_INET6 if ":" in dst else socket.AF_INET
    length = len(raw(datagram))
    pseudo = (socket.inet_pton(family, src) + socket.inet_pton(family, dst)
              + length.to_bytes(4, "big") + bytes([0, 0, 0, 17]))
    partial = (~checksum(pseudo)) & 0xffff  # scapy complements
    body = bytearray(raw(datagram))
    body[field:field + 2] = partial.to_bytes(2, "big")
    print(f"send {dst} 17 {field} {bytes(body).hex()}")


def ns(target, src=LINK6, mac=US_MAC):
    group = socket.inet_ntop(socket.AF_INET6, in6_getnsma(socket.inet_pton(socket.AF_INET6, target)))
    gmac = in6_getnsmac(in6_getnsma(socket.inet_pton(socket.AF_INET6, target)))
    return (Ether(dst=gmac, src=mac) / IPv6(src=src, dst=group, hlim=255)
            / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=mac))


def na(target, dst, mac, s, o=1, eth=None, hlim=255):
    eth = eth or Ether(dst=US_MAC, src=mac)
    return (eth / IPv6(src=target, dst=dst, hlim=hlim)
            / ICMPv6ND_NA(tgt=target, R=0, S=s, O=o) / ICMPv6NDOptDstLLAddr(lladdr=mac))


ARP_REPLY = Ether(dst=US_MAC, src=PEER_MAC) / ARP(op=2, hwsrc=PEER_MAC, psrc=PEER4, hwdst=US_MAC, pdst=US4)
ARP_ASK = Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER4,
                                                           hwdst="00:00:00:00:00:00", pdst=US4)
OUR_ARP = Ether(dst="ff:ff:ff:ff:ff:ff", src=US_MAC) / ARP(op=1, hwsrc=US_MAC, psrc=US4,
                                                         hwdst="00:00:00:00:00:00", pdst=PEER4)
OUR_ANSWER = to_peer / ARP(op=2, hwsrc=US_MAC, psrc=US4, hwdst=PEER_MAC, pdst=PEER4)


def knows_peer():
    """Makes the station know its neighbour in both families."""
    arrives(ARP_ASK, "done")
    leaves(OUR_ANSWER)
    arrives(ns(US6, PEER6, PEER_MAC), "done")
    leaves(to_peer / IPv6(src=US6, dst=PEER6, hlim=255) / ICMPv6ND_NA(tgt=US6, R=0, S=1, O=1)
           / ICMPv6NDOptDstLLAddr(lladdr=US_MAC))


def out4(**fields):
    return IP(src=US4, flags="DF", id=0, **fields)


# ---------------------------------------------------------------- delivery
case("a datagram is delivered, its padding cut off")
d = to_us / p4 / UDP(sport=1, dport=2) / b"hi"
arrives(Raw(raw(d) + b"\xaa" * 16), packet(4, 17, PEER4, US4, 20, 30, raw(d)[34:]))

case("traffic class, flow label and hop limit are reported")
f = IPv6(src=PEER6, dst=US6, tc=(46 << 2) | 1, fl=0xabcde, hlim=7) / UDP_MSG
arrives(to_us / f, packet(6, 17, PEER6, US6, 40, 60, raw(f)[40:], ttl=7, dscp=46, ecn=1, label=0xabcde))
f = IP(src=PEER4, dst=US4, tos=(10 << 2) | 3, ttl=3) / UDP_MSG
arrives(to_us / f, packet(4, 17, PEER4, US4, 20, 40, raw(f)[20:], ttl=3, dscp=10, ecn=3))

case("IPv4 options are passed over")
f = IP(src=PEER4, dst=US4, options=[IPOption_NOP(), IPOption_NOP(), IPOption_EOL()]) / UDP_MSG
f = IP(raw(f))
arrives(to_us / f, packet(4, 17, PEER4, US4, f.ihl * 4, len(raw(f)), raw(f)[f.ihl * 4:]))

case("extension headers are passed over")
f = (p6 / IPv6ExtHdrHopByHop(options=[RouterAlert(), PadN(optdata=b"\0\0")]) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)])
     / IPv6ExtHdrRouting(segleft=0) / IPv6ExtHdrFragment(offset=0, m=0, id=5) / UDP_MSG)
n = len(raw(f)) - 20
arrives(to_us / f, packet(6, 17, PEER6, US6, n, len(raw(f)), raw(f)[n:]))

case("an unknown option that may be skipped is")
f = p6 / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1e, optdata=b"\1\2")]) / UDP_MSG
arrives(to_us / f, packet(6, 17, PEER6, US6, 48, len(raw(f)), raw(f)[48:]))

# ---------------------------------------------------------------- drops
case("what is malformed or for others is dropped")
ok = raw(to_us / p4 / UDP_MSG)
arrives(Raw(ok[:13]), "drop truncated")
arrives(Raw(ok[:33]), "drop truncated")
arrives(Raw(ok[:-1]), "drop truncated")
arrives(Ether(dst=OTHER_MAC, src=PEER_MAC) / p4 / UDP_MSG, "drop other-link")
arrives(to_us / Raw(b"\0" * 50), "drop other-link")
arrives(to_us / IP(src=PEER4, dst=US4, chksum=0x1234) / UDP_MSG, "drop checksum")
arrives(to_us / IP(src=PEER4, dst=US4, version=5) / UDP_MSG, "drop malformed")
arrives(to_us / IP(src=PEER4, dst=US4, ihl=4) / UDP_MSG, "drop malformed")
arrives(to_us / IP(src=PEER4, dst=US4, len=19) / UDP_MSG, "drop malformed")
arrives(to_us / IP(src=PEER4, dst=US4, flags="MF") / UDP_MSG, "drop fragment")
arrives(to_us / IP(src=PEER4, dst=US4, frag=100) / UDP_MSG, "drop fragment")
arrives(to_us / IP(src=PEER4, dst="192.0.2.3") / UDP_MSG, "drop not-for-us")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / IP(src=PEER4, dst="192.0.2.255") / UDP_MSG, "drop not-for-us")
for src in ["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255", US4]:
    arrives(to_us / IP(src=src, dst=US4) / UDP_MSG, "drop bad-source")
for src in ["::", "::1", "ff02::1", US6, LINK6]:
    arrives(to_us / IPv6(src=src, dst=US6) / UDP_MSG, "drop bad-source")
arrives(to_us / IPv6(src=PEER6, dst="2001:db8::3") / UDP_MSG, "drop not-for-us")
arrives(Ether(dst="33:33:00:00:00:01", src=PEER_MAC) / IPv6(src=PEER6, dst="ff02::1") / UDP_MSG, "drop not-for-us")
arrives(Raw(raw(to_us / p6 / UDP_MSG)[:-1]), "drop truncated")
arrives(to_us / p6 / IPv6ExtHdrFragment(offset=0, m=1) / UDP_MSG, "drop fragment")
arrives(to_us / p6 / IPv6ExtHdrFragment(offset=9, m=0) / UDP_MSG, "drop fragment")
arrives(to_us / IPv6(src=PEER6, dst=US6, nh=59), "drop ignored")
arrives(to_us / p6 / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x5e, optdata=b"")]) / UDP_MSG, "drop extension")
chain = p6
for _ in range(9):
    chain = chain / IPv6ExtHdrDestOpt()
arrives(to_us / chain / UDP_MSG, "drop extension")

case("extension headers at fault are reported to their sender")
knows_peer()
answer = to_peer / IPv6(src=US6, dst=PEER6)
f = p6 / IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x9e, optdata=b"")]) / UDP_MSG
arrives(to_us / f, "drop extension")
leaves(answer / ICMPv6ParamProblem(code=2, ptr=42) / raw(f))
f = p6 / IPv6ExtHdrDestOpt() / IPv6ExtHdrHopByHop() / UDP_MSG
arrives(to_us / f, "drop extension")
leaves(answer / ICMPv6ParamProblem(code=1, ptr=40) / raw(f))
f = p6 / IPv6ExtHdrRouting(segleft=1, addresses=["2001:db8::9"]) / UDP_MSG
arrives(to_us / f, "drop extension")
leaves(answer / ICMPv6ParamProblem(code=0, ptr=42) / raw(f))

# ---------------------------------------------------------------- ARP
case("ARP: a request is answered, and teaches who asks")
arrives(ARP_ASK, "done")
leaves(OUR_ANSWER)
sent(PEER4, UDP_MSG, US4, 6)
leaves(to_peer / out4(dst=PEER4) / UDP_MSG)

case("ARP: a probe for an address of ours is answered")  # RFC 5227, 2.1.1
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc="0.0.0.0", pdst=US4), "done")
leaves(Ether(dst=PEER_MAC, src=US_MAC) / ARP(op=2, hwsrc=US_MAC, psrc=US4, hwdst=PEER_MAC, pdst="0.0.0.0"))

case("ARP: requests for others, and nonsense")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER4, pdst="192.0.2.9"), "drop not-for-us")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc="10.0.0.1", pdst=US4), "drop bad-source")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc="0.0.0.0", pdst="192.0.2.9"), "drop not-for-us")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc="ff:ff:ff:ff:ff:ff", psrc=PEER4, pdst=US4), "drop bad-source")
arrives(Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwtype=6, hwsrc=PEER_MAC, psrc=PEER4, pdst=US4), "drop malformed")
arrives(Ether(dst=US_MAC, src=PEER_MAC) / ARP(op=9, hwsrc=PEER_MAC, psrc=PEER4, pdst=US4), "drop ignored")
# An unsolicited reply does not change the cache.
arrives(ARP_REPLY, "done")
sent(PEER4, UDP_MSG, US4, 6)
leaves(OUR_ARP)

case("ARP: a packet waits for the answer; the question is repeated")
print("at 5000")
sent(PEER4, UDP_MSG, US4, 6)
leaves(OUR_ARP)
print("at 5999\npoll")
print("at 6000\npoll")
leaves(OUR_ARP)
arrives(ARP_REPLY, "done")
leaves(to_peer / out4(dst=PEER4) / UDP_MSG)
sent(FAR4, UDP_MSG, US4, 6)  # through the gateway, whose address is known
leaves(to_peer / out4(dst=FAR4) / UDP_MSG)

case("ARP: an answer is believed for 30 s, then asked for again in use")
print("at 1000")
sent(PEER4, UDP_MSG, US4, 6)
leaves(OUR_ARP)
arrives(ARP_REPLY, "done")
leaves(to_peer / out4(dst=PEER4) / UDP_MSG)
print("at 31000")
sent(PEER4, UDP_MSG, US4, 6)
leaves(to_peer / out4(dst=PEER4) / UDP_MSG)
print("at 35999\npoll")
PROBE = to_peer / ARP(op=1, hwsrc=US_MAC, psrc=US4, hwdst="00:00:00:00:00:00", pdst=PEER4)
for at in [36000, 37000, 38000]:
    print(f"at {at}\npoll")
    leaves(PROBE)
print("at 39000\npoll")
sent(PEER4, UDP_MSG, US4, 6)
leaves(OUR_ARP)

case("ARP: a neighbour that does not answer is given up")
print("at 0")
sent(PEER4, UDP_MSG, US4, 6)
leaves(OUR_ARP)
for at in [1000, 2000]:
    print(f"at {at}\npoll")
    leaves(OUR_ARP)
print("at 3000\npoll")
arrives(ARP_REPLY, "done")  # too late: the waiting packets are dropped

# ---------------------------------------------------------------- neighbour discovery
case("ND: a solicitation is answered, and teaches who asks")
arrives(ns(US6, PEER6, PEER_MAC), "done")
leaves(to_peer / IPv6(src=US6, dst=PEER6, hlim=255) / ICMPv6ND_NA(tgt=US6, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=US_MAC))
sent(PEER6, UDP_MSG, US6, 6)
leaves(to_peer / IPv6(src=US6, dst=PEER6) / UDP_MSG)

case("ND: the link-local address is ours as well")
arrives(ns(LINK6, "fe80::1", PEER_MAC), "done")
leaves(to_peer / IPv6(src=LINK6, dst="fe80::1", hlim=255) / ICMPv6ND_NA(tgt=LINK6, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=US_MAC))
sent("fe80::1", UDP_MSG, LINK6, 6)
leaves(to_peer / IPv6(src=LINK6, dst="fe80::1") / UDP_MSG)

case("ND: who checks whether our address is free is told that it is not")
group = socket.inet_ntop(socket.AF_INET6, in6_getnsma(socket.inet_pton(socket.AF_INET6, US6)))
gmac = in6_getnsmac(in6_getnsma(socket.inet_pton(socket.AF_INET6, US6)))
arrives(Ether(dst=gmac, src=PEER_MAC) / IPv6(src="::", dst=group, hlim=255) / ICMPv6ND_NS(tgt=US6), "done")
leaves(Ether(dst="33:33:00:00:00:01", src=US_MAC) / IPv6(src=US6, dst="ff02::1", hlim=255)
       / ICMPv6ND_NA(tgt=US6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=US_MAC))

case("ND: messages that did not start on this link, and nonsense")
f = ns(US6, PEER6, PEER_MAC)
f[IPv6].hlim = 254
arrives(f, "drop malformed")
f = ns(US6, PEER6, PEER_MAC)
f[ICMPv6ND_NS].cksum = 0x1234
arrives(f, "drop checksum")
f = ns(US6, PEER6, PEER_MAC)
f[ICMPv6ND_NS].code = 1
arrives(f, "drop malformed")
f = ns(US6, PEER6, PEER_MAC)
f[ICMPv6NDOptSrcLLAddr].len = 0
arrives(f, "drop malformed")
f = ns(US6, PEER6, PEER_MAC)
f[ICMPv6NDOptSrcLLAddr].len = 2
arrives(f, "drop malformed")
arrives(ns(US6, FAR6, PEER_MAC), "drop bad-source")
arrives(na(PEER6, "ff02::1", PEER_MAC, 1, eth=Ether(dst="33:33:00:00:00:01", src=PEER_MAC)), "drop malformed")
f = ns("2001:db8::aa00:2", PEER6, PEER_MAC)  # shares our multicast group
arrives(f, "drop not-for-us")

case("ND: a packet waits for the answer; a solicitation goes to the group")
print("at 100")
sent(PEER6, UDP_MSG, US6, 6)
leaves(ns(PEER6, US6))
print("at 1100\npoll")
leaves(ns(PEER6, US6))
arrives(na(PEER6, US6, PEER_MAC, 1), "done")
leaves(to_peer / IPv6(src=US6, dst=PEER6) / UDP_MSG)
# An advertisement without the override flag only makes the entry stale (RFC 4861, 7.2.5).
arrives(na(PEER6, US6, OTHER_MAC, 1, o=0, eth=Ether(dst=US_MAC, src=OTHER_MAC)), "done")
sent(PEER6, UDP_MSG, US6, 6)
leaves(to_peer / IPv6(src=US6, dst=PEER6) / UDP_MSG)
print("at 6100\npoll")
PROBE6 = to_peer / IPv6(src=US6, dst=PEER6, hlim=255) / ICMPv6ND_NS(tgt=PEER6) / ICMPv6NDOptSrcLLAddr(lladdr=US_MAC)
leaves(PROBE6)
arrives(na(PEER6, US6, OTHER_MAC, 1, o=0, eth=Ether(dst=US_MAC, src=OTHER_MAC)), "done")
sent(PEER6, UDP_MSG, US6, 6)
leaves(to_peer / IPv6(src=US6, dst=PEER6) / UDP_MSG)
# One with the flag replaces the entry.
arrives(na(PEER6, "ff02::1", OTHER_MAC, 0, eth=Ether(dst="33:33:00:00:00:01", src=OTHER_MAC)), "done")
sent(PEER6, UDP_MSG, US6, 6)
leaves(Ether(dst=OTHER_MAC, src=US_MAC) / IPv6(src=US6, dst=PEER6) / UDP_MSG)

# ---------------------------------------------------------------- echo
case("echo is answered")
knows_peer()
arrives(to_us / p4 / ICMP(id=7, seq=9) / (b"abc" * 33), "done")
leaves(to_peer / out4(dst=PEER4) / ICMP(type=0, id=7, seq=9) / (b"abc" * 33))
arrives(to_us / p6 / ICMPv6EchoRequest(id=7, seq=9, data=b"abc" * 33), "done")
leaves(to_peer / IPv6(src=US6, dst=PEER6) / ICMPv6EchoReply(id=7, seq=9, data=b"abc" * 33))
arrives(to_us / p4 / ICMP(id=7, seq=9, chksum=0x1234) / b"abc", "drop checksum")
arrives(to_us / p6 / ICMPv6EchoRequest(id=7, seq=9, cksum=0x1234), "drop checksum")
arrives(to_us / p4 / ICMP(type=0, id=7, seq=9), "drop ignored")
arrives(Ether(dst="33:33:00:00:00:01", src=PEER_MAC) / IPv6(src=PEER6, dst="ff02::1") / ICMPv6EchoRequest(), "drop ignored")

# ---------------------------------------------------------------- errors
QUOTE4 = IP(src=US4, dst=FAR4, flags="DF", id=0, len=1500, proto=6) / (b"\x1f\x90\x00\x50" + b"\x11\x22\x33\x44")
QUOTE6 = IPv6(src=US6, dst=FAR6, plen=1460, nh=6) / (b"\x1f\x90\x00\x50" + b"\x11\x22\x33\x44" * 3)
BODY4, BODY6 = raw(QUOTE4)[20:], raw(QUOTE6)[40:]

case("errors are told apart")
for t, c, kind in [(3, 0, UNREACHABLE), (3, 1, UNREACHABLE), (3, 5, UNREACHABLE), (3, 2, REFUSED), (3, 3, REFUSED),
                   (3, 9, REFUSED), (3, 10, REFUSED), (3, 13, REFUSED), (3, 11, UNREACHABLE), (11, 0, OTHER), (12, 0, OTHER)]:
    arrives(to_us / p4 / ICMP(type=t, code=c) / QUOTE4, error(kind, 0, t, c, 6, US4, FAR4, BODY4))
for t, c, kind, message in [(1, 0, UNREACHABLE, ICMPv6DestUnreach), (1, 1, REFUSED, ICMPv6DestUnreach), (1, 3, UNREACHABLE, ICMPv6DestUnreach),
                            (1, 4, REFUSED, ICMPv6DestUnreach), (1, 6, REFUSED, ICMPv6DestUnreach), (3, 0, OTHER, ICMPv6TimeExceeded),
                            (4, 0, OTHER, ICMPv6ParamProblem), (4, 1, REFUSED, ICMPv6ParamProblem)]:
    arrives(to_us / p6 / message(code=c) / QUOTE6, error(kind, 0, t, c, 6, US6, FAR6, BODY6))

case("a quote behind extension headers")
q = IPv6(src=US6, dst=FAR6) / IPv6ExtHdrDestOpt() / UDP(sport=1, dport=2) / b"12345678"
arrives(to_us / p6 / ICMPv6DestUnreach(code=4) / q, error(REFUSED, 0, 1, 4, 17, US6, FAR6, raw(q)[48:]))

case("too big: the path's MTU is lowered, and believed for ten minutes")
print(f"at 0\nmtu {FAR4} 1500\nmtu {FAR6} 1500")
arrives(to_us / p4 / ICMP(type=3, code=4, nexthopmtu=1400) / QUOTE4, error(TOO_BIG, 1400, 3, 4, 6, US4, FAR4, BODY4))
arrives(to_us / p6 / ICMPv6PacketTooBig(mtu=1300) / QUOTE6, error(TOO_BIG, 1300, 2, 0, 6, US6, FAR6, BODY6))
print(f"mtu {FAR4} 1400\nmtu {FAR6} 1300\nmtu {PEER4} 1500")
# An error never raises the MTU.
arrives(to_us / p4 / ICMP(type=3, code=4, nexthopmtu=1450) / QUOTE4, error(TOO_BIG, 1450, 3, 4, 6, US4, FAR4, BODY4))
print(f"mtu {FAR4} 1400")
print(f"at 599999\npoll\nmtu {FAR4} 1400")
print(f"at 600000\npoll\nmtu {FAR4} 1500\nmtu {FAR6} 1500")

case("too big: from a router that does not say how big, and one that exaggerates")
arrives(to_us / p4 / ICMP(type=3, code=4, nexthopmtu=0) / QUOTE4, error(TOO_BIG, 1492, 3, 4, 6, US4, FAR4, BODY4))
print(f"mtu {FAR4} 1492")
arrives(to_us / p4 / ICMP(type=3, code=4, nexthopmtu=5) / QUOTE4, error(TOO_BIG, 68, 3, 4, 6, US4, FAR4, BODY4))
print(f"mtu {FAR4} 552")

case("errors that cannot be about packets of ours are dropped")
big4, big6 = ICMP(type=3, code=4, nexthopmtu=1400), ICMPv6PacketTooBig(mtu=1300)
foreign = IP(src="192.0.2.77", dst=FAR4, flags="DF", len=1500, proto=6) / BODY4
arrives(to_us / p4 / big4 / foreign, "drop implausible-quote")
may_fragment = IP(src=US4, dst=FAR4, len=1500, proto=6) / BODY4
arrives(to_us / p4 / big4 / may_fragment, "drop implausible-quote")
small = IP(src=US4, dst=FAR4, flags="DF", len=1400, proto=6) / BODY4
arrives(to_us / p4 / big4 / small, "drop implausible-quote")
part = IP(src=US4, dst=FAR4, frag=10, len=1500, proto=6) / BODY4
arrives(to_us / p4 / ICMP(type=3, code=3) / part, "drop implausible-quote")
to_group = IP(src=US4, dst="224.0.0.1", len=1500, proto=17) / BODY4
arrives(to_us / p4 / ICMP(type=3, code=3) / to_group, "drop implausible-quote")
arrives(to_us / p4 / ICMP(type=3, code=3) / Raw(raw(QUOTE4)[:19]), "drop implausible-quote")
arrives(to_us / p6 / big6 / (IPv6(src=FAR6, dst=US6, plen=1460, nh=6) / BODY6), "drop implausible-quote")
arrives(to_us / p6 / ICMPv6PacketTooBig(mtu=1279) / QUOTE6, "drop implausible-quote")
arrives(to_us / p6 / ICMPv6PacketTooBig(mtu=1500) / QUOTE6, "drop implausible-quote")
arrives(to_us / p6 / big6 / Raw(raw(QUOTE6)[:39]), "drop implausible-quote")
print(f"mtu {FAR4} 1500\nmtu {FAR6} 1500")

# ---------------------------------------------------------------- sending
case("checksums are completed in software")
knows_peer()
for payload in [b"", b"x", b"an odd number of bytes.", b"\xff" * 1000]:
    datagram = UDP(sport=5000, dport=4000) / payload
    sent(PEER4, datagram, US4, 6)
    leaves(to_peer / out4(dst=PEER4) / datagram)
    sent(PEER6, datagram, US6, 6)
    leaves(to_peer / IPv6(src=US6, dst=PEER6) / datagram)

case("a checksum that comes out as zero is sent as all ones")
knows_peer()
payload = next(p for n in range(65536) for p in [n.to_bytes(2, "big")]
               if UDP(raw(out4(dst=PEER4) / UDP(sport=5000, dport=4000) / p)[20:]).chksum == 0xffff)
datagram = UDP(sport=5000, dport=4000) / payload
sent(PEER4, datagram, US4, 6)
leaves(to_peer / out4(dst=PEER4) / datagram)
