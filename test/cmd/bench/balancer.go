package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// balancer hands connections to replicas that are ready, in turn, as a Service
// does: it probes readiness periodically, and does not close open connections.
type balancer struct {
	net.Listener
	replicas []*kausality
	ready    []atomic.Bool
	next     atomic.Int64
}

// probeEvery is how long an address that is not ready stays in a Service.
const probeEvery = 500 * time.Millisecond

func balance(ctx context.Context, replicas []*kausality) (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{Listener: l, replicas: replicas, ready: make([]atomic.Bool, len(replicas))}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go b.probe(ctx)
	go b.accept()
	return b, nil
}

func (b *balancer) probe(ctx context.Context) {
	client := &http.Client{Timeout: probeEvery}
	for pause(ctx, probeEvery) == nil {
		for i, r := range b.replicas {
			resp, err := client.Get(r.probe)
			if err == nil {
				_ = resp.Body.Close()
			}
			b.ready[i].Store(err == nil && resp.StatusCode == http.StatusOK)
		}
	}
}

func (b *balancer) accept() {
	for {
		c, err := b.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go b.connect(c)
		}
	}
}

func (b *balancer) connect(c net.Conn) {
	defer func() { _ = c.Close() }()
	address := b.turn()
	if address == "" {
		return
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		return // as a Service does whose endpoint stopped listening
	}
	defer func() { _ = to.Close() }()
	pipe(c, to)
}

// turn is the address of the next replica that is ready; "" for none.
func (b *balancer) turn() string {
	for range b.replicas {
		if i := int(b.next.Add(1)) % len(b.replicas); b.ready[i].Load() {
			return b.replicas[i].address
		}
	}
	return ""
}

// pipe both ways; an end of file of one side closes the other for writing.
func pipe(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if t, ok := way[1].(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
		})
	}
	wg.Wait()
}
