package external

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func TestOperation(t *testing.T) {
	type verbs = []v1alpha1.Verb
	moved := PlanAction{Address: "a.new", PreviousAddress: "a.old"}
	cases := map[string]struct {
		reason  string
		action  PlanAction
		actions []string
		want    Operation
		verbs   verbs
	}{
		"NoOp":          {"nothing", PlanAction{}, []string{"no-op"}, OperationNone, nil},
		"Read":          {"a data source", PlanAction{}, []string{"read"}, OperationRead, nil},
		"Create":        {"", PlanAction{}, []string{"create"}, OperationCreate, verbs{create}},
		"Update":        {"", PlanAction{}, []string{"update"}, OperationUpdate, verbs{update}},
		"Delete":        {"", PlanAction{}, []string{"delete"}, OperationDelete, verbs{remove}},
		"Replace":       {"destroys first", PlanAction{}, []string{"delete", "create"}, OperationReplace, verbs{remove, create}},
		"ReplaceOther":  {"creates first", PlanAction{}, []string{"create", "delete"}, OperationReplace, verbs{remove, create}},
		"ReplaceForget": {"leaves the old one behind", PlanAction{}, []string{"create", "forget"}, OperationReplace, verbs{remove, create}},
		"Forget":        {"leaves it behind", PlanAction{}, []string{"forget"}, OperationForget, verbs{remove}},
		"Move":          {"in the state alone", moved, []string{"no-op"}, OperationMove, nil},
		"MoveUpdate":    {"a moved one that changes", moved, []string{"update"}, OperationUpdate, verbs{update}},
		"NotMoved":      {"some versions always give the address", PlanAction{Address: "a.b", PreviousAddress: "a.b"}, []string{"no-op"}, OperationNone, nil},
		"Import":        {"brings it under Terraform", PlanAction{Imports: true}, []string{"no-op"}, OperationImport, verbs{create}},
		"ImportUpdate":  {"and changes it", PlanAction{Imports: true}, []string{"update"}, OperationUpdate, verbs{create, update}},
		"ImportReplace": {"and replaces it", PlanAction{Imports: true}, []string{"delete", "create"}, OperationReplace, verbs{remove, create}},
		"Invoke":        {"whatever that does", PlanAction{}, []string{ActionInvoke}, OperationInvoke, verbs{update}},
		"Unknown":       {"of a later version", PlanAction{}, []string{"teleport"}, OperationUnknown, nil},
		"UnknownPair":   {"known words in an unknown order", PlanAction{}, []string{"read", "delete"}, OperationUnknown, nil},
		"Nothing":       {"no word at all", PlanAction{}, nil, OperationUnknown, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.action.Actions = tc.actions
			op, got := tc.action.Operation()
			if op != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, op)
			}
			if diff := cmp.Diff(tc.verbs, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckPlan(t *testing.T) {
	orders := PlanAction{Address: "module.db.aws_db_instance.orders", Module: "module.db", Type: "aws_db_instance", Name: "orders", Provider: "registry.terraform.io/hashicorp/aws"}
	of := func(verbs []string, target map[string]string) Permission {
		return Permission{Verbs: verbs, Target: target, Initiator: "hans", Origin: "XDatabase/orders"}
	}
	hans := func(i string) string { return "allowance " + i + " of hans by XDatabase/orders" }
	replace, replaceFirst := []string{"delete", "create"}, []string{"create", "delete"}
	apply, destroy := []string{"apply"}, []string{"destroy"}
	cases := map[string]struct {
		reason      string
		actions     []string
		permissions []Permission
		allowed     bool
		by          []string
		missing     []v1alpha1.Verb
	}{
		"Free":          {"nothing is touched", []string{"no-op"}, nil, true, nil, nil},
		"Nobody":        {"no allowance at all", []string{"update"}, nil, false, nil, []v1alpha1.Verb{update}},
		"Update":        {"", []string{"update"}, []Permission{of(apply, nil)}, true, []string{hans("1")}, nil},
		"Crossplane":    {"Crossplane's words are understood too", []string{"update"}, []Permission{of([]string{"Update"}, nil)}, true, []string{hans("1")}, nil},
		"UpdateOnly":    {"Update creates nothing", []string{"create"}, []Permission{of([]string{"Update"}, nil)}, false, nil, []v1alpha1.Verb{create}},
		"ApplyDestroys": {"apply destroys nothing", []string{"delete"}, []Permission{of(apply, nil)}, false, nil, []v1alpha1.Verb{remove}},
		"ReplaceHalf":   {"replacing takes both", replace, []Permission{of(apply, nil)}, false, nil, []v1alpha1.Verb{remove}},
		"ReplaceHalf2":  {"in either order", replaceFirst, []Permission{of(destroy, nil)}, false, nil, []v1alpha1.Verb{create}},
		"ReplaceTwo":    {"of two allowances", replace, []Permission{of(apply, nil), of(destroy, nil)}, true, []string{hans("2"), hans("1")}, nil},
		"ReplaceOne":    {"or of one", replaceFirst, []Permission{of([]string{"Delete", "Create"}, nil)}, true, []string{hans("1")}, nil},
		"Address":       {"", []string{"update"}, []Permission{of(apply, map[string]string{"address": "module.db.*"})}, true, []string{hans("1")}, nil},
		"OtherAddress":  {"", []string{"update"}, []Permission{of(apply, map[string]string{"address": "aws_*"})}, false, nil, []v1alpha1.Verb{update}},
		"RootModule":    {"it is in a module", []string{"update"}, []Permission{of(apply, map[string]string{"module": ""})}, false, nil, []v1alpha1.Verb{update}},
		"Provider":      {"by its full name", []string{"update"}, []Permission{of(apply, map[string]string{"provider": "registry.terraform.io/hashicorp/aws"})}, true, []string{hans("1")}, nil},
		"ProviderShort": {"or the last part", []string{"update"}, []Permission{of(apply, map[string]string{"provider": "aws", "type": "aws_db_instance"})}, true, []string{hans("1")}, nil},
		"Second":        {"all allowances are tried", []string{"update"}, []Permission{of(apply, map[string]string{"name": "x"}), of(apply, map[string]string{"name": "orders"})}, true, []string{hans("2")}, nil},
		"ArgoVerb":      {"sync permits to apply as well", []string{"update"}, []Permission{of([]string{"sync"}, nil)}, true, []string{hans("1")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := orders
			a.Actions = tc.actions
			got := CheckPlan([]PlanAction{a}, tc.permissions)[0]
			if got.Allowed != tc.allowed || (got.Why == "") != tc.allowed {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			if diff := cmp.Diff(tc.by, got.By); diff != "" {
				t.Errorf("%s: by: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.missing, got.Missing); diff != "" {
				t.Errorf("%s: missing: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	everything := of([]string{"*"}, nil)
	if v := CheckPlan([]PlanAction{{Address: "a.b", Actions: []string{"teleport"}}}, []Permission{everything}); v[0].Allowed {
		t.Error("an unknown action is permitted")
	}
}

// More allowances never make an action refused; fewer never make it allowed; and
// nothing that takes a verb is allowed without allowances.
func TestCheckPlanMonotonous(t *testing.T) {
	verbs := rapid.SampledFrom([]string{"apply", "destroy", "Create", "Update", "Delete", "*", "sync", "delete", "Observe"})
	targets := rapid.SampledFrom([]map[string]string{nil, {"address": "a.*"}, {"resource": "a"}, {"resource": "b"}, {"kind": "x"}})
	words := rapid.SampledFrom([]string{"no-op", "read", "create", "update", "delete", "forget", ActionInvoke, "teleport"})
	rapid.Check(t, func(t *rapid.T) {
		a := PlanAction{Address: rapid.SampledFrom([]string{"a.x", "b.x"}).Draw(t, "address"), Actions: rapid.SliceOfN(words, 1, 2).Draw(t, "actions"), Imports: rapid.Bool().Draw(t, "imports")}
		a.Type = a.Address[:1]
		var permissions []Permission
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			permissions = append(permissions, Permission{Verbs: rapid.SliceOfN(verbs, 0, 3).Draw(t, "verbs"), Target: targets.Draw(t, "target")})
		}
		before := slices.Clone(permissions)
		all := CheckPlan([]PlanAction{a}, permissions)[0]
		fewer := CheckPlan([]PlanAction{a}, permissions[:len(permissions)/2])[0]
		none := CheckPlan([]PlanAction{a}, nil)[0]
		switch {
		case fewer.Allowed && !all.Allowed:
			t.Fatalf("more allowances refuse: %+v", all)
		case none.Allowed && len(none.Verbs) > 0, none.Operation == OperationUnknown && all.Allowed:
			t.Fatalf("allowed without allowances: %+v", none)
		case !cmp.Equal(before, permissions):
			t.Fatal("input modified")
		}
	})
}
