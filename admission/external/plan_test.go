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
		"NoOp":   {reason: "nothing", action: PlanAction{}, actions: []string{"no-op"}, want: OperationNone},
		"Read":   {reason: "a data source", action: PlanAction{}, actions: []string{"read"}, want: OperationRead},
		"Create": {action: PlanAction{}, actions: []string{"create"}, want: OperationCreate, verbs: verbs{create}},
		"Update": {action: PlanAction{}, actions: []string{"update"}, want: OperationUpdate, verbs: verbs{update}},
		"Delete": {action: PlanAction{}, actions: []string{"delete"}, want: OperationDelete, verbs: verbs{remove}},
		"Replace": {reason: "destroys first", action: PlanAction{}, actions: []string{"delete", "create"},
			want: OperationReplace, verbs: verbs{remove, create}},
		"ReplaceOther": {reason: "creates first", action: PlanAction{}, actions: []string{"create", "delete"},
			want: OperationReplace, verbs: verbs{remove, create}},
		"ReplaceForget": {reason: "leaves the old one behind", action: PlanAction{}, actions: []string{"create", "forget"},
			want: OperationReplace, verbs: verbs{remove, create}},
		"Forget": {reason: "leaves it behind", action: PlanAction{}, actions: []string{"forget"}, want: OperationForget,
			verbs: verbs{remove}},
		"Move": {reason: "in the state alone", action: moved, actions: []string{"no-op"}, want: OperationMove},
		"MoveUpdate": {reason: "a moved one that changes", action: moved, actions: []string{"update"}, want: OperationUpdate,
			verbs: verbs{update}},
		"NotMoved": {reason: "some versions always give the address", action: PlanAction{Address: "a.b", PreviousAddress: "a.b"},
			actions: []string{"no-op"}, want: OperationNone},
		"Import": {reason: "brings it under Terraform", action: PlanAction{Imports: true}, actions: []string{"no-op"},
			want: OperationImport, verbs: verbs{create}},
		"ImportUpdate": {reason: "and changes it", action: PlanAction{Imports: true}, actions: []string{"update"},
			want: OperationUpdate, verbs: verbs{create, update}},
		"ImportReplace": {reason: "and replaces it", action: PlanAction{Imports: true}, actions: []string{"delete", "create"},
			want: OperationReplace, verbs: verbs{remove, create}},
		"Invoke": {reason: "whatever that does", action: PlanAction{}, actions: []string{ActionInvoke}, want: OperationInvoke,
			verbs: verbs{update}},
		"Unknown": {reason: "of a later version", action: PlanAction{}, actions: []string{"teleport"}, want: OperationUnknown},
		"UnknownPair": {reason: "known words in an unknown order", action: PlanAction{}, actions: []string{"read", "delete"},
			want: OperationUnknown},
		"Nothing": {reason: "no word at all", action: PlanAction{}, want: OperationUnknown},
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

// TestCheckPlan covers KR-08-41.
func TestCheckPlan(t *testing.T) {
	orders := PlanAction{Address: "module.db.aws_db_instance.orders", Module: "module.db", Type: "aws_db_instance", Name: "orders",
		Provider: "registry.terraform.io/hashicorp/aws"}
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
		"Free":   {reason: "nothing is touched", actions: []string{"no-op"}, allowed: true},
		"Nobody": {reason: "no allowance at all", actions: []string{"update"}, missing: []v1alpha1.Verb{update}},
		"Update": {actions: []string{"update"}, permissions: []Permission{of(apply, nil)}, allowed: true,
			by: []string{hans("1")}},
		"Crossplane": {reason: "Crossplane's words are understood too", actions: []string{"update"},
			permissions: []Permission{of([]string{"Update"}, nil)}, allowed: true, by: []string{hans("1")}},
		"UpdateOnly": {reason: "Update creates nothing", actions: []string{"create"},
			permissions: []Permission{of([]string{"Update"}, nil)}, missing: []v1alpha1.Verb{create}},
		"ApplyDestroys": {reason: "apply destroys nothing", actions: []string{"delete"}, permissions: []Permission{of(apply, nil)},
			missing: []v1alpha1.Verb{remove}},
		"ReplaceHalf": {reason: "replacing takes both", actions: replace, permissions: []Permission{of(apply, nil)},
			missing: []v1alpha1.Verb{remove}},
		"ReplaceHalf2": {reason: "in either order", actions: replaceFirst, permissions: []Permission{of(destroy, nil)},
			missing: []v1alpha1.Verb{create}},
		"ReplaceTwo": {reason: "of two allowances", actions: replace, permissions: []Permission{of(apply, nil), of(destroy, nil)},
			allowed: true, by: []string{hans("2"), hans("1")}},
		"ReplaceOne": {reason: "or of one", actions: replaceFirst,
			permissions: []Permission{of([]string{"Delete", "Create"}, nil)}, allowed: true, by: []string{hans("1")}},
		"Address": {actions: []string{"update"},
			permissions: []Permission{of(apply, map[string]string{"address": "module.db.*"})}, allowed: true, by: []string{hans("1")}},
		"OtherAddress": {actions: []string{"update"}, permissions: []Permission{of(apply, map[string]string{"address": "aws_*"})},
			missing: []v1alpha1.Verb{update}},
		"RootModule": {reason: "it is in a module", actions: []string{"update"},
			permissions: []Permission{of(apply, map[string]string{"module": ""})}, missing: []v1alpha1.Verb{update}},
		"Provider": {reason: "by its full name", actions: []string{"update"},
			permissions: []Permission{of(apply, map[string]string{"provider": "registry.terraform.io/hashicorp/aws"})}, allowed: true,
			by: []string{hans("1")}},
		"ProviderShort": {reason: "or the last part", actions: []string{"update"},
			permissions: []Permission{of(apply, map[string]string{"provider": "aws", "type": "aws_db_instance"})}, allowed: true,
			by: []string{hans("1")}},
		"Second": {reason: "all allowances are tried", actions: []string{"update"},
			permissions: []Permission{of(apply, map[string]string{"name": "x"}), of(apply, map[string]string{"name": "orders"})}, allowed: true,
			by: []string{hans("2")}},
		"ArgoVerb": {reason: "sync permits to apply as well", actions: []string{"update"},
			permissions: []Permission{of([]string{"sync"}, nil)}, allowed: true, by: []string{hans("1")}},
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
		a := PlanAction{Address: rapid.SampledFrom([]string{"a.x", "b.x"}).Draw(t, "address"),
			Actions: rapid.SliceOfN(words, 1, 2).Draw(t, "actions"), Imports: rapid.Bool().Draw(t, "imports")}
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
