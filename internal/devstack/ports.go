package devstack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below the range of outgoing connections (32768 and up on Linux, 49152 on macOS), so that the kernel does not use one before a server
// listens on it or while the server restarts.
const (
	firstPort = 20000
	lastPort  = 29999
)

// ports are the loopback ports of one stack. Holding the UDP port with the same number reserves a port against other stacks of this machine: no
// server uses UDP, nothing is left on disk, and the kernel ends the reservation with the process.
type ports struct {
	held []net.PacketConn
}

// reserve reserves a free TCP port.
func (p *ports) reserve() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		reservation, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", loopback(port))
		if err != nil {
			reservation.Close()
			continue
		}
		probe.Close()
		p.held = append(p.held, reservation)
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d on the loopback interface", firstPort, lastPort)
}

// ReservePort reserves a free port of the loopback interface for a server outside a stack, until it is released.
func ReservePort() (port int, release func() error, err error) {
	p := &ports{}
	port, err = p.reserve()
	return port, p.release, err
}

// reserveMany reserves n free TCP ports.
func (p *ports) reserveMany(n int) ([]int, error) {
	reserved := make([]int, n)
	for i := range reserved {
		var err error
		if reserved[i], err = p.reserve(); err != nil {
			return nil, err
		}
	}
	return reserved, nil
}

func (p *ports) release() error {
	var errs []error
	for _, reservation := range p.held {
		errs = append(errs, reservation.Close())
	}
	p.held = nil
	return errors.Join(errs...)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
