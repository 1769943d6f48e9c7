package site

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Balancer is what kube-proxy is to a Service: each new connection to the
// Service's own address goes to a replica that is ready, and stays there. It does
// not read what is sent.
type Balancer struct {
	// Address that it listens on.
	Address  string
	listener net.Listener
	next     atomic.Int64

	mu       sync.Mutex
	replicas []replica
	open     map[net.Conn]bool
}

type replica struct {
	address string
	ready   func() bool
}

func newBalancer(address string) (*Balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: l, Address: l.Addr().String(), open: map[net.Conn]bool{}}
	go b.accept()
	return b, nil
}

// serviceRange is a range of loopback addresses that no other test is likely to
// have, and where in it the port of the webhook's Service can be had: that takes
// Linux, on which all of 127.0.0.0/8 is this machine's, and the right to listen
// on port 443.
func serviceRange() (cidr string, err error) {
	var at [2]byte
	if _, err := rand.Read(at[:]); err != nil {
		return "", err
	}
	prefix := fmt.Sprintf("127.%d.%d.", 64+at[0]&63, at[1])
	l, err := net.Listen("tcp", prefix+"254:443")
	if err != nil {
		return "", err
	}
	return prefix + "0/24", l.Close()
}

// close forgets the replicas and stops listening.
func (b *Balancer) close() error {
	b.mu.Lock()
	b.replicas = nil
	b.mu.Unlock()
	return b.listener.Close()
}

func (b *Balancer) add(address string, ready func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, replica{address, ready})
}

func (b *Balancer) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		go b.serve(c)
	}
}

// serve a connection. Without a ready replica it is refused, as by an empty Service.
func (b *Balancer) serve(c net.Conn) {
	b.hold(c, true)
	defer b.hold(c, false)
	defer c.Close() //nolint:errcheck // Nothing is left to lose.
	address := b.pick()
	if address == "" {
		return
	}
	up, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return
	}
	defer up.Close() //nolint:errcheck // Nothing is left to lose.
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // either side may hang up
			done <- struct{}{}
		}()
	}
	<-done
}

func (b *Balancer) hold(c net.Conn, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.open, c); open {
		b.open[c] = true
	}
}

// Cut all connections that there are; new ones are served.
func (b *Balancer) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		_ = c.Close() // who serves it sees that
	}
}

func (b *Balancer) pick() string {
	b.mu.Lock()
	all := append([]replica(nil), b.replicas...)
	b.mu.Unlock()
	at := int(b.next.Add(1))
	for i := range all {
		if r := all[(at+i)%len(all)]; r.ready() {
			return r.address
		}
	}
	return ""
}
