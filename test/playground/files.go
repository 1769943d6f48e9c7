package playground

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/installation"
)

// write the files that users of the playground need: programs in DIR/bin, a kubeconfig with a context for each user, functions for
// previews, and DIR/env, which a shell reads.
func (p *Playground) write(ctx context.Context) error {
	if err := p.link(); err != nil {
		return err
	}
	if err := p.kubeconfig(); err != nil {
		return err
	}
	if err := p.functions(ctx); err != nil {
		return err
	}
	env := fmt.Sprintf("export PATH=%q:\"$PATH\" KUBECONFIG=%q\nexport PLAYGROUND=%q CLOUD=%q\n",
		p.file("bin"), p.file("kubeconfig"), p.Dir(), p.CloudURL()) + soon
	return os.WriteFile(p.EnvFile(), []byte(env), 0o600)
}

// soon TEXT COMMAND repeats the command until it prints the text, for a minute at most, and prints what it printed last.
const soon = `soon() (
	text=$1; shift
	for n in $(seq 60); do
		out=$("$@" 2>&1)
		case $out in *"$text"*) break ;; esac
		sleep 1
	done
	printf '%s\n' "$out"
)
`

func (p *Playground) file(name string) string { return filepath.Join(p.Dir(), name) }

// EnvFile is what a shell reads to use the playground: `. FILE`.
func (p *Playground) EnvFile() string { return p.file("env") }

// link the programs by the names that users type.
func (p *Playground) link() error {
	if err := os.MkdirAll(p.file("bin"), 0o700); err != nil {
		return err
	}
	for name, part := range map[string]string{"kubectl": parts.Kubectl, "kubectl-kausality": parts.KubectlKausality, "crossplane": parts.CrossplaneCLI} {
		link := filepath.Join(p.file("bin"), name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(p.tools[part], link); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig with a context for each user, which has their name.
func (p *Playground) kubeconfig() error {
	all := clientcmdapi.NewConfig()
	for _, u := range users {
		name, groups := u.name+"@example.com", []string{u.group}
		if u.group == "" {
			name, groups = "", nil // the administrator
		}
		path, err := p.Kubeconfig(u.name, name, groups...)
		if err != nil {
			return err
		}
		one, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return err
		}
		context := one.Contexts[one.CurrentContext]
		all.Clusters[context.Cluster] = one.Clusters[context.Cluster]
		all.AuthInfos[context.AuthInfo] = one.AuthInfos[context.AuthInfo]
		all.Contexts[u.name] = context
	}
	all.CurrentContext = users[0].name
	return clientcmd.WriteToFile(*all, p.file("kubeconfig"))
}

// functions that `crossplane render` calls in previews, without TLS, and the file with their addresses.
func (p *Playground) functions(ctx context.Context) error {
	address, err := installation.FreeAddress()
	if err != nil {
		return err
	}
	cmd := exec.Command(p.Bins[parts.PatchAndTransform], "--insecure", "--address="+address)
	if _, err := p.Run(context.WithoutCancel(ctx), "patch-and-transform-for-previews", cmd); err != nil {
		return err
	}
	raw, err := story.Example("functions.yaml")
	if err != nil {
		return err
	}
	return os.WriteFile(p.file("functions.yaml"), []byte(strings.ReplaceAll(string(raw), "localhost:9444", address)), 0o600)
}
