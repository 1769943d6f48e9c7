package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below the range that Linux gives to outgoing connections (32768 and up):
// else any connection may take one between FreePort and its use.
const (
	firstPort = 20000
	lastPort  = 31999
	portTries = 1000
)

// ports are those that this process leases. The directory does not change where a test sets TMPDIR.
var ports = newLessor(filepath.Join(os.TempDir(), fmt.Sprintf("kausality-ports-%d", os.Getuid())))

// FreePort returns a TCP port that no process listens on, on any interface, and leases it to this
// process until it ends: no other call returns it, in this process or in another one of the same user
// with the same TMPDIR, be it of another clone. A program that does not lease its ports can still be
// quicker to use it.
func FreePort() (int, error) { return ports.lease() }

// A lessor leases ports. A lease is a lock on a file of a directory that all processes share, one file
// for each port. The system releases it when the process ends, however it ends. Child processes do not
// inherit it. The files stay: removing one would let two processes hold "the" lock.
type lessor struct {
	dir         string
	first, last int

	mu     sync.Mutex
	leases map[int]*os.File // referenced, because a file that is garbage collected is closed
}

func newLessor(dir string) *lessor {
	return &lessor{dir: dir, first: firstPort, last: lastPort, leases: map[int]*os.File{}}
}

// lease returns a free port that it has leased.
func (l *lessor) lease() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return 0, fmt.Errorf("cannot lease a port: %w", err)
	}

	for range portTries {
		port := l.first + rand.IntN(l.last-l.first+1)

		leased, err := l.take(port)
		if err != nil {
			return 0, fmt.Errorf("cannot lease a port: %w", err)
		}

		if leased {
			return port, nil
		}
	}

	return 0, fmt.Errorf("cannot lease a port: none of %d tried between %d and %d is free", portTries, l.first, l.last)
}

// take leases the port, and reports false if it is leased or in use. The lease comes first, so that
// no other process listens on the port only to find out whether it is free.
func (l *lessor) take(port int) (bool, error) {
	if l.leases[port] != nil {
		return false, nil
	}

	f, err := os.OpenFile(filepath.Join(l.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}

	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && free(port) {
		l.leases[port] = f
		return true, nil
	}

	_ = f.Close()

	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}

	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
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
