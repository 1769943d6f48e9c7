package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// The chapters of the story.
const (
	created  = "created"
	settled  = "settled"
	changed  = "changed"
	tampered = "tampered"
	reverted = "reverted"
	upgraded = "upgraded"
	frozen   = "frozen"
	deleted  = "deleted"
	gone     = "gone"
)

// play of a chapter.
type play struct {
	// before the fault; nil for nothing more than a composite that has settled.
	before func(context.Context, *run) error
	// during the fault: what users and others do. It may last longer than the fault.
	during func(context.Context, *run) error
	// after it: what must be so at last.
	after func(context.Context, *run) error
	// still: where it enforces, nothing is written to the cloud in it.
	still bool
	// deletes: the database is deleted in the cloud, and nothing goes on.
	deletes bool
}

var plays = map[string]play{
	created: {
		during: func(ctx context.Context, r *run) error { return r.insist(ctx, "hans creates the XR", r.create(20)) },
		after: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "the database is created", r.arrives(20))
		},
	},
	settled: {
		during: func(context.Context, *run) error { return nil },
		after:  func(ctx context.Context, r *run) error { return r.insist(ctx, "the XR settles", r.isSettled) },
	},
	changed: {
		during: func(ctx context.Context, r *run) error {
			if err := r.insist(ctx, "hans resizes the XR", r.resize(50)); err != nil || r.row[ofMode] != own || r.unobserved {
				return err
			}
			return errors.New("the webhook observed the request")
		},
		after: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "the database is resized", r.arrives(50))
		},
	},
	tampered: {
		during: func(ctx context.Context, r *run) error { return r.tamper(ctx) },
		after:  quiet,
		still:  true,
	},
	reverted: {
		before: func(ctx context.Context, r *run) error {
			if !r.enforces() { // the provider reverts it by itself
				return nil
			}
			if err := r.tamper(ctx); err != nil {
				return err
			}
			return r.insist(ctx, "the drift is reported", func(ctx context.Context) error { _, err := r.suggested(ctx); return err })
		},
		during: func(ctx context.Context, r *run) error {
			if !r.enforces() {
				return r.tamper(ctx)
			}
			return r.insist(ctx, "alice approves the way back", r.approve)
		},
		after: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "the database is reverted", r.reaches(20))
		},
	},
	upgraded: {
		during: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "the Composition is changed", func(ctx context.Context) error { return r.compose(ctx, gold) })
		},
		after: func(ctx context.Context, r *run) error {
			if err := quiet(ctx, r); err != nil || !r.enforces() {
				return err
			}
			return r.insist(ctx, "the new revision is held", r.holds) // so that no later intent brings it
		},
		still: true,
	},
	frozen: {
		before: func(ctx context.Context, r *run) error {
			return r.merge(ctx, story.Alice, story.XDatabases, r.ns, annotation(v1alpha1.AnnotationKeyFreeze,
				`{"user":"`+story.Alice+`","message":"incident"}`))
		},
		during: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "hans resizes the frozen XR", r.resize(60))
		},
		after: func(ctx context.Context, r *run) error {
			if err := quiet(ctx, r); err != nil {
				return err
			}
			if err := r.insist(ctx, "alice unfreezes it", func(ctx context.Context) error {
				return r.merge(ctx, story.Alice, story.XDatabases, r.ns, annotation(v1alpha1.AnnotationKeyFreeze, nil))
			}); err != nil {
				return err
			}
			return r.insist(ctx, "the database is resized", r.arrives(60))
		},
		still: true,
	},
	deleted: {
		during: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "hans deletes the Database", r.deleteDatabase)
		},
		after: quiet,
		still: true,
	},
	gone: {
		during: func(ctx context.Context, r *run) error {
			return r.insist(ctx, "hans deletes the XR", r.deleteXR)
		},
		after:   func(ctx context.Context, r *run) error { return r.insist(ctx, "all of it to go", r.isGone) },
		deletes: true,
	},
}

// quiet: the provider observes the database, and whatever it wrote is judged.
func quiet(ctx context.Context, r *run) error {
	if err := r.insist(ctx, "the database to exist", func(ctx context.Context) error { _, err := r.outside(ctx); return err }); err != nil {
		return err
	}
	if err := r.observed(ctx); err != nil {
		return err
	}
	var err error
	r.until, err = the.Cloud.LastSeq(ctx)
	return err
}

// holds: the composition function holds a change of the database.
func (r *run) holds(ctx context.Context) error {
	o, err := r.database(ctx)
	if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeyHeld] == "" {
		err = fmt.Errorf("nothing is held: %v", o.GetAnnotations())
	}
	return err
}

// tamper with the database in the cloud.
func (r *run) tamper(ctx context.Context) error {
	return r.insist(ctx, "the database is changed in the cloud", func(ctx context.Context) error {
		o, err := r.database(ctx)
		if err != nil {
			return err
		}
		return the.Cloud.Change(ctx, o.GetName(), client.Fields{"size": 7})
	})
}

var command = regexp.MustCompile(`kubectl annotate (?:-n \S+ )?(\S+) (\S+) (kausality\.io/[^=\s]+)='?([^'\n;]*[^'\s;])`)

// suggested annotation that approves the external drift of the database that is reported.
func (r *run) suggested(ctx context.Context) ([]string, error) {
	list, err := r.of("", story.Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	database, err := r.database(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		relation, _, _ := unstructured.NestedString(o.Object, "spec", "relation")
		child, _, _ := unstructured.NestedString(o.Object, "spec", "child", "name")
		suggestion, _, _ := unstructured.NestedString(o.Object, "spec", "suggestedApproval")
		m := command.FindStringSubmatch(suggestion)
		if phase == "Detected" && relation == "External" && child == database.GetName() && m != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no external drift among %d", len(list.Items))
}

// approve as the report suggests, by alice.
func (r *run) approve(ctx context.Context) error {
	m, err := r.suggested(ctx)
	if err != nil {
		return err
	}
	if r.approved == 0 { // an attempt without an answer may have succeeded
		if r.approved, err = the.Cloud.LastSeq(ctx); err != nil {
			return err
		}
	}
	err = r.annotate(ctx, m)
	if status := kerrors.APIStatus(nil); errors.As(err, &status) && !kerrors.IsTimeout(err) && !kerrors.IsServerTimeout(err) {
		r.approved = 0 // it was refused
	}
	return err
}

// deleteXR by hans. Where it enforces, the refusal has the command by which alice approves
// it.
func (r *run) deleteXR(ctx context.Context) error {
	o := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	err := r.of(story.Hans, story.XDatabases).Delete(ctx, r.ns, o)
	if err == nil || kerrors.IsNotFound(err) {
		return nil
	}
	if m := command.FindStringSubmatch(err.Error()); kerrors.IsForbidden(err) && m != nil {
		return errors.Join(err, r.annotate(ctx, m))
	}
	return err
}

// annotate as a suggested command does, by alice.
func (r *run) annotate(ctx context.Context, m []string) error {
	g := story.XDatabases
	if m[2] != r.ns {
		g = story.Databases
	}
	return r.merge(ctx, story.Alice, g, m[2], annotation(m[3], m[4]))
}

// deleteDatabase by hans: refused where it enforces.
func (r *run) deleteDatabase(ctx context.Context) error {
	o, err := r.database(ctx)
	if err != nil {
		return err
	}
	err = r.of(story.Hans, story.Databases).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	switch {
	case !r.enforces() || err != nil && !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err):
		return err
	case err != nil && !strings.Contains(err.Error(), "admission webhook") && !strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
		return err // by an API server that starts, and has no roles yet
	case err == nil:
		return errors.New("the deletion was allowed")
	}
	r.note("refused: %.200s", err)
	return nil
}

// isGone: neither the cluster nor the cloud has any of it.
func (r *run) isGone(ctx context.Context) error {
	if _, err := r.of("", story.XDatabases).Get(ctx, r.ns, metav1.GetOptions{}); !kerrors.IsNotFound(err) {
		return fmt.Errorf("the XR exists: %v", err) //nolint:errorlint // nil is an answer, too.
	}
	list, err := r.of("", story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		return fmt.Errorf("Database %s exists: %v %v", o.GetName(), o.GetAnnotations(), o.Object["status"])
	}
	all, err := the.Cloud.Databases().List(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Tags["tier"] != "" && len(d.Name) > len(r.ns) && d.Name[:len(r.ns)+1] == r.ns+"-" {
			return fmt.Errorf("the cloud has %s", d.Name)
		}
	}
	return nil
}
