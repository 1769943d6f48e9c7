package page

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// headerFor and bodyFor bound what a request takes to arrive, answerFor what its answer takes, keepFor an idle connection.
	headerFor = 5 * time.Second
	bodyFor   = 15 * time.Second
	answerFor = time.Minute
	keepFor   = 2 * time.Minute
	// maxHeader of a request in bytes.
	maxHeader = 32 << 10
	// endFor is how long requests that are being answered may take when it ends.
	endFor = 3 * time.Second
)

// ServeUntil serves requests on a listener until the context ends.
func ServeUntil(ctx context.Context, on net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerFor, ReadTimeout: bodyFor, WriteTimeout: answerFor, IdleTimeout: keepFor, MaxHeaderBytes: maxHeader,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(on) }()
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve the page: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endFor)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close()
	}
	return nil
}
