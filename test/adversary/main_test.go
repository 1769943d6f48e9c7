package adversary

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// environment is what all seeds share.
type environment struct {
	*story.Env
	// mallory's own credentials, which may impersonate.
	mallory *rest.Config
	metrics string
	ledger  *ledger
	// logs of the processes that are judged.
	logs map[string]*auditlog.Tail
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
		Dir: os.Getenv("KAUSALITY_ADVERSARY_DIR"), Out: os.Stderr, Webhook: true, Function: true, Resources: []string{"secrets"}, AuditWrites: audited,
		WebhookArgs: []string{"--approver-rbac", fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port)},
	})
	if err != nil {
		return the.Stop, err
	}
	if err := the.Apply(ctx, []byte(shared)); err != nil {
		return the.Stop, err
	}
	the.ledger = &ledger{tail: auditlog.NewTail(the.AuditLog()), versions: map[string]map[string][]written{}}
	the.logs = map[string]*auditlog.Tail{}
	for _, name := range ours {
		the.logs[name] = auditlog.NewTail(the.Process(name).Log())
	}
	if err := the.Grant(ctx, bob, rbacv1.PolicyRule{APIGroups: []string{"example.org", "cloud.example.org"}, Resources: []string{"*"},
		Verbs: []string{"*"}}); err != nil {
		return the.Stop, err
	}
	if _, err := the.EditorsRole(ctx, editorsRole); err != nil {
		return the.Stop, err
	}
	path, err := the.Kubeconfig("mallory", mallory)
	if err != nil {
		return the.Stop, err
	}
	the.mallory, err = clientcmd.BuildConfigFromFlags("", path)
	return the.Stop, err
}

// editorsRole is the role that Crossplane's RBAC manager makes for editors of XDatabases.
const editorsRole = "crossplane:composite:xdatabases.example.org:aggregate-to-edit"

// shared roles, which each seed binds in its Namespaces. hans and alice have all
// rights on these kinds.
const shared = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-editor}
rules:
- {apiGroups: [example.org], resources: [xdatabases], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
- {apiGroups: [cloud.example.org], resources: [databases], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
- {apiGroups: [kubernetes.m.crossplane.io], resources: [objects], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
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
# What Crossplane's RBAC manager gives editors of a provider's kinds.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-provider-editor}
rules:
- {apiGroups: [cloud.example.org], resources: [databases, databases/status], verbs: ["*"]}
- {apiGroups: [kubernetes.m.crossplane.io], resources: [objects, objects/status], verbs: ["*"]}
- {apiGroups: [""], resources: [secrets], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-janitor}
rules:
- {apiGroups: [kausality.io], resources: [drifts, drifts/status], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adversary-policies}
rules:
- {apiGroups: [kausality.io], resources: [approvalpolicies], verbs: [get, list, watch, create, update, patch, delete]}
`
