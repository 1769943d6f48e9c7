package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rowReason is the field of a row with its own reason, in place of the
// scenario's.
const rowReason = "reason"

// rows of a scenario with a table: one scenario for each row, NAME.ROW, in the
// order of their names; the scenario itself if it has no table.
func (sc Scenario) rows() ([]Scenario, error) {
	if sc.Each == nil {
		return []Scenario{sc}, nil
	}
	names := slices.Sorted(maps.Keys(sc.Each))
	if len(names) < 2 {
		return nil, fmt.Errorf("scenario %s: a table has at least two rows", sc.ID())
	}
	out := make([]Scenario, 0, len(names))
	var errs []error
	for _, name := range names {
		row := sc.Each[name]
		if want, got := columns(sc.Each[names[0]]), columns(row); !slices.Equal(want, got) {
			errs = append(errs, fmt.Errorf("scenario %s: row %s has the columns %s, row %s has %s", sc.ID(), names[0], want, name, got))
		}
		one := sc
		one.Name, one.Each, one.Steps = sc.Name+"."+name, nil, nil
		if reason, ok := row[rowReason].(string); ok {
			one.Reason = reason
		}
		for _, step := range sc.Steps {
			filled, _ := fill(step, row).(map[string]any)
			one.Steps = append(one.Steps, filled)
		}
		out = append(out, one)
	}
	return out, errors.Join(errs...)
}

func columns(row map[string]any) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(row)), func(c string) bool { return c == rowReason })
}

// fill the columns of a row into a tree: $(COLUMN) alone is replaced by the value
// of any type, within a string by its text.
func fill(tree any, row map[string]any) any {
	switch t := tree.(type) {
	case string:
		for column, v := range row {
			if t == "$("+column+")" {
				return v
			}
			t = strings.ReplaceAll(t, "$("+column+")", text(v))
		}
		return t
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, v := range t {
			out[k] = fill(v, row)
		}
		return out
	case []any:
		out := make([]any, 0, len(t))
		for _, v := range t {
			out = append(out, fill(v, row))
		}
		return out
	}
	return tree
}
