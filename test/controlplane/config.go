package controlplane

import (
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config returns a configuration for a client that may do everything, without a rate limit. Its user
// is kubernetes-admin of the group system:masters.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// ConfigAs returns a configuration for a client that is the user, by impersonation, whom admission
// then sees as userInfo. The API server adds the group system:authenticated. What the user may do is
// for RBAC to decide (Grant).
func (c *ControlPlane) ConfigAs(user string, groups ...string) *rest.Config {
	cfg := c.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}

	return cfg
}

// ConfigAsMaster is ConfigAs for a user who may do everything. Where a request names no field manager
// it is the last part of the user's name, as it would be the program's. Warnings are not shown.
func (c *ControlPlane) ConfigAsMaster(user string) *rest.Config {
	cfg := c.ConfigAs(user, groupMasters)
	cfg.UserAgent = user[strings.LastIndex(user, ":")+1:]
	cfg.WarningHandler = rest.NoWarnings{}

	return cfg
}

// quiet is Config without warnings on stderr.
func (c *ControlPlane) quiet() *rest.Config {
	cfg := c.Config()
	cfg.WarningHandler = rest.NoWarnings{}

	return cfg
}

// Kubeconfig writes a kubeconfig with a client certificate of the user, for developers and kubectl, and
// returns its path, DIR/kubeconfigs/NAME. An empty user is the admin of Config. Unlike ConfigAs
// nothing is impersonated.
func (c *ControlPlane) Kubeconfig(name, user string, groups ...string) (path string, err error) {
	if user == "" {
		return c.writeKubeconfig(name, tokenAuth(c.tokens[userAdmin]))
	}

	cert, key, err := c.cluster.issue(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return "", err
	}

	return c.writeKubeconfig(name, &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// writeKubeconfig writes a kubeconfig for the API server to DIR/kubeconfigs/NAME.
func (c *ControlPlane) writeKubeconfig(name string, user *clientcmdapi.AuthInfo) (path string, err error) {
	const entry = "kausality"

	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[entry] = &clientcmdapi.Cluster{Server: c.admin.Host, CertificateAuthorityData: c.cluster.Bundle()}
	cfg.AuthInfos[name] = user
	cfg.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: name}
	cfg.CurrentContext = entry

	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return "", fmt.Errorf("cannot encode the kubeconfig %s: %w", name, err)
	}

	return c.writeFile(data, dirKubeconfigs, filepath.Base(name))
}

func tokenAuth(token string) *clientcmdapi.AuthInfo { return &clientcmdapi.AuthInfo{Token: token} }

func nameOf(commonName string) pkix.Name { return pkix.Name{CommonName: commonName} }
