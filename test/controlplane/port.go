package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that Linux gives to outgoing connections (32768 and up):
// else any connection may take one between FreePort and its use.
const (
	firstPort = 20000
	lastPort  = 31999
	portTries = 1000
)

// ports that FreePort has returned, so that none is returned twice by one process.
var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// FreePort returns a TCP port that no process listens on, on any interface. Another process can still
// be quicker to use it, though not another caller in this one.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()

	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if ports.given[port] || !free(port) {
			continue
		}

		ports.given[port] = true

		return port, nil
	}

	return 0, fmt.Errorf("cannot find a free port between %d and %d", firstPort, lastPort)
}

// free reports whether a server could listen on the port, on loopback as well as on all interfaces.
func free(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}

		_ = l.Close()
	}

	return true
}

// freePorts returns n free ports.
func freePorts(n int) ([]int, error) {
	got := make([]int, 0, n)

	for range n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}

		got = append(got, port)
	}

	return got, nil
}
