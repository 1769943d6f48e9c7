package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// cloudCommand serves the cloud.
func cloudCommand(stdout io.Writer) command {
	var address string
	var logSize int
	return command{
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&address, "address", "127.0.0.1:9000", "address to listen on; port 0 takes a free one, which is printed")
			fs.IntVar(&logSize, "log-size", cloud.DefaultLogSize, "how many requests the log keeps")
		},
		check: func() error {
			if logSize < 1 {
				return errors.New("--log-size must be at least 1")
			}
			return nil
		},
		run: func(ctx context.Context) error {
			return cloud.ListenAndServe(ctx, address, cloud.NewServer(cloud.WithLogSize(logSize)), func(a net.Addr) {
				printf(stdout, "cloud listening on http://%s\n", a)
			})
		},
	}
}
