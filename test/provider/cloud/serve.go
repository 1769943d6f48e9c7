package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// shutdownTimeout is how long requests may go on when the cloud stops.
const shutdownTimeout = 5 * time.Second

// ListenAndServe serves the cloud until the context ends, and then lets the
// requests under way finish. It calls ready with the address it listens on,
// which has the port that was chosen for port 0.
func ListenAndServe(ctx context.Context, address string, s *Server, ready func(net.Addr)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: the port is taken; choose another --address", address)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	ready(l.Addr())
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	// The context has ended, and the requests under way have a few seconds.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		_ = srv.Close()
	}
	return nil
}
