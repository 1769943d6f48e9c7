package story

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
)

// instance is a legacy Claim and its cluster-scoped composite, with a managed
// resource as before Crossplane v2, cluster-scoped too.
var instance = Definition{
	Group: "example.com", Version: "v1alpha1", Kind: "XDatabase", Plural: "xdatabases", ClaimKind: "DatabaseClaim", ClaimPlural: "databaseclaims",
	Spec: "{size: {type: string, enum: [small, large]}, engine: {type: string}}",
}

// DatabaseClaims, their composites, and what these are composed of.
var (
	DatabaseClaims = instance.Claims()
	XDatabasesV1   = instance.Resource()
	RDSInstances   = schema.GroupVersionResource{Group: "rds.aws.crossplane.io", Version: "v1alpha1", Resource: "rdsinstances"}
)

const claimName = "my-database"

const instanceResources = `
      - name: instance
        base: {apiVersion: rds.aws.crossplane.io/v1alpha1, kind: RDSInstance}
        patches:
        - type: FromCompositeFieldPath
          fromFieldPath: spec.size
          toFieldPath: spec.forProvider.instanceClass
          transforms: [{type: map, map: {small: db.t3.medium, large: db.t3.large}}]
        - {type: FromCompositeFieldPath, fromFieldPath: spec.engine, toFieldPath: spec.forProvider.engine}
`

// form in which the policies about a DatabaseClaim are written.
type form struct {
	name, policies string
	// claim is what the Claim's entry permits for its size, instance what the
	// composite's does, and outside the External one, in YAML.
	claim, instance, outside string
	// deletes: the policies allow the deletion of what is outside.
	deletes bool
}

//go:embed policies/shorthand.yaml
var shorthand string

//go:embed policies/full.yaml
var full string

var forms = []form{
	{
		name: "the shorthand", policies: shorthand,
		claim:    `{kind: XDatabase, relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: spec.size}, {jsonPath: spec.engine}]`,
		instance: `{kind: RDSInstance, relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: spec.forProvider.instanceClass}]`,
		outside:  `{relation: External, verbs: [Update]`,
	}, {
		name: "the full form", policies: full, deletes: true,
		claim: `{apiVersion: example.com/v1alpha1, kind: XDatabase, relation: ControllerChild, verbs: [Update], ` +
			`mutations: [{jsonPath: spec.size, verbs: [Mutate]}]`,
		instance: `{apiVersion: rds.aws.crossplane.io/v1alpha1, kind: RDSInstance, relation: ControllerChild, verbs: [Update], ` +
			`mutations: [{jsonPath: spec.forProvider.instanceClass, verbs: [Mutate]}]`,
		outside: `{relation: External, verbs: [Update], externalTarget: {provider: provider-aws, kind: RDSInstance}`,
	},
}

// chapters about a DatabaseClaim under the policies of a form.
func (f form) chapters() []Chapter {
	return []Chapter{
		{"DatabaseClaims, with policies in " + f.name, f.offered},
		{"hans claims a database: creating it takes no allowance", f.claimed},
		{"He makes it larger: the allowances go down with the change, to the cloud", f.resized},
		{"He wants another engine: that stops between the XDatabase and the RDSInstance", f.stopped},
		{"With allow-recreate the RDSInstance may be deleted, and created again", f.recreated},
		{"Deleting the claim", f.gone},
	}
}

func (f form) offered(ctx context.Context, e *Env, t *Teller) error {
	if err := e.Apply(ctx, instance.XRD()); err != nil {
		return err
	}
	if err := until(ctx, "kind DatabaseClaim to be offered", func(ctx context.Context) error {
		return errors.Join(e.established(ctx, "databaseclaims.example.com"), e.established(ctx, "xdatabases.example.com"))
	}); err != nil {
		return err
	}
	if err := e.Apply(ctx, instance.Composition("xdatabases.example.com", instanceResources)); err != nil {
		return err
	}
	policies := e.admin.Resource(v1alpha1.GroupVersion.WithResource("allowancepolicies"))
	if err := policies.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	if err := e.Apply(ctx, []byte(f.policies)); err != nil {
		return err
	}
	objects, err := controlplane.Decode([]byte(f.policies))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := e.inForce(ctx, "allowancepolicies", o.GetName()); err != nil {
			return err
		}
	}
	t.Right("%d policies are in force", len(objects))
	return nil
}

// levels of the hierarchy: its objects at some time.
type levels struct{ claim, xr, mr *unstructured.Unstructured }

func (e *Env) levels(ctx context.Context) (l levels, err error) {
	if l.claim, err = e.admin.Resource(DatabaseClaims).Namespace(namespace).Get(ctx, claimName, metav1.GetOptions{}); err != nil {
		return l, err
	}
	if l.xr, err = e.onlyCluster(ctx, XDatabasesV1); err != nil {
		return l, err
	}
	l.mr, err = e.onlyCluster(ctx, RDSInstances)
	return l, err
}

func (e *Env) onlyCluster(ctx context.Context, r schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	list, err := e.admin.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%d %s: %w", len(list.Items), r.Resource, errNone)
	}
	return &list.Items[0], nil
}

// instanceSettled: Claim and XR have settled, the gate is closed, and the cloud has what
// is requested.
func (e *Env) instanceSettled(ctx context.Context, class, engine string) (l levels, err error) {
	return l, until(ctx, fmt.Sprintf("a settled instance %s, %s", class, engine), func(ctx context.Context) error {
		if l, err = e.levels(ctx); err != nil {
			return err
		}
		if err := e.outside(ctx, l.mr.GetName(), class, engine); err != nil {
			return err
		}
		for _, o := range []*unstructured.Unstructured{l.xr, l.claim} {
			hops, err := Trace(o)
			if err != nil {
				return err
			}
			want := fmt.Sprint(hops[len(hops)-1].Generation)
			if have := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != want {
				return fmt.Errorf("%s settled at %q, the intent is %s", o.GetKind(), have, want)
			}
		}
		return closed(l.mr)
	})
}

func (e *Env) outside(ctx context.Context, name, class, engine string) error {
	i, err := e.Cloud.Instances().Get(ctx, name)
	if err == nil && (i.InstanceClass != class || i.Engine != engine) {
		err = fmt.Errorf("in the cloud it is %s, %s", i.InstanceClass, i.Engine)
	}
	return err
}

func (f form) claimed(ctx context.Context, e *Env, t *Teller) error {
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1alpha1", "kind": "DatabaseClaim",
		"metadata": map[string]any{"name": claimName, "annotations": map[string]any{"jira": "DB-1"}},
		"spec":     map[string]any{"size": "small", "engine": "postgres"},
	}}
	t.Types(Hans, "kubectl apply -f claim.yaml   # size: small, engine: postgres, with the annotation jira: DB-1")
	if _, err := c.Resource(DatabaseClaims).Namespace(namespace).Create(ctx, o, createOptions); err != nil {
		return err
	}
	l, err := e.instanceSettled(ctx, "db.t3.medium", "postgres")
	if err != nil {
		return err
	}
	if err := l.carryNothing(); err != nil {
		return err
	}
	t.Right("it exists, down to the cloud, and is settled; nothing carries an allowance")
	return nil
}

func (l levels) carryNothing() error {
	for _, o := range []*unstructured.Unstructured{l.claim, l.xr, l.mr} {
		if have := o.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; have != "" {
			return fmt.Errorf("%s %s carries %s", o.GetKind(), o.GetName(), have)
		}
	}
	return nil
}

// request something of the claim, in one write.
func (e *Env) ask(ctx context.Context, t *Teller, annotations, spec map[string]any) error {
	patch := map[string]any{"spec": spec}
	if annotations != nil {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	t.Types(Hans, fmt.Sprintf("kubectl patch databaseclaim %s --type=merge -p '%s'", claimName, raw))
	return e.Patch(ctx, Hans, DatabaseClaims, claimName, patch)
}

func (f form) gone(ctx context.Context, e *Env, t *Teller) error {
	l, err := e.levels(ctx)
	if err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete databaseclaim "+claimName)
	err = e.Delete(ctx, Hans, DatabaseClaims, claimName)
	switch {
	case f.deletes && err != nil && !strings.Contains(err.Error(), "the gate is being opened for it"):
		return fmt.Errorf("the first deletion is answered: %w", err)
	case f.deletes:
		t.Right("the policies allow it: the gate opens, and no approval is needed")
	default:
		command, err := e.deletionRefused(ctx, t, func() error { return err })
		if err != nil {
			return err
		}
		if err := e.follow(ctx, t, Alice, command); err != nil {
			return err
		}
	}
	t.Types(Hans, "kubectl delete databaseclaim "+claimName+"   # again")
	if err := e.deletionPasses(ctx, DatabaseClaims, claimName); err != nil {
		return err
	}
	if err := until(ctx, "the claim and all below it to be gone", e.nothingLeft); err != nil {
		return err
	}
	if err := noneLeft(ctx, e.Cloud.Instances()); err != nil {
		return err
	}
	t.Right("the claim is gone, and so are %s, %s and the instance in the cloud", l.xr.GetName(), l.mr.GetName())
	return nil
}

func (e *Env) nothingLeft(ctx context.Context) error {
	for _, r := range []schema.GroupVersionResource{DatabaseClaims, XDatabasesV1, RDSInstances} {
		list, err := e.admin.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%s %s exists", list.Items[0].GetKind(), list.Items[0].GetName())
		}
	}
	return nil
}
