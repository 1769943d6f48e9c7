package serving

import (
	"context"
	"crypto/tls"
	"fmt"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// ClientCA are the authorities whose clients are served, from a file that is read again when it changes
// (KR-13-11). It is a runnable of a manager.
type ClientCA struct {
	bundle *dynamiccertificates.DynamicFileCAContent
}

// NewClientCA reads a PEM file with certificates of authorities. The error names the flag.
func NewClientCA(file string) (*ClientCA, error) {
	bundle, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: cannot read certificates of authorities: %w", err)
	}
	return &ClientCA{bundle: bundle}, nil
}

// Start reads the file again when it changes, until the context ends.
func (c *ClientCA) Start(ctx context.Context) error {
	c.bundle.Run(ctx, 1)
	return nil
}

// NeedLeaderElection is false: every replica serves.
func (*ClientCA) NeedLeaderElection() bool { return false }

// config of a connection: that of the server, and the authorities of this moment.
func (c *ClientCA) config(server *tls.Config) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.bundle.VerifyOptions()
		if !ok {
			return nil, fmt.Errorf("%s has no certificates of authorities", c.bundle.Name())
		}
		out := server.Clone()
		out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, options.Roots
		return out, nil
	}
}
