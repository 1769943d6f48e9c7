package fn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// compileUpgrades of the Input. The error names the field that is wrong.
func compileUpgrades(in []input.Upgrade) (out []*allowance.Upgrade, err error) {
	var errs field.ErrorList
	for i := range in {
		at := field.NewPath("upgrades").Index(i)
		if in[i].Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		u, faults := allowance.CompileUpgrade(&v1alpha1.UpgradeAllowance{
			ObjectMeta: metav1.ObjectMeta{Name: in[i].Name}, Spec: in[i].UpgradeAllowanceSpec,
		})
		for _, f := range faults {
			errs = append(errs, field.Invalid(at.Child(strings.TrimPrefix(f.Field, "spec.")), field.OmitValueType{}, f.Message))
		}
		out = append(out, u)
	}
	return out, errs.ToAggregate()
}

// upgradesFor a request: those of the Input, and those that were fetched. A
// webhook keeps the fingerprints, and knows nothing of the Input's: where there
// is one they count for nothing, rather than again and again.
func upgradesFor(cfg config, req *fnv1.RunFunctionRequest, webhook bool) (out []*allowance.Upgrade, notes []string) {
	switch {
	case !webhook:
		out = slices.Clone(cfg.upgrades)
	case len(cfg.upgrades) > 0:
		notes = []string{"upgrades of the Input count for nothing where there is a webhook: make UpgradeAllowances of them"}
	}
	if !cfg.fetch {
		return out, notes
	}
	items, why := fetchable{requirementUpgradeCRD, requirementUpgrades, upgradeCRD}.items(req)
	if why != "" {
		return out, append(notes, "UpgradeAllowances of the cluster do not count: "+why)
	}
	for _, item := range items {
		u := &v1alpha1.UpgradeAllowance{}
		if err := into(item, u); err != nil {
			notes = append(notes, fmt.Sprintf("cannot read UpgradeAllowance %q: %v", u.Name, err))
			continue
		}
		next, faults := allowance.CompileUpgrade(u)
		for _, f := range faults {
			notes = append(notes, fmt.Sprintf("UpgradeAllowance %s counts for nothing: %v", u.Name, f))
		}
		out = append(out, next)
	}
	return out, notes
}

// requireRevisions by which an upgrade is told: that of the Composition, and
// those of all functions.
func requireRevisions(req *fnv1.RunFunctionRequest, into map[string]*fnv1.ResourceSelector) {
	xr := ssa.Unstructured(ssa.Object(req.GetObserved().GetComposite().GetResource()))
	if xr == nil {
		return
	}
	revision := parent.Sum(xr, parent.RoleComposite).CompositionRevision
	if revision == "" {
		return
	}
	into[requirementRevision] = &fnv1.ResourceSelector{
		ApiVersion: "apiextensions.crossplane.io/v1", Kind: "CompositionRevision",
		Match: &fnv1.ResourceSelector_MatchName{MatchName: revision},
	}
	into[requirementFunctions] = &fnv1.ResourceSelector{
		ApiVersion: "pkg.crossplane.io/v1", Kind: "FunctionRevision",
		Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{}},
	}
}

// fingerprint of what composes: the revision of the Composition, and the active
// revisions of the functions in its pipeline. "" where there is no revision.
func fingerprint(req *fnv1.RunFunctionRequest, revision string) string {
	if revision == "" {
		return ""
	}
	active := map[string]string{}
	items, _ := required(req, requirementFunctions)
	for _, item := range items {
		o := unstructured.Unstructured{Object: ssa.Object(item.GetResource())}
		if spec := ssa.Child(o.Object, "spec"); ssa.Text(spec, "desiredState") == "Active" {
			active[o.GetLabels()["pkg.crossplane.io/package"]] = o.GetName() + " " + ssa.Text(spec, "image")
		}
	}
	parts := []string{"composition " + revision}
	composition, _ := required(req, requirementRevision)
	for _, item := range composition {
		steps, _ := ssa.Child(ssa.Object(item.GetResource()), "spec")["pipeline"].([]any)
		for _, s := range steps {
			step, _ := s.(map[string]any)
			name := ssa.Text(ssa.Child(step, "functionRef"), "name")
			parts = append(parts, "function "+name+" "+active[name])
		}
	}
	slices.Sort(parts)
	return allowance.Fingerprint(slices.Compact(parts))
}

// unknownBuild is none that any resource was changed by.
const unknownBuild = "unknown"

// Build by which an upgrade is told. A webhook's fingerprint has more in it than
// can be seen from here: where there is one, it decides whether this is a new
// build, and the function only whether the change is part of the upgrade.
func (w *world) Build(context.Context, *admission.Request, *parent.State) (allowance.Build, error) {
	if w.composite.webhook {
		return allowance.Build{Fingerprint: unknownBuild}, nil
	}
	return allowance.Build{Fingerprint: w.fingerprint}, nil
}
