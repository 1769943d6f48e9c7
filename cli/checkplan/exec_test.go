package checkplan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: which plan is made, and how it is applied (KR-08-63). The program itself runs in test/terraform.
func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, line string
		plan, apply  string
		fails        string
	}{
		"Apply": {reason: "as provider-terraform runs it", line: "terraform apply -no-color -auto-approve -input=false -lock=false -var size=2 -var-file=a.tfvars",
			plan: "-no-color -input=false -lock=false -var=size=2 -var-file=a.tfvars", apply: "-no-color -input=false -lock=false"},
		"Destroy": {reason: "a plan to destroy", line: "tofu -chdir=infra destroy -auto-approve -target x.y -json -parallelism=3",
			plan: "-target=x.y -parallelism=3 -destroy", apply: "-json -parallelism=3"},
		"ApplyDestroy": {reason: "the other form", line: "tofu apply -destroy -auto-approve", plan: "-destroy"},
		"Plan":         {reason: "a plan that was made", line: "tofu apply -lock-timeout 3s tfplan", plan: "-lock-timeout=3s", apply: "-lock-timeout=3s"},
		"State": {reason: "what is read, and where it is written", line: "tofu apply --auto-approve -state=a -state-out=b -backup=-", plan: "-state=a",
			apply: "-state=a -state-out=b -backup=-"},
		"NoValue":     {reason: "nothing follows", line: "tofu apply -auto-approve -var", fails: "-var has no value"},
		"TwoPlans":    {reason: "which?", line: "tofu apply a b", fails: "there are two files of plans: a and b"},
		"DestroyPlan": {reason: "it would be applied, whatever it is", line: "tofu destroy a", fails: "destroy has no file of a plan"},
		"Nothing":     {reason: "which program?", fails: "name the program"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(strings.Fields(tc.line))
			if err != nil || tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) || tc.fails == "" {
					t.Errorf("%s: error %v", tc.reason, err)
				}
				return
			}
			if !c.applies() {
				t.Errorf("%s: it is not checked", tc.reason)
			}
			if d := cmp.Diff([]string{tc.plan, tc.apply}, []string{strings.Join(c.forPlan(), " "), strings.Join(c.forApply(), " ")}); d != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, d)
			}
		})
	}
	for _, line := range []string{"tofu", "tofu -version", "tofu plan -destroy", "tofu -chdir=apply init", "tofu import a b"} {
		if c, err := parse(strings.Fields(line)); err != nil || c.applies() {
			t.Errorf("%s is checked, or fails: %v", line, err)
		}
	}
}
