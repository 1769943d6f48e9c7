// Command generic-control-plane is an API server with two kinds of its own, etcd and Kausality within, and a controller that drifts. It plays a
// short story and ends, or goes on with --keep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/package/crds"
)

func main() {
	o := options{}
	flag.BoolVar(&o.keep, "keep", false, "go on after the story, until an interrupt")
	flag.StringVar(&o.dir, "dir", "", "directory for data, log and kubeconfig (default: a temporary one, which is removed in the end)")
	flag.StringVar(&o.clusters, "clusters", rootCluster, "logical clusters to play the story in, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "generic-control-plane:", err)
		os.Exit(1)
	}
}

// options of the program.
type options struct {
	dir, clusters string
	keep          bool
}

// run the server, and the story on it.
func run(ctx context.Context, o options, out io.Writer) error {
	if o.dir == "" {
		made, err := os.MkdirTemp("", "generic-control-plane-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made) //nolint:errcheck // The system removes temporary files, too.
		o.dir = made
	}
	return with(ctx, o.dir, func(ctx context.Context, s *server) error {
		for cluster := range strings.SplitSeq(o.clusters, ",") {
			fmt.Fprintf(out, "cluster %s\n", cluster)
			t, err := newStory(s, cluster, out)
			if err != nil {
				return err
			}
			if err := t.play(ctx); err != nil {
				return err
			}
			fmt.Fprintln(out)
		}
		if o.keep {
			fmt.Fprintf(out, "export KUBECONFIG=%s # until an interrupt\n", filepath.Join(o.dir, kubeconfig))
			<-ctx.Done()
		}
		return nil
	})
}

// kubeconfig of hans, in the directory.
const kubeconfig = "kubeconfig"

// with a server that runs, and serves the kinds of Kausality.
func with(ctx context.Context, dir string, f func(context.Context, *server) error) error {
	log, err := os.Create(filepath.Join(dir, "log")) //nolint:gosec // The user names the directory.
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // Lines of a log may be lost.
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log))))
	ctrl.SetLogger(klog.Background())
	s, err := newServer(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx); stop() }()
	err = s.prepare(ctx, dir)
	if err == nil {
		err = f(ctx, s)
	}
	stop()
	return errors.Join(err, <-ended)
}

// prepare the server: the CRDs of Kausality, and a kubeconfig.
func (s *server) prepare(ctx context.Context, dir string) error {
	if err := writeKubeconfig(filepath.Join(dir, kubeconfig), s.as("hans", rootCluster)); err != nil {
		return err
	}
	admin, err := client.New(s.loopback, client.Options{})
	if err != nil {
		return err
	}
	names, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		raw, err := crds.FS.ReadFile(name)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var last error
		err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			last = client.IgnoreAlreadyExists(admin.Create(ctx, crd))
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("cannot create CRD %s: %w: %w", crd.GetName(), err, last)
		}
	}
	return nil
}

// writeKubeconfig of a user.
func writeKubeconfig(path string, c *rest.Config) error {
	const name = "example"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData, TLSServerName: c.ServerName}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return clientcmd.WriteToFile(*k, path)
}
