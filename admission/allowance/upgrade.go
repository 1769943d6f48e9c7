package allowance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Upgrade is an UpgradeAllowance in the form in which requests are decided. It
// is never modified and safe for concurrent use.
type Upgrade struct {
	// Name of the UpgradeAllowance.
	Name string

	user        string
	from, until time.Time
	selector    labels.Selector
	images      []*glob
	allow       []allowed
}

// UpgradeRule is the one rule of an UpgradeAllowance.
const UpgradeRule = "allow"

// Key returns the key of the policy: its kind and name.
func (u *Upgrade) Key() string { return "UpgradeAllowance/" + u.Name }

// CompileUpgrade compiles an UpgradeAllowance. With any error no part of it is in force; the Upgrade is never nil.
func CompileUpgrade(u *v1alpha1.UpgradeAllowance) (*Upgrade, []RuleError) {
	c := &compiler{}
	out := &Upgrade{Name: u.Name, user: u.Spec.ServiceAccount, selector: labels.Everything()}
	if u.Spec.ValidFrom != nil {
		out.from = u.Spec.ValidFrom.Time
	}
	if u.Spec.ValidUntil != nil {
		out.until = u.Spec.ValidUntil.Time
	}
	if u.Spec.ServiceAccount == "" {
		c.fail("serviceAccount", "it is missing")
	}
	if !out.from.IsZero() && !out.until.IsZero() && !out.from.Before(out.until) {
		c.fail("validUntil", "it must be after validFrom")
	}
	if s := c.labels("selector", u.Spec.Selector); s != nil {
		out.selector = s
	}
	for _, image := range u.Spec.Images {
		out.images = append(out.images, newGlob(image))
	}
	c.rule = UpgradeRule
	out.allow = c.shorthandAllow(UpgradeRule, u.Spec.Allow)
	if len(c.errors) > 0 {
		out.allow = nil
	}
	return out, c.errors
}

// Build of the controller that makes a request.
type Build struct {
	// Fingerprint is a short hash of it; empty where it is not known.
	Fingerprint string
	// Images that the calling pod runs; empty where they are not known.
	Images []string
	// Controller is a short hash of the images alone, where the build consists of more; empty otherwise, and where they are not known.
	Controller string
	// Functions are the active revisions of the functions in the pipeline of the
	// composite's Composition; empty where they are not known, and for other controllers.
	Functions []string
	// Graph is the revision of a graph of kro that the controller carries out; the zero one where it is not known, and for other
	// controllers.
	Graph GraphRevision
	// Unread: Functions and Graph may be empty since a read failed.
	Unread bool
	// RecordedLate: builds are recorded only while there is an UpgradeAllowance, so that a
	// child without one counts as last changed by another build.
	RecordedLate bool
}

// GraphRevision is a revision of a graph of kro.
type GraphRevision struct {
	// Of is the name of the ResourceGraphDefinition, Name that of the GraphRevision.
	Of, Name string
	// Number of the revision, from 1.
	Number int64
}

// String returns the revision as messages have it.
func (g GraphRevision) String() string {
	return fmt.Sprintf("ResourceGraphDefinition %s revision %d", g.Of, g.Number)
}

// Recorded returns the build as it is stored on an object: its fingerprint, and after a dot that of the images alone, where it has one (KR-06-23).
func (b Build) Recorded() string {
	if b.Controller == "" || b.Fingerprint == "" {
		return b.Fingerprint
	}
	return b.Fingerprint + "." + b.Controller
}

// Upgrade returns the fingerprints by which an UpgradeAllowance knows an upgrade: that of the build, and that of the recorded one, of which
// fingerprint and images are given. An edit of a graph is no upgrade (KR-06-21).
func (b Build) Upgrade(fingerprint, images string) (is, was string) {
	if b.Graph.Name != "" || images != "" && b.Controller == "" { // the one that it was recorded with is not known
		return cmp.Or(b.Controller, b.Fingerprint), images
	}
	return b.Fingerprint, fingerprint
}

// digestLength is the number of hex digits of a fingerprint, of a rule's content and of
// the id of a claim.
const digestLength = 12

// Fingerprint returns a hash of the parts that a build consists of, in their order; "" for no parts (KR-06-21). It is
// stored on objects (KR-06-23): the same parts must always have the same fingerprint.
func Fingerprint(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return annotation.Hash([]byte(strings.Join(parts, "\n")), digestLength)
}

// claimedPrefix begins the fingerprints of builds that are known by what the caller claims alone.
const claimedPrefix = "ua-"

// ClaimedFingerprint is Fingerprint of a build that is known by what the caller claims alone.
func ClaimedFingerprint(parts []string) string { return claimedPrefix + Fingerprint(parts) }

// isClaimed reports whether a fingerprint is one of ClaimedFingerprint.
func isClaimed(fingerprint string) bool { return strings.HasPrefix(fingerprint, claimedPrefix) }

// UpgradeQuery is a change that an UpgradeAllowance may permit.
type UpgradeQuery struct {
	Child schema.GroupKind
	// Inside: the child represents nothing outside of the cluster.
	Inside bool
	// Verb of the request: Create, Update or Delete.
	Verb    string
	Details []change.Detail
	Labels  map[string]string
	Build   Build
	// Stored fingerprint of the child, and the last upgrade of it.
	Stored string
	Last   v1alpha1.LastUpgrade
	Now    time.Time
}

// windowed reports whether a window decides, and not the build.
func (u *Upgrade) windowed() bool { return !u.from.IsZero() || !u.until.IsZero() }

// Allows reports whether the change is part of the upgrade (KR-06-20).
func (u *Upgrade) Allows(q UpgradeQuery) bool {
	if !u.active(q) || !u.selector.Matches(labels.Set(q.Labels)) || !u.runs(q.Build.Images) {
		return false
	}
	missing := coverage{allowed: u.allow, inside: q.Inside}.missing(q.Child, q.Verb, q.Details)
	return len(missing) == 0
}

// active reports whether the upgrade permits anything now: within its window where it has one, otherwise once for
// each object and build (KR-06-22). An unknown build does not count as an upgrade, neither that of the request nor
// that which last changed the child (KR-13-49); in a creation no build changed the child before. A build that is claimed is compared with
// another that is claimed: what has a Pod is no upgrade of it, nor the other way around.
func (u *Upgrade) active(q UpgradeQuery) bool {
	if u.windowed() {
		return !q.Now.Before(u.from) && (u.until.IsZero() || q.Now.Before(u.until))
	}
	if q.Build.Fingerprint == "" || q.Build.Fingerprint == q.Stored {
		return false
	}
	if q.Stored == "" && q.Verb != VerbCreate && !q.Build.RecordedLate {
		return false
	}
	if q.Stored != "" && isClaimed(q.Stored) != isClaimed(q.Build.Fingerprint) {
		return false
	}
	return !slices.Contains(q.Last.Fingerprints, q.Build.Fingerprint)
}

// runs reports whether one of the images is one of those that the upgrade is for. An unknown image does not count.
func (u *Upgrade) runs(images []string) bool {
	return len(u.images) == 0 || slices.ContainsFunc(images, func(image string) bool {
		return slices.ContainsFunc(u.images, func(g *glob) bool { return g.match(image) })
	})
}

// External returns the verbs of relation External that the upgrade allows for a child kind, in Crossplane's verbs;
// nil where it allows none.
func (u *Upgrade) External(child schema.GroupKind) []string { return externalVerbsOf(u.allow, child) }
