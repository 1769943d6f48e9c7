package openings

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
)

// gate of a managed resource whose spec has a size; "" for one that is gone. Annotations follow in pairs.
func gate(t *testing.T, revision int64, value string, size int64, annotations ...string) history.Version {
	t.Helper()
	v := history.Version{Revision: revision}
	if value == "" {
		return v
	}
	require.True(t, json.Valid([]byte(value)), value)
	set := map[string]string{v1alpha1.AnnotationKeyGate: value}
	for i := 0; i < len(annotations); i += 2 {
		set[annotations[i]] = annotations[i+1]
	}
	v.Object = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size, "managementPolicies": []any{value}}}}
	v.Object.SetAnnotations(set)
	return v
}

type versions = []history.Version

func TestUncalled(t *testing.T) {
	const (
		closed, pending = `{"state":"closed"}`, `{"state":"closed","reason":"ExternalDriftPending"}`
		frozen          = `{"state":"closed","reason":"Frozen"}`
		open            = `{"state":"open","verbs":["Update"],"digest":"d1"}`
		other           = `{"state":"open","verbs":["Update"],"digest":"d2"}`
		deletes         = `{"state":"open","verbs":["Update","Delete"],"digest":"d1"}`
	)
	at := func(revision int64, value string, size int64, annotations ...string) history.Version {
		return gate(t, revision, value, size, annotations...)
	}
	approval := v1alpha1.AnnotationKeyApprovePrefix + "d1"
	for name, tc := range map[string]struct {
		reason string
		mr, xr versions
		wrong  int
	}{
		"Created":   {mr: versions{at(1, open, 1)}},
		"Changed":   {mr: versions{at(1, closed, 1), at(2, open, 2)}},
		"Recreated": {mr: versions{at(1, closed, 1), at(2, "", 0), at(3, open, 1)}},
		"Uncalled":  {mr: versions{at(1, closed, 1), at(2, open, 1)}, wrong: 1},
		"Again":     {reason: "the change was let through before", mr: versions{at(1, closed, 1), at(2, open, 2), at(3, closed, 2), at(4, open, 2)}, wrong: 1},
		"Back": {reason: "a change that waited was reverted",
			mr: versions{at(1, closed, 1), at(2, pending, 2), at(3, open, 1)}},
		"Frozen": {reason: "what the freeze interrupts goes on", mr: versions{at(1, closed, 1), at(2, open, 2), at(3, frozen, 2), at(4, open, 2)}},
		"FrozenApproved": {reason: "nor was the approval used", mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1, approval, "once"),
			at(3, frozen, 1, approval, "once"), at(4, open, 1, approval, "once")}},
		"MoreChanged":    {reason: "the spec was another, before it was opened", mr: versions{at(1, closed, 1), at(2, open, 2), at(3, other, 2)}, wrong: 1},
		"FrozenUncalled": {mr: versions{at(1, closed, 1), at(2, frozen, 1), at(3, open, 1)}, wrong: 1},
		"Approved":       {mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1)}},
		"ApprovedAbove":  {mr: versions{at(1, closed, 1), at(3, open, 1)}, xr: versions{at(2, closed, 1, approval, "once")}},
		"ApprovedLater":  {mr: versions{at(1, closed, 1), at(2, open, 1)}, xr: versions{at(3, closed, 1, approval, "once")}, wrong: 1},
		"ApprovedBefore": {reason: "and withdrawn before the gate was opened last",
			mr: versions{at(3, closed, 1), at(4, open, 2), at(5, closed, 2), at(6, open, 2)},
			xr: versions{at(1, closed, 1, approval, "once"), at(2, closed, 1)}, wrong: 1},
		"Spent": {reason: "once", mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1), at(3, closed, 1, approval, "once"), at(4, open, 1)}, wrong: 1},
		"Repeated": {reason: "it was removed, and given again", mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1), at(3, closed, 1),
			at(4, closed, 1, approval, "once"), at(5, open, 1)}},
		"Always": {mr: versions{at(1, closed, 1, approval, "always"), at(2, open, 1), at(3, closed, 1, approval, "always"), at(4, open, 1)}},
		"Other":  {reason: "another difference", mr: versions{at(1, closed, 1, approval, "once"), at(2, other, 1)}, wrong: 1},
		"Any": {mr: versions{at(1, closed, 1, v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`),
			at(2, other, 1)}},
		"AnyChild": {reason: "of a change of the object", mr: versions{at(1, closed, 1, v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*"}]`),
			at(2, other, 1)}, wrong: 1},
		"More":     {reason: "another difference while it is open", mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1), at(3, other, 1)}, wrong: 1},
		"Delete":   {mr: versions{at(1, closed, 1, approval, "once"), at(2, open, 1), at(3, deletes, 1)}, wrong: 1},
		"Deletion": {mr: versions{at(1, closed, 1), at(3, deletes, 1)}, xr: versions{at(2, closed, 1, approval+"0", "once")}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, Uncalled(tc.mr, tc.xr), tc.wrong, tc.reason)
		})
	}
}
