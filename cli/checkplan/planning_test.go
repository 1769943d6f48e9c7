package checkplan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// TestRunPlan: what is reported of a plan: each change, within a limit, and no value (KR-08-67).
func TestRunPlan(t *testing.T) {
	action := func(address string, of ...string) external.PlanAction {
		return external.PlanAction{Address: address, Actions: of}
	}
	many := systems.Plan{}
	for i := range external.MaxPlanned + 3 {
		many.Actions = append(many.Actions, action(fmt.Sprintf("x.y[%d]", i), "update"))
	}
	for name, tc := range map[string]struct {
		reason string
		plan   systems.Plan
		want   map[string]external.Operation
		listed int
		more   int
	}{
		"Actions": {reason: "what changes something", plan: systems.Plan{Actions: []external.PlanAction{
			action("a.a", "no-op"), action("data.b.b", "read"), action("c.c", "create", "delete"), action("d.d", "forget"), action("e.e", "melt")}},
			want: map[string]external.Operation{"c.c": "replace", "d.d": "forget", "e.e": "unknown"}, listed: 3},
		"Moved": {reason: "another address is a change of the state", want: map[string]external.Operation{"a.b": "move"}, listed: 1,
			plan: systems.Plan{Actions: []external.PlanAction{{Address: "a.b", PreviousAddress: "a.a", Actions: []string{"no-op"}}}}},
		"Outputs": {reason: "outputs", plan: systems.Plan{Outputs: []string{"size"}}, want: map[string]external.Operation{"output.size": "update"}, listed: 1},
		"Many":    {reason: "no more than a status can hold", plan: many, listed: external.MaxPlanned, more: 3},
	} {
		t.Run(name, func(t *testing.T) {
			got := runPlan(tc.plan)
			require.True(t, got.Differs, tc.reason)
			require.Len(t, got.Changes, tc.listed, tc.reason)
			require.Equal(t, tc.more, got.More, tc.reason)
			if tc.want != nil {
				require.Equal(t, tc.want, got.Changes, tc.reason)
			}
		})
	}
}

// Where the variable is not true or false, nothing is run (KR-08-67).
func TestReports(t *testing.T) {
	for value, want := range map[string]string{"": "", "false": "", "0": "", "true": "reports", "perhaps": "error"} {
		r, err := Exec{Getenv: func(name string) string {
			require.Equal(t, "KAUSALITY_PLANNING", name)
			return value
		}}.reports()
		require.Equal(t, want == "error", err != nil, value)
		require.Equal(t, want == "reports", r != nil, value)
		if r != nil {
			require.NotContains(t, r.file, "checkplan", "it is not in the working directory")
		}
	}
}
