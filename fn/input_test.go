package fn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

func TestConfigOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		input  string
		want   config
		err    string
	}{
		"Absent": {reason: "no input is all defaults", want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount}},
		"Empty":  {reason: "so is an empty one", input: `{}`, want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount}},
		"Everything": {reason: "all fields are read",
			input: `{"apiVersion":"kausality.fn.crossplane.io/v1alpha1","kind":"Input","metadata":{"name":"x"},"mode":"enforce",` +
				`"settleGrace":"1m","gate":{"managementPolicies":"Managed"},"external":{"provenance":["AWSTags",` +
				`"TerraformEnv"]}}`, want: config{mode: v1alpha1.ModeEnforce, grace: time.Minute, crossplane: defaultServiceAccount,
				managed: true, gate: &v1alpha1.GateSettings{}, provenance: []v1alpha1.Provenance{v1alpha1.ProvenanceAWSTags, v1alpha1.ProvenanceTerraformEnv}}},
		"Gate": {reason: "what its gates are like",
			input: `{"gate":{"managementPolicies":"Managed","closed":["Observe","LateInitialize"],"deadline":"90m","ignorePaths":["spec.forProvider.tags[*]"]}}`,
			want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount, managed: true, gate: &v1alpha1.GateSettings{
				Closed: []v1alpha1.Verb{"Observe", "LateInitialize"}, Deadline: &metav1.Duration{Duration: 90 * time.Minute},
				IgnorePaths: []string{"spec.forProvider.tags[*]"}}}},
		"BadClosed":     {reason: "a closed gate gives no more", input: `{"gate":{"closed":["Observe","Update"]}}`, err: "gate.closed: Invalid value"},
		"BadDeadline":   {reason: "with its path", input: `{"gate":{"deadline":"soon"}}`, err: `gate.deadline: Invalid value: "soon"`},
		"ShortDeadline": {reason: "as in the schema of a policy", input: `{"gate":{"deadline":"1s"}}`, err: `gate.deadline: Invalid value: "1s"`},
		"LongDeadline":  {reason: "on both sides", input: `{"gate":{"deadline":"169h"}}`, err: `gate.deadline: Invalid value: "169h0m0s"`},
		"BadIgnore": {reason: "a path that does not parse", input: `{"gate":{"ignorePaths":["spec.forProvider.x","spec.forProvider.["]}}`,
			err: "gate.ignorePaths[1]: Invalid value"},
		"OtherIgnore": {reason: "nor one of something else", input: `{"gate":{"ignorePaths":["spec.forProviders"]}}`, err: "must be below spec.forProvider"},
		"NoGrace":     {reason: "zero is a grace period", input: `{"settleGrace":"0s"}`, want: config{mode: v1alpha1.ModeLog, crossplane: defaultServiceAccount}},
		"Webhook": {reason: "the gate is the webhook's by default", input: `{"gate":{}}`,
			want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount}},
		"BadMode":  {reason: "an unknown mode is named with its path", input: `{"mode":"strict"}`, err: `mode: Unsupported value: "strict"`},
		"ModeType": {reason: "a value of another type is named", input: `{"mode":7}`, err: "mode"},
		"BadGrace": {reason: "a duration that does not parse", input: `{"settleGrace":"soon"}`, err: `settleGrace: Invalid value: "soon"`},
		"Negative": {reason: "a negative duration", input: `{"settleGrace":"-5s"}`, err: "settleGrace: Invalid value"},
		"BadGate":  {reason: "nested fields have their path", input: `{"gate":{"managementPolicies":"Off"}}`, err: "gate.managementPolicies: Unsupported value"},
		"BadExternal": {reason: "items have their index", input: `{"external":{"provenance":["AWSTags","Azure"]}}`,
			err: `external.provenance[1]: Unsupported value: "Azure"`},
		"Session": {reason: "what the sessions of AWS identify", input: `{"external":{"aws":{"session":{"per":"Namespace"}}}}`,
			want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount, session: "Namespace"}},
		"NoSession": {reason: "nothing is configured", input: `{"external":{"aws":{}}}`,
			want: config{mode: v1alpha1.ModeLog, grace: 10 * time.Second, crossplane: defaultServiceAccount}},
		"EmptySession": {reason: "there is no default", input: `{"external":{"aws":{"session":{}}}}`, err: "external.aws.session.per: Required value"},
		"BadSession": {reason: "an unknown value is named with its path", input: `{"external":{"aws":{"session":{"per":"Team"}}}}`,
			err: `external.aws.session.per: Unsupported value: "Team"`},
		"Unknown":     {reason: "an unknown field is an error, it may be a typo", input: `{"mod":"log"}`, err: `unknown field "mod"`},
		"UnknownDeep": {reason: "with its path", input: `{"gate":{"open":true}}`, err: `unknown field "gate.open"`},
		"Kind":        {reason: "another kind's input", input: `{"kind":"Resources"}`, err: "kind: Unsupported value"},
		"Group":       {reason: "another function's input", input: `{"apiVersion":"pt.fn.crossplane.io/v1beta1"}`, err: "apiVersion: Unsupported value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var in *structpb.Struct
			if tc.input != "" {
				in = &structpb.Struct{}
				if err := in.UnmarshalJSON([]byte(tc.input)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := configOf(in)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s: want error %q, got %v", tc.reason, tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(config{})); d != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
		})
	}
}

// TestInvalidInputIsFatal covers KR-09-01.
func TestInvalidInputIsFatal(t *testing.T) {
	s := newStage(t, `{"mode":"strict"}`)
	rsp := s.fnRun(s.request(desire{"a": plain("x")}))
	if len(rsp.GetResults()) != 1 || rsp.GetResults()[0].GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
		t.Fatalf("want one fatal result, got %v", rsp.GetResults())
	}
	if m := rsp.GetResults()[0].GetMessage(); !strings.Contains(m, "mode") || strings.Contains(m, "\n") {
		t.Errorf("want the field in one line, got %q", m)
	}
}

func TestNoComposite(t *testing.T) {
	req := &fnv1.RunFunctionRequest{Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"a": {Resource: ssa.ToStruct(plain("x"))}}}}
	rsp, err := New(logging.NewNopLogger()).RunFunction(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(req.GetDesired(), rsp.GetDesired(), protocmp.Transform()); d != "" {
		t.Errorf("without a composite the desired state passes: -want +got\n%s", d)
	}
}

func (s *stage) fnRun(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	rsp, err := s.fn.RunFunction(context.Background(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return rsp
}
