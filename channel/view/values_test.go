package view

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// texts of the cells of a difference, by row.
func texts(d Difference) (out [][]string) {
	for _, r := range d.Rows {
		var row []string
		for _, c := range r.Cells {
			text := ""
			switch {
			case c.None:
				text = "no value"
			case c.Secret:
				text = "secret"
			case c.Unknown:
				text = "not known"
			default:
				for _, l := range c.Lines {
					text += l.Text
				}
			}
			row = append(row, text)
		}
		out = append(out, row)
	}
	return out
}

// TestColumns covers KR-17-12: what the author wants, what is stored, and what is in the cloud.
func TestColumns(t *testing.T) {
	const size, password = "spec.forProvider.size", "spec.forProvider.password"
	field := func(path, from, to string) v1alpha1.FieldDifference {
		return v1alpha1.FieldDifference{Path: path, Old: from, New: to}
	}
	cases := map[string]struct {
		reason   string
		relation v1alpha1.Relation
		fields   []v1alpha1.FieldDifference
		gate     *inspect.Gate
		columns  int
		want     [][]string
	}{
		"NoCloud": {reason: "an object that is no managed resource", fields: []v1alpha1.FieldDifference{field("data.a", "1", "2")},
			columns: 2, want: [][]string{{"2", "1"}}},
		"Unsupported": {reason: "the provider's view is not known", gate: &inspect.Gate{Unsupported: true},
			fields: []v1alpha1.FieldDifference{field(size, "20", "50")}, columns: 2, want: [][]string{{"50", "20"}}},
		"InSync": {reason: "the cloud is as it is stored", gate: &inspect.Gate{}, fields: []v1alpha1.FieldDifference{field(size, "20", "50")},
			columns: 3, want: [][]string{{"50", "20", "20"}}},
		"AllDiffer": {reason: "three values", gate: &inspect.Gate{Difference: []v1alpha1.FieldDifference{field(size, "25", "20")}},
			fields: []v1alpha1.FieldDifference{field(size, "20", "50")}, columns: 3, want: [][]string{{"50", "20", "25"}}},
		"Part": {reason: "a part of the value differs in the cloud, the whole of which is not known",
			gate:   &inspect.Gate{Difference: []v1alpha1.FieldDifference{field("spec.forProvider.tags.a", "1", "2")}},
			fields: []v1alpha1.FieldDifference{field("spec.forProvider.tags", `{"a":"\u003c2"}`, "")}, columns: 3,
			want: [][]string{{"no value", `{  "a": "<2"}`, "not known"}}},
		"Blind": {reason: "the provider reports nothing", gate: &inspect.Gate{Blind: "Unknown"},
			fields: []v1alpha1.FieldDifference{field(size, "20", "50")}, columns: 3, want: [][]string{{"50", "20", "not known"}}},
		"Elsewhere": {reason: "a field that is none of the external resource", gate: &inspect.Gate{},
			fields: []v1alpha1.FieldDifference{field("metadata.labels.a", `"x"`, `"y"`)}, columns: 3, want: [][]string{{`"y"`, `"x"`, "not known"}}},
		"Secret": {reason: "secret in each column", gate: &inspect.Gate{Difference: []v1alpha1.FieldDifference{field(password, redacted, redacted)}},
			fields: []v1alpha1.FieldDifference{field(password, redacted, redacted)}, columns: 3, want: [][]string{{"secret", "secret", "secret"}}},
		"External": {reason: "what is wanted is what is stored", relation: v1alpha1.RelationExternal, gate: &inspect.Gate{},
			fields: []v1alpha1.FieldDifference{field(size, "25", "20")}, columns: 3, want: [][]string{{"20", "20", "25"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Relation: tc.relation, Difference: tc.fields}}
			got := differenceOf(d, tc.gate)
			assert.Len(t, got.Columns, tc.columns, tc.reason)
			assert.Equal(t, tc.want, texts(got), tc.reason)
		})
	}
}
