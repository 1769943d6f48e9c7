package adversary

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// environment is what all seeds share.
type environment struct {
	*story.Env
	// mallory's own credentials, which may impersonate.
	mallory *rest.Config
	metrics string
}

var the *environment

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, boot))
}

func boot(ctx context.Context) (stop func(), err error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	the = &environment{metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	the.Env, err = story.Start(ctx, story.Options{
		Dir: os.Getenv("KAUSALITY_ADVERSARY_DIR"), Out: os.Stderr, Webhook: true, Function: true, WithoutObjects: true,
		WebhookArgs: []string{"--approver-rbac", fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port)},
	})
	if err != nil {
		return the.Stop, err
	}
	if err := the.Apply(ctx, []byte(shared)); err != nil {
		return the.Stop, err
	}
	path, err := the.Kubeconfig("mallory", mallory)
	if err != nil {
		return the.Stop, err
	}
	the.mallory, err = clientcmd.BuildConfigFromFlags("", path)
	return the.Stop, err
}

// shared roles, which each seed binds in its Namespaces. hans and alice have all
// rights on these kinds.
const shared = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-editor}
rules:
- {apiGroups: [example.org], resources: [xdatabases], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
- {apiGroups: [cloud.example.org], resources: [databases], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
- {apiGroups: [kausality.io], resources: [drifts], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [configmaps, serviceaccounts], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-reporter}
rules:
- {apiGroups: [cloud.example.org], resources: [databases], verbs: [get, list, watch]}
- {apiGroups: [cloud.example.org], resources: [databases/status], verbs: [get, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-policies}
rules:
- {apiGroups: [kausality.io], resources: [approvalpolicies], verbs: [get, list, watch, create, update, patch, delete]}
`
