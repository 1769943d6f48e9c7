// Package workspace connects Workspaces to Terraform or OpenTofu, as provider-terraform does
// (internal/controller/namespaced/workspace/workspace.go): each reconcile makes a plan, and there is one apply for Create and
// Update. All of it is synchronous. The working directory has the state, unless the module configures a backend.
package workspace

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/workspace"
	"github.com/kausality-io/function-kausality/test/provider/terraform"
)

// Managed is a Workspace of any group and scope.
type Managed interface {
	resource.Managed

	Parameters() *workspace.Parameters
	Observation() *workspace.Observation
}

// A Connector prepares the working directories of Workspaces.
type Connector[MG Managed] struct {
	// Kube reads Secrets.
	Kube client.Reader

	// Program is the path of terraform, tofu, or what runs in their place.
	Program string

	// Dir has the working directories, by UID.
	Dir string
}

// Connect writes the configuration, and initialises it where the working directory is not what it was.
func (c *Connector[MG]) Connect(ctx context.Context, mg MG) (managed.TypedExternalClient[MG], error) {
	p := mg.Parameters()
	run := terraform.Program{Path: c.Program, Dir: filepath.Join(c.Dir, string(mg.GetUID()))}
	if err := os.MkdirAll(run.Dir, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make Terraform configuration directory")
	}
	main := "main.tf"
	if p.InlineFormat == workspace.FormatJSON {
		main = "main.tf.json"
	}
	if err := os.WriteFile(filepath.Join(run.Dir, main), []byte(p.Module), 0o600); err != nil {
		return nil, errors.Wrap(err, "cannot write Terraform configuration "+main)
	}
	var err error
	if run.Env, err = c.environment(ctx, mg); err != nil {
		return nil, errors.Wrap(err, "cannot resolve variables")
	}
	have, err := run.Checksum()
	if err != nil {
		return nil, errors.Wrap(err, "cannot calculate workspace checksum")
	}
	if have != mg.Observation().Checksum {
		if err := run.Init(ctx, p.InitArgs...); err != nil {
			return nil, errors.Wrap(err, "cannot initialize Terraform configuration")
		}
	}
	if err := run.Select(ctx, meta.GetExternalName(mg)); err != nil {
		return nil, errors.Wrap(err, "cannot select Terraform workspace")
	}
	return &external[MG]{run: run}, nil
}

// environment returns the variables of the Workspace, as NAME=VALUE.
func (c *Connector[MG]) environment(ctx context.Context, mg MG) ([]string, error) {
	var out []string
	for _, e := range mg.Parameters().Env {
		value := e.Value
		if ref := e.SecretKeyRef; ref != nil && value == "" {
			name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			if mg.GetNamespace() != "" {
				name.Namespace = mg.GetNamespace()
			}
			s := &corev1.Secret{}
			if err := c.Kube.Get(ctx, name, s); err != nil {
				return nil, err
			}
			raw, ok := s.Data[ref.Key]
			if !ok {
				return nil, errors.Errorf("couldn't find key %s in Secret %s", ref.Key, name)
			}
			value = string(raw)
		}
		out = append(out, e.Name+"="+value)
	}
	return out, nil
}

// external is a client for one reconcile of one Workspace.
type external[MG Managed] struct {
	run terraform.Program
}

// Observe makes a plan, and reports what the state has. A Workspace is available where the plan has no changes; otherwise the condition
// stays as it was.
func (e *external[MG]) Observe(ctx context.Context, mg MG) (managed.ExternalObservation, error) {
	differs, err := e.run.Differs(ctx, arguments(mg, mg.Parameters().PlanArgs)...)
	if err != nil && !meta.WasDeleted(mg) { // A plan may fail where things are destroyed in part.
		return managed.ExternalObservation{}, errors.Wrap(err, "cannot diff (i.e. plan) Terraform configuration")
	}
	resources, err := e.run.Resources(ctx)
	if err != nil {
		return managed.ExternalObservation{}, errors.Wrap(err, "cannot list Terraform resources")
	}
	if meta.WasDeleted(mg) && len(resources) == 0 {
		if err := e.run.DeleteCurrent(ctx); err != nil {
			return managed.ExternalObservation{}, errors.Wrap(err, "cannot delete Terraform workspace")
		}
	}
	outputs, err := e.observe(ctx, mg)
	if err != nil {
		return managed.ExternalObservation{}, err
	}
	if mg.Observation().Checksum, err = e.run.Checksum(); err != nil {
		return managed.ExternalObservation{}, errors.Wrap(err, "cannot calculate workspace checksum")
	}
	if !differs {
		mg.SetConditions(xpv2.Available())
	}
	return managed.ExternalObservation{
		ResourceExists:    len(resources)+len(outputs) > 0,
		ResourceUpToDate:  !differs,
		ConnectionDetails: details(outputs),
	}, nil
}

// observe reports the outputs, and returns them.
func (e *external[MG]) observe(ctx context.Context, mg MG) (map[string]terraform.Output, error) {
	outputs, err := e.run.Outputs(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list Terraform outputs")
	}
	*mg.Observation() = workspace.Observation{Outputs: map[string]extv1.JSON{}}
	for name, o := range outputs {
		if !o.Sensitive {
			mg.Observation().Outputs[name] = extv1.JSON{Raw: o.Value}
		}
	}
	return outputs, nil
}

func details(outputs map[string]terraform.Output) managed.ConnectionDetails {
	out := managed.ConnectionDetails{}
	for name, o := range outputs {
		out[name] = o.Value
	}
	return out
}

// Create applies the configuration: Terraform has one operation to create and to update.
func (e *external[MG]) Create(ctx context.Context, mg MG) (managed.ExternalCreation, error) {
	u, err := e.Update(ctx, mg)
	return managed.ExternalCreation{ConnectionDetails: u.ConnectionDetails}, err
}

// Update applies the configuration.
func (e *external[MG]) Update(ctx context.Context, mg MG) (managed.ExternalUpdate, error) {
	if err := e.run.Apply(ctx, arguments(mg, mg.Parameters().ApplyArgs)...); err != nil {
		return managed.ExternalUpdate{}, errors.Wrap(err, "cannot apply Terraform configuration")
	}
	outputs, err := e.observe(ctx, mg)
	if err != nil {
		return managed.ExternalUpdate{}, err
	}
	mg.SetConditions(xpv2.Available())
	return managed.ExternalUpdate{ConnectionDetails: details(outputs)}, nil
}

// Delete destroys what the state has.
func (e *external[MG]) Delete(ctx context.Context, mg MG) (managed.ExternalDelete, error) {
	err := e.run.Destroy(ctx, arguments(mg, mg.Parameters().DestroyArgs)...)
	return managed.ExternalDelete{}, errors.Wrap(err, "cannot destroy Terraform configuration")
}

// Disconnect does nothing.
func (e *external[MG]) Disconnect(context.Context) error { return nil }

// arguments are the variables of the configuration, and the arguments of one command.
func arguments(mg Managed, args []string) []string {
	var out []string
	for _, v := range mg.Parameters().Vars {
		out = append(out, "-var="+v.Key+"="+v.Value)
	}
	return append(out, args...)
}
