package cli

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// session is what all commands share. The connection is made when a command
// first needs it: help, completion and usage errors work without a cluster.
type session struct {
	genericiooptions.IOStreams
	kube    *genericclioptions.ConfigFlags
	view    view
	version string

	// defaultMode is the flag as given; empty derives it from the cluster.
	defaultMode v1alpha1.Mode
}

// config returns the config of the connection. The client does not limit its own rate: the API
// server's priority and fairness rules do.
func (s *session) config() (*rest.Config, error) {
	config, err := s.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "kubectl-kausality/" + s.version
	config.WarningHandler = rest.NewWarningWriter(s.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// connection is what reads the cluster of the command line.
type connection struct {
	dynamic.Interface
	mapper meta.RESTMapper
	// namespace of the command line, else of the kubeconfig's context.
	namespace string
}

// connection makes no request.
func (s *session) connection() (c connection, err error) {
	config, err := s.config()
	if err != nil {
		return c, err
	}
	if c.Interface, err = dynamic.NewForConfig(config); err != nil {
		return c, fmt.Errorf("cannot create a client: %w", err)
	}
	if c.mapper, err = s.mapper(); err != nil {
		return c, err
	}
	c.namespace, err = s.namespace()
	return c, err
}

// in returns the namespace of a list: that of the command line; "" for all.
func (c connection) in(all bool) string {
	if all {
		return metav1.NamespaceAll
	}
	return c.namespace
}

// namespace returns the namespace of the command line, else of the kubeconfig's context.
func (s *session) namespace() (string, error) {
	ns, _, err := s.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	return ns, nil
}

// contextName returns that of flags, else of the kubeconfig.
func contextName(kube *genericclioptions.ConfigFlags) (string, error) {
	if kube.Context != nil && *kube.Context != "" {
		return *kube.Context, nil
	}
	raw, err := kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	return raw.CurrentContext, nil
}

// mapper returns the mapper from kinds to resources, by discovery.
func (s *session) mapper() (meta.RESTMapper, error) {
	m, err := s.kube.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("cannot discover resources: %w", err)
	}
	return m, nil
}

// inspector returns the inspector of the cluster as it is now.
func (s *session) inspector(ctx context.Context) (*inspect.Inspector, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	mapper, err := s.mapper()
	if err != nil {
		return nil, err
	}
	return inspect.New(ctx, config, inspect.Options{Mapper: mapper, DefaultMode: s.defaultMode, Now: s.view.now})
}

// user returns the user of the command. Unlike an inspector it needs no right of the user.
func (s *session) user(ctx context.Context) (subject.User, error) {
	config, err := s.config()
	if err != nil {
		return subject.User{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return subject.User{}, fmt.Errorf("cannot create a client: %w", err)
	}
	return inspect.Self(ctx, client)
}
