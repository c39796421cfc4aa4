// A side of a measurement with gVisor's network stack: it reads its orders and reports its results in the
// same way as `hawser-bench side` (evaluation/bench/src/sides). It has an address of its own on an Ethernet
// interface, through a packet socket, as gVisor's containers do.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	mtu = 1500
	// Maximum bytes of a super-segment.
	superSegment = 65536
	// Bytes of the socket's receive queue: with the default, super-segments are lost.
	socketBuffer = 8 << 20
	// Bytes of TCP's buffers, at both ends.
	tcpBuffer = 4 << 20
	// Bytes of a write or read.
	chunk = 256 << 10
	// The sender continues briefly after its own time is over, so that the receiver's time is full.
	tail = 100 * time.Millisecond
)

// The orders of a side: `Spec`.
type spec struct {
	Stack struct {
		Gvisor struct {
			Device string `json:"device"`
		}
	} `json:"stack"`
	Address []json.RawMessage `json:"address"`
	Core    *int              `json:"core"`
	Work    struct {
		Send    *bulk
		Receive *bulk
	} `json:"work"`
	Timeout uint64 `json:"timeout_s"`
}

// A bulk transfer: `Bulk`.
type bulk struct {
	Peer    netip.AddrPort `json:"peer"`
	WarmUp  float64        `json:"warm_up_s"`
	Seconds float64        `json:"seconds"`
}

// The results of a side: `Measured`.
type measured struct {
	Bytes        uint64   `json:"bytes"`
	CountedBytes uint64   `json:"counted_bytes"`
	Seconds      float64  `json:"seconds"`
	User         float64  `json:"user_s"`
	System       float64  `json:"system_s"`
	RoundTrips   []uint64 `json:"round_trips_ns"`
	Connections  uint64   `json:"connections"`
	LeftOver     *uint64  `json:"left_over"`
	Notes        [][]any  `json:"notes"`
}

func main() {
	if err := run(); err != nil {
		fmt.Printf("failed: %v\n", err)
	}
}

func run() error {
	if len(os.Args) != 3 || os.Args[1] != "side" {
		return fmt.Errorf("it is started by hawser bench")
	}
	var orders spec
	if err := json.Unmarshal([]byte(os.Args[2]), &orders); err != nil {
		return err
	}
	time.AfterFunc(time.Duration(orders.Timeout)*time.Second, func() { os.Exit(1) })
	if err := stay(orders.Core); err != nil {
		return err
	}
	network, address, err := open(orders)
	if err != nil {
		return err
	}
	var result measured
	if plan := orders.Work.Send; plan != nil {
		err = begin()
		if err == nil {
			result, err = send(network, plan)
		}
	} else if plan := orders.Work.Receive; plan != nil {
		result, err = receive(network, address, plan)
	} else {
		err = fmt.Errorf("of gVisor bulk transfer is measured alone")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Reports that the side is ready, and waits for the signal to begin.
func begin() error {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// Keeps all threads of the process on one core, and ends the process with its parent.
func stay(core *int) error {
	if core != nil {
		var set unix.CPUSet
		set.Set(*core)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			var id int
			if _, err := fmt.Sscan(thread.Name(), &id); err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, &set); err != nil {
				return err
			}
		}
	}
	// On one core, more threads would only take turns.
	runtime.GOMAXPROCS(1)
	// No long-lived objects are created while bytes move: collect rarely.
	debug.SetGCPercent(400)
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// Opens the interface and attaches the stack to it.
func open(orders spec) (*stack.Stack, tcpip.FullAddress, error) {
	var address netip.Addr
	var bits int
	local := tcpip.FullAddress{NIC: 1}
	if len(orders.Address) != 2 {
		return nil, local, fmt.Errorf("no address")
	}
	if err := json.Unmarshal(orders.Address[0], &address); err != nil {
		return nil, local, err
	}
	if err := json.Unmarshal(orders.Address[1], &bits); err != nil {
		return nil, local, err
	}
	octets := address.As4()
	local.Addr = tcpip.AddrFrom4(octets)
	socket, err := packetSocket(orders.Stack.Gvisor.Device)
	if err != nil {
		return nil, local, err
	}
	endpoint, err := fdbased.New(&fdbased.Options{
		FDs:            []int{socket},
		MTU:            mtu,
		EthernetHeader: true,
		Address:        tcpip.LinkAddress([]byte{2, 0, 0, 0, 0, octets[3]}),
		GSOMaxSize:     superSegment,
		// Packets are not damaged in a veth pair within one machine.
		RXChecksumOffload:  true,
		PacketDispatchMode: fdbased.RecvMMsg,
	})
	if err != nil {
		return nil, local, err
	}
	network := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := configure(network); err != nil {
		return nil, local, fmt.Errorf("TCP's options: %v", err)
	}
	if err := network.CreateNIC(1, endpoint); err != nil {
		return nil, local, fmt.Errorf("the interface: %v", err)
	}
	own := tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: local.Addr, PrefixLen: bits},
	}
	if err := network.AddProtocolAddress(1, own, stack.AddressProperties{}); err != nil {
		return nil, local, fmt.Errorf("the address: %v", err)
	}
	network.SetRouteTable([]tcpip.Route{{Destination: own.AddressWithPrefix.Subnet(), NIC: 1}})
	return network, local, nil
}

// CUBIC, SACK, and buffers as large as Hawser's.
func configure(network *stack.Stack) tcpip.Error {
	cubic := tcpip.CongestionControlOption("cubic")
	sack := tcpip.TCPSACKEnabled(true)
	moderate := tcpip.TCPModerateReceiveBufferOption(false)
	sending := tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: 2 * tcpBuffer}
	receiving := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: 2 * tcpBuffer}
	for _, option := range []tcpip.SettableTransportProtocolOption{&cubic, &sack, &moderate, &sending, &receiving} {
		if err := network.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return err
		}
	}
	return nil
}

// A packet socket with virtio-net headers, for super-segments in both directions, at an address unknown to the kernel.
func packetSocket(device string) (int, error) {
	protocol := int(header.EthernetProtocolAll)<<8 | int(header.EthernetProtocolAll)>>8
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol&0xffff)
	if err != nil {
		return -1, err
	}
	name, err := unix.NewIfreq(device)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, name); err != nil {
		return -1, err
	}
	index := int(name.Uint32())
	if err := unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return -1, err
	}
	all := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(socket, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return -1, err
	}
	for _, option := range []int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, option, socketBuffer); err != nil {
			return -1, err
		}
	}
	at := unix.SockaddrLinklayer{Protocol: uint16(protocol), Ifindex: index}
	return socket, unix.Bind(socket, &at)
}

// Measures from the end of the warm-up to the end of the counted time.
type window struct {
	begin       time.Time
	from, until time.Duration
	start, end  *mark
}

type mark struct {
	at           time.Duration
	bytes        uint64
	user, system float64
}

func newWindow(plan *bulk) *window {
	from := time.Duration(plan.WarmUp * float64(time.Second))
	return &window{begin: time.Now(), from: from, until: from + time.Duration(plan.Seconds*float64(time.Second))}
}

func (w *window) now(bytes uint64) *mark {
	var usage unix.Rusage
	// The call cannot fail for the process itself.
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	seconds := func(t unix.Timeval) float64 { return float64(t.Nano()) / 1e9 }
	return &mark{time.Since(w.begin), bytes, seconds(usage.Utime), seconds(usage.Stime)}
}

func (w *window) note(bytes uint64) {
	elapsed := time.Since(w.begin)
	if w.start == nil && elapsed >= w.from {
		w.start = w.now(bytes)
	}
	if w.end == nil && elapsed >= w.until {
		w.end = w.now(bytes)
	}
}

func (w *window) measured(bytes uint64) measured {
	if w.start == nil {
		w.start = w.now(bytes)
	}
	if w.end == nil {
		w.end = w.now(bytes)
	}
	return measured{
		Bytes:        bytes,
		CountedBytes: w.end.bytes - w.start.bytes,
		Seconds:      (w.end.at - w.start.at).Seconds(),
		User:         w.end.user - w.start.user,
		System:       w.end.system - w.start.system,
		RoundTrips:   []uint64{},
		Notes:        [][]any{},
	}
}

// Connects, sends for the planned time, and waits until the peer has received all data.
func send(network *stack.Stack, plan *bulk) (measured, error) {
	to := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(plan.Peer.Addr().As4()), Port: plan.Peer.Port()}
	connection, err := gonet.DialTCP(network, to, ipv4.ProtocolNumber)
	if err != nil {
		return measured{}, err
	}
	defer connection.Close()
	bytes := make([]byte, chunk)
	for i := range bytes {
		bytes[i] = byte(i * 31)
	}
	window := newWindow(plan)
	var sent uint64
	for time.Since(window.begin) < window.until+tail {
		n, err := connection.Write(bytes)
		if err != nil {
			return measured{}, err
		}
		sent += uint64(n)
		window.note(sent)
	}
	result := window.measured(sent)
	if err := connection.CloseWrite(); err != nil {
		return measured{}, err
	}
	_, err = io.Copy(io.Discard, connection)
	return result, err
}

// Accepts a connection and receives until its end.
func receive(network *stack.Stack, address tcpip.FullAddress, plan *bulk) (measured, error) {
	address.Port = plan.Peer.Port()
	listener, err := gonet.ListenTCP(network, address, ipv4.ProtocolNumber)
	if err != nil {
		return measured{}, err
	}
	if err := begin(); err != nil {
		return measured{}, err
	}
	connection, err := listener.Accept()
	if err != nil {
		return measured{}, err
	}
	bytes := make([]byte, chunk)
	window := newWindow(plan)
	var got uint64
	for {
		n, err := connection.Read(bytes)
		got += uint64(n)
		window.note(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			return measured{}, err
		}
	}
	result := window.measured(got)
	connection.Close()
	// Time for the last packets to leave.
	time.Sleep(50 * time.Millisecond)
	return result, nil
}
