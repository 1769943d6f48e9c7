package systems

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/external"
)

// changes that the configuration in testdata/config/after plans over the one in
// testdata/config/before.
var changes = map[string]external.Operation{
	"data.terraform_remote_state.other":  external.OperationRead,
	"terraform_data.adopted":             external.OperationImport,
	"terraform_data.gone":                external.OperationDelete,
	"terraform_data.grow":                external.OperationUpdate,
	"terraform_data.keep":                external.OperationNone,
	"terraform_data.left":                external.OperationForget,
	"terraform_data.new_name":            external.OperationMove,
	"terraform_data.swap":                external.OperationReplace,
	"terraform_data.swap_first":          external.OperationReplace,
	`module.m["a"].terraform_data.inner`: external.OperationCreate,
	`module.m["b"].terraform_data.inner`: external.OperationCreate,
}

func operations(p Plan) map[string]external.Operation {
	out := map[string]external.Operation{}
	for _, a := range p.Actions {
		op, _ := a.Operation()
		address := a.Address
		if a.Deposed != "" {
			address += " " + a.Deposed
		}
		out[address] = op
	}
	return out
}

func recorded(t *testing.T, name string) Plan {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "plans", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPlan(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadPlan(t *testing.T) {
	all := func(op external.Operation) map[string]external.Operation {
		out := map[string]external.Operation{}
		for _, name := range []string{"gone", "grow", "keep", "left", "old_name", "swap", "swap_first"} {
			out["terraform_data."+name] = op
		}
		return out
	}
	destroyed := all(external.OperationDelete)
	delete(destroyed, "terraform_data.old_name")
	destroyed["terraform_data.new_name"] = external.OperationDelete
	cases := map[string]struct {
		want                       map[string]external.Operation
		outputs, drifted, deferred []string
	}{
		"create":  {want: all(external.OperationCreate), outputs: []string{"size"}},
		"noop":    {want: all(external.OperationNone)},
		"changes": {want: changes, outputs: []string{"size"}},
		"destroy": {want: destroyed, outputs: []string{"size"}},
		"aws": {want: map[string]external.Operation{
			"module.db.aws_db_instance.orders": external.OperationUpdate, "aws_s3_bucket.logs": external.OperationNone,
			"aws_instance.web[0]": external.OperationReplace, "aws_instance.web[0] 8f2c1e0a": external.OperationDelete,
			"aws_db_parameter_group.pg": external.OperationUpdate, "aws_route53_record.www": external.OperationUpdate,
			"aws_sqs_queue.jobs": external.OperationUnknown, "module.db.action.aws_lambda_invoke.warm": external.OperationInvoke,
		}, outputs: []string{"endpoint"}, drifted: []string{"aws_s3_bucket.logs", "module.db.aws_db_instance.orders"},
			deferred: []string{"aws_subnet.more"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := recorded(t, name)
			if diff := cmp.Diff(tc.want, operations(p)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if diff := cmp.Diff([][]string{tc.outputs, tc.drifted, tc.deferred}, [][]string{p.Outputs, p.Drifted, p.Deferred}); diff != "" {
				t.Errorf("outputs, drifted, deferred: -want, +got:\n%s", diff)
			}
		})
	}
}

// What a plan shows about an action beyond what it is.
func TestReadPlanDetails(t *testing.T) {
	by := map[string]external.PlanAction{}
	for _, p := range []Plan{recorded(t, "aws"), recorded(t, "changes")} {
		for _, a := range p.Actions {
			by[a.Address+a.Deposed] = a
		}
	}
	want := []external.PlanAction{
		{Address: "module.db.aws_db_instance.orders", Mode: "managed", Type: "aws_db_instance", Name: "orders", Module: "module.db",
			Provider: "registry.terraform.io/hashicorp/aws", Actions: []string{"update"}, Reverts: true},
		{Address: "aws_s3_bucket.logs", Mode: "managed", Type: "aws_s3_bucket", Name: "logs",
			Provider: "registry.terraform.io/hashicorp/aws", Actions: []string{"no-op"}},
		{Address: "aws_db_parameter_group.pg", Mode: "managed", Type: "aws_db_parameter_group", Name: "pg",
			Provider: "registry.terraform.io/hashicorp/aws", Actions: []string{"update"}, Imports: true, ImportID: "pg-orders"},
		{Address: "aws_route53_record.www", PreviousAddress: "aws_route53_record.web", Mode: "managed", Type: "aws_route53_record", Name: "www",
			Provider: "registry.terraform.io/hashicorp/aws", Actions: []string{"update"}},
		{Address: "module.db.action.aws_lambda_invoke.warm", Mode: "action", Type: "aws_lambda_invoke", Name: "warm", Module: "module.db",
			Provider: "registry.terraform.io/hashicorp/aws", Actions: []string{"invoke"}},
		{Address: "terraform_data.swap", Mode: "managed", Type: "terraform_data", Name: "swap", Provider: "terraform.io/builtin/terraform",
			Actions: []string{"delete", "create"}, Because: "replace_because_cannot_update"},
	}
	for _, w := range want {
		if diff := cmp.Diff(w, by[w.Address]); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	}
}

func TestReadPlanRefuses(t *testing.T) {
	state, err := os.ReadFile("testdata/plans/state.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ reason, in, want string }{
		"Empty":   {reason: "nothing", want: "cannot read the plan"},
		"Garbage": {reason: "no JSON", in: "Terraform will perform", want: "give the output of terraform show -json"},
		"State":   {reason: "a state has no actions", in: string(state), want: "not for a state"},
		"Future": {reason: "a format that does not exist yet", in: `{"format_version":"2.0","planned_values":{}}`,
			want: "unsupported plan format version"},
		"Unversion": {reason: "no format", in: `{"planned_values":{}}`, want: "format version is missing"},
		"Errored": {reason: "what failed is incomplete", in: `{"format_version":"1.2","planned_values":{},"errored":true}`,
			want: "planning failed"},
		"NoActions": {reason: "an action without a word",
			in: `{"format_version":"1.2","resource_changes":[{"address":"a.b","change":{"actions":[]}}]}`, want: "no actions"},
		"NoAddress": {reason: "an action on nothing",
			in: `{"format_version":"1.2","resource_changes":[{"change":{"actions":["create"]}}]}`, want: "no address"},
		"NoChange": {reason: "an address alone", in: `{"format_version":"1.2","resource_changes":[{"address":"a.b"}]}`,
			want: "no actions"},
		"Null": {reason: "a null in the list", in: `{"format_version":"1.2","resource_changes":[null]}`,
			want: "cannot read the plan"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadPlan([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want an error with %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

func FuzzReadPlan(f *testing.F) {
	files, err := filepath.Glob("testdata/plans/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ReadPlan(raw)
		if err != nil {
			return
		}
		for _, v := range external.CheckPlan(p.Actions, nil) {
			if v.Allowed && len(v.Verbs) > 0 {
				t.Errorf("allowed by no allowance: %+v", v)
			}
		}
	})
}

// The real Terraform, where there is one, plans what was recorded. OpenTofu is
// tried where KAUSALITY_TOFU names its program.
func TestRealTerraform(t *testing.T) {
	for name, program := range map[string]string{"terraform": "terraform", "tofu": os.Getenv("KAUSALITY_TOFU")} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if errors.Is(err, exec.ErrNotFound) || program == "" {
				t.Skip("there is no terraform; the recorded plans are checked")
			}
			tf := terraform{t: t, path: path, dir: t.TempDir()}
			before := tf.plan("before")
			tf.run("apply", "-input=false", "tfplan")
			after := tf.plan("after")
			for address, op := range operations(before) {
				if op != external.OperationCreate {
					t.Errorf("before: %s is %s", address, op)
				}
			}
			if diff := cmp.Diff(changes, operations(after)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if diff := cmp.Diff([]string{"size"}, after.Outputs); diff != "" {
				t.Errorf("outputs: -want, +got:\n%s", diff)
			}
		})
	}
}

type terraform struct {
	t         *testing.T
	path, dir string
}

// plan a configuration of testdata/config.
func (tf terraform) plan(config string) Plan {
	tf.t.Helper()
	if err := os.RemoveAll(filepath.Join(tf.dir, "main.tf")); err != nil {
		tf.t.Fatal(err)
	}
	if err := os.CopyFS(tf.dir, os.DirFS(filepath.Join("testdata", "config", config))); err != nil {
		tf.t.Fatal(err)
	}
	tf.run("init", "-input=false")
	tf.run("plan", "-input=false", "-out=tfplan")
	p, err := ReadPlan(tf.run("show", "-json", "tfplan"))
	if err != nil {
		tf.t.Fatal(err)
	}
	return p
}

func (tf terraform) run(args ...string) []byte {
	tf.t.Helper()
	cmd := exec.CommandContext(tf.t.Context(), tf.path, args...)
	cmd.Dir = tf.dir
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tf.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out
}
