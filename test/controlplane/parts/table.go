package parts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of the parts in the table.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	Kubectl               = "kubectl"
	Crossplane            = "crossplane"
	Kro                   = "kro"
	ProviderKubernetes    = "provider-kubernetes"
	ProviderKubernetes12  = "provider-kubernetes-1.2"
	ProviderHTTP          = "provider-http"
	CrossplaneCLI         = "crossplane-cli"
	GolangciLint          = "golangci-lint"
	Gotestsum             = "gotestsum"
	Tofu                  = "tofu"
	Helm                  = "helm"
	CertManager           = "cert-manager"
	PatchAndTransform     = "function-patch-and-transform"
	AutoReady             = "function-auto-ready"
)

// Names of the programs of this repository.
const (
	Kausality        = "kausality"
	KubectlKausality = "kubectl-kausality"
	TestProvider     = "test-provider"
	FakeSlack        = "fake-slack"
	Image            = "image"
	// KubeAPIServerKausality is kube-apiserver with the admission plugin, GenericControlPlane the example of a small API server with it.
	KubeAPIServerKausality = "kube-apiserver-kausality"
	GenericControlPlane    = "generic-control-plane"
)

// ArgoCD is not a program that is built: tests install its CRDs.
var ArgoCD = Part{
	Name: "argocd", Dir: "test/parts/argocd",
	Module: "github.com/argoproj/argo-cd/v3", CRDDir: "manifests/crds",
}

const (
	kubernetesLdflags = "-X k8s.io/component-base/version.gitVersion={version}" +
		" -X k8s.io/component-base/version.gitMajor={major}" +
		" -X k8s.io/component-base/version.gitMinor={minor}"
	// embeddedLdflags are those of Kubernetes for a program of this repository, which has no version.
	embeddedLdflags = "-X k8s.io/component-base/version.gitVersion=v1.35.4 -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=35"
	// helmLdflags set the Kubernetes version that charts are rendered for; Helm's own build takes it from client-go.
	helmLdflags = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=35" +
		" -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=35" +
		" -X helm.sh/helm/v3/internal/version.version={version}"
	// providerLdflags turn off the metrics of provider-kubernetes, whose port no flag changes
	// (controller-runtime v0.19.0, pkg/metrics/server: ":8080").
	providerLdflags = "-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0"
	// httpLdflags do the same for provider-http (controller-runtime v0.14.6, pkg/metrics: ":8080").
	httpLdflags = "-X sigs.k8s.io/controller-runtime/pkg/metrics.DefaultBindAddress=0"
	// kroLdflags set the version that kro writes to labels, and that is in its User-Agent.
	kroLdflags        = "-X sigs.k8s.io/release-utils/version.gitVersion={version}"
	crossplaneLdflags = "-X github.com/crossplane/crossplane/v2/internal/version.version={version}"
	// rbacLdflags turn off the metrics of the RBAC manager, whose port no flag changes, either (controller-runtime v0.23.1,
	// pkg/metrics/server: ":8080").
	rbacLdflags = " -X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0"
)

// EnvWebhookPort names the variable with the port at which provider-kubernetes serves its webhooks.
const EnvWebhookPort = "KAUSALITY_WEBHOOK_PORT"

// webhookPort lets provider-kubernetes serve its webhooks at another port than 9443, which no flag of it changes
// (controller-runtime v0.19.0, pkg/webhook: DefaultPort), so that several run on a machine.
const webhookPort = `package main

import (
	"os"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func init() {
	if port, err := strconv.Atoi(os.Getenv("` + EnvWebhookPort + `")); err == nil {
		webhook.DefaultPort = port
	}
}
`

// All returns the parts that this package can build by name, in the order in which they are best
// built. The caller may change the slice.
func All() []Part { return slices.Concat(pinned(), providers(), ours()) }

// ForMore returns the parts that make test does not need. Tests of make test-more build them where they are missing.
func ForMore() []string {
	return []string{ProviderKubernetes12, ProviderHTTP, CertManager, KubeAPIServerKausality}
}

// ours are the programs of this repository.
func ours() []Part {
	return []Part{
		{Name: Kausality, Dir: ".", Package: "./cmd/kausality"},
		{Name: KubectlKausality, Dir: ".", Package: "./cmd/kubectl-kausality"},
		{Name: TestProvider, Dir: "test/provider", Package: "./cmd/provider"},
		{Name: FakeSlack, Dir: "test", Package: "./cmd/fakeslack"},
		{Name: Image, Dir: "test/image", Package: "."},
		{Name: GenericControlPlane, Dir: "examples/generic-control-plane", Package: "."},
		{Name: KubeAPIServerKausality, Dir: "test/parts/kube-apiserver-kausality", Package: ".", Ldflags: embeddedLdflags},
	}
}

// providers of other authors.
func providers() []Part {
	return []Part{{
		Name: ProviderKubernetes, Dir: "test/parts/provider-kubernetes", Package: "github.com/crossplane-contrib/provider-kubernetes/cmd/provider",
		Module: "github.com/crossplane-contrib/provider-kubernetes", CRDDir: "package/crds", Ldflags: providerLdflags, Revision: 3, Added: webhookPort,
		Cold: 90 * time.Second,
	}, {
		Name: ProviderKubernetes12, Dir: "test/parts/provider-kubernetes-1.2", Package: "github.com/crossplane-contrib/provider-kubernetes/cmd/provider",
		Module: "github.com/crossplane-contrib/provider-kubernetes", CRDDir: "package/crds", Ldflags: providerLdflags, Revision: 2, Added: webhookPort,
		Cold: 90 * time.Second,
	}, {
		Name: ProviderHTTP, Dir: "test/parts/provider-http", Package: "github.com/crossplane-contrib/provider-http/cmd/provider",
		Module: "github.com/crossplane-contrib/provider-http", CRDDir: "package/crds", Ldflags: httpLdflags,
		Cold: 30 * time.Second,
	}}
}

// pinned are the other programs of other modules.
func pinned() []Part {
	return []Part{{
		Name: Etcd, Dir: "test/parts/etcd",
		Module: "go.etcd.io/etcd/server/v3",
		Cold:   40 * time.Second,
	}, {
		Name: KubeAPIServer, Dir: "test/parts/kubernetes", Package: "k8s.io/kubernetes/cmd/kube-apiserver",
		Module: "k8s.io/kubernetes", Ldflags: kubernetesLdflags,
		Cold: 3 * time.Minute,
	}, {
		Name: KubeControllerManager, Dir: "test/parts/kubernetes", Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
		Module: "k8s.io/kubernetes", Ldflags: kubernetesLdflags,
		Cold: time.Minute,
	}, {
		Name: Kubectl, Dir: "test/parts/kubernetes", Package: "k8s.io/kubernetes/cmd/kubectl",
		Module: "k8s.io/kubernetes", Ldflags: kubernetesLdflags,
		Cold: 40 * time.Second,
	}, {
		Name: Crossplane, Dir: "test/parts/crossplane", Package: "github.com/crossplane/crossplane/v2/cmd/crossplane",
		Module: "github.com/crossplane/crossplane/v2", Ldflags: crossplaneLdflags + rbacLdflags, CRDDir: "cluster/crds",
		Cold: 2 * time.Minute,
	}, {
		Name: Kro, Dir: "test/parts/kro", Package: "github.com/kubernetes-sigs/kro/cmd/controller",
		Module: "github.com/kubernetes-sigs/kro", Ldflags: kroLdflags, CRDDir: "helm/crds",
		Cold: time.Minute,
	}, {
		Name: CrossplaneCLI, Dir: "test/parts/crossplane-cli", Package: "github.com/crossplane/crossplane/v2/cmd/crank",
		Module: "github.com/crossplane/crossplane/v2", Ldflags: crossplaneLdflags,
		Cold: 2 * time.Minute,
	}, {
		Name: GolangciLint, Dir: "test/parts/golangci-lint", Package: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint",
		Module: "github.com/golangci/golangci-lint/v2",
		Cold:   time.Minute,
	}, {
		Name: Gotestsum, Dir: "test/parts/gotestsum", Package: "gotest.tools/gotestsum",
		Module: "gotest.tools/gotestsum",
		Cold:   10 * time.Second,
	}, {
		Name: Tofu, Dir: "test/parts/opentofu", Package: "github.com/opentofu/opentofu/cmd/tofu",
		Module: "github.com/opentofu/opentofu",
		Cold:   90 * time.Second,
	}, {
		Name: Helm, Dir: "test/parts/helm", Package: "helm.sh/helm/v3/cmd/helm",
		Module: "helm.sh/helm/v3", Ldflags: helmLdflags,
		Cold: time.Minute,
	}, {
		Name: CertManager, Dir: "test/parts/cert-manager",
		Module: "github.com/cert-manager/cert-manager", CRDDir: "deploy/crds",
		Cold: time.Minute,
	}, {
		Name: PatchAndTransform, Dir: "test/parts/function-patch-and-transform", Package: "github.com/crossplane-contrib/function-patch-and-transform",
		Module: "github.com/crossplane-contrib/function-patch-and-transform", CRDDir: "package/input",
		Cold: 90 * time.Second,
	}, {
		Name: AutoReady, Dir: "test/parts/function-auto-ready", Package: "github.com/crossplane/function-auto-ready",
		Module: "github.com/crossplane/function-auto-ready",
		Cold:   time.Minute,
	}}
}

// Lookup returns the part of that name. The error names the parts that exist.
func Lookup(name string) (Part, error) {
	known := make([]string, 0, len(All()))

	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}

		known = append(known, p.Name)
	}

	return Part{}, fmt.Errorf("cannot find part %q: there are %s", name, strings.Join(known, ", "))
}

// lookupAll returns the parts of those names.
func lookupAll(names []string) ([]Part, error) {
	ps := make([]Part, 0, len(names))

	for _, name := range names {
		p, err := Lookup(name)
		if err != nil {
			return nil, err
		}

		ps = append(ps, p)
	}

	return ps, nil
}
