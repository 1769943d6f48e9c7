package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	memberZoe, memberSystem = "U0ZOE000", "U0SYSTEM"
	zoe, systemUser         = "zoe@example.com", "system:admin@example.com"
	// approvers is the group that has the right to approve, ops one that the roles of the process do not have.
	approvers, ops = "slack-approvers", "slack-ops"
)

// slackRights is one replica with a change that is held, whose API server may be another one.
type slackRights struct {
	*slackBench
	server string
	to     int
}

// TestSlackRights covers KR-17-09 and KR-17-10 without constrained impersonation: the process has the roles that it prints and no others.
func TestSlackRights(t *testing.T) {
	r := newSlackRights(t, "slackrights", "")
	r.listed("")
	r.byAddress("impersonateAnyone: true", "this process may act as any user of the cluster")
	listed := r.config(persons(memberHans, hans, approvers) + r.constrained())
	r.grant(listed)
	r.awaitForm(r.constrained(), hans)
	r.run(listed, 1, "")
	r.refuses(r.held(), map[string][]string{memberHans: {"this app may not act as " + hans + " with the groups " + approvers}}) // here they permit nothing
}

// TestSlackRightsConstrained is TestSlackRights with constrained impersonation: the roles of other API servers have the same effect, and in the form of
// constrained impersonation they permit to decide, and nothing else.
func TestSlackRightsConstrained(t *testing.T) {
	server, err := the.SecondAPIServer(context.Background(), "apiserver-constrained", "--feature-gates=ConstrainedImpersonation=true")
	require.NoError(t, err)
	t.Cleanup(the.Process("apiserver-constrained").Stop)
	r := newSlackRights(t, "slackgated", server)
	r.listed("")
	r.byAddress("impersonateAnyone: true", "this process may act as any user of the cluster")
	r.listed(r.constrained())
	r.onlyDecides(hans, approvers)
	r.byAddress(r.constrained(), "this process may read and patch apps.slackgated"+groupSuffix+" as any user")
	r.onlyDecides(zoe)
}

// newSlackRights with a fleet, on the API server at a URL, empty for the first.
func newSlackRights(t *testing.T, fleet, server string) *slackRights {
	t.Helper()
	f := startFleet(t, fleet, options{replicas: 1, args: []string{"--approver-rbac=true"}})
	b := newSlackBench(t, newFixture(t, f, fleet))
	b.settled("part")
	for member, email := range map[string]string{memberHans: hans, memberZoe: zoe, memberSystem: systemUser} {
		require.NoError(t, b.slack.AddUser(map[string]any{"id": member, "team_id": slackfake.Team, "is_email_confirmed": true,
			"profile": map[string]any{"email": email}}))
	}
	for _, user := range []string{hans, anna, eve} {
		b.mayPatch(user)
	}
	a, err := controlplane.NewApplier(the.Config(), "kubectl")
	require.NoError(t, err)
	kind := func(k string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: k}
	}
	meta := metav1.ObjectMeta{Name: approvers}
	require.NoError(t, a.Objects(t.Context(),
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{b.name + groupSuffix}, Resources: []string{"apps/approval"}, Verbs: []string{"approve"}}}},
		&rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: approvers},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: approvers}}}))
	return &slackRights{slackBench: b, server: server, to: 4}
}

// constrained is the field for roles in the form of constrained impersonation.
func (r *slackRights) constrained() string {
	return "constrainedImpersonation: {resources: [apps." + r.name + groupSuffix + "]}"
}

// persons of a configuration: a member, the user and the groups in one word, and so on.
func persons(all ...string) string {
	var out []string
	for i := 0; i+2 < len(all); i += 3 {
		out = append(out, fmt.Sprintf("%s: {user: %s, groups: [%s]}", all[i], all[i+1], all[i+2]))
	}
	return "users: {" + strings.Join(out, ", ") + "}\n"
}

// held is another change that is, and its message.
func (r *slackRights) held() *slackfake.Message {
	r.t.Helper()
	r.to++
	return r.message(mustRefuse(r.t, r.count(r.ctrl, "part", r.to), "Drift"), "Approve once")
}

// refuses clicks of members, with answers that have texts.
func (r *slackRights) refuses(m *slackfake.Message, answers map[string][]string) {
	r.t.Helper()
	before := map[string]int{}
	for member := range answers {
		before[member] = len(r.answers(member))
		r.click(member, m)
	}
	for member, texts := range answers {
		wait.For(r.t, "an answer for "+member, wait.Patience, func(context.Context) error {
			if got := r.answers(member); len(got) == before[member] {
				return errors.New("there is none")
			}
			return nil
		})
		answer := r.answers(member)[before[member]]
		for _, text := range append(texts, "Nothing was done") {
			assert.Contains(r.t, answer, text)
		}
	}
}

// listed: whom the roles list decides, with the rights of the groups; whom they do not list is answered so, and who may not approve, too.
func (r *slackRights) listed(form string) {
	r.t.Helper()
	hansAndEve := persons(memberHans, hans, approvers, memberEve, eve, "", memberAnna, anna, approvers)
	r.grant(r.config(hansAndEve + form))
	r.awaitForm(form, hans)
	// The configuration has more than the roles: it was changed, and they were not applied again.
	r.run(r.config(persons(memberHans, hans, approvers, memberEve, eve, "", memberAnna, anna, approvers+", "+ops, memberZoe, zoe, "")+form), 1, r.server)
	require.NoError(r.t, r.as(hans, approvers))
	for user, groups := range map[string][]string{zoe: nil, anna: {approvers, ops}} {
		require.True(r.t, kerrors.IsForbidden(r.as(user, groups...)), "the API server refuses to act as %s of %v", user, groups)
	}
	m := r.held()
	r.refuses(m, map[string][]string{
		memberZoe:  {"this app may not act as " + zoe + ". ", "cannot impersonate"},
		memberAnna: {"this app may not act as " + anna + " with the groups " + approvers + ", " + ops, "cannot impersonate"},
		memberEve:  {eve + " may not do that", "the verb approve on its subresource approval", "needs the verb"},
	})
	require.True(r.t, refused(r.count(r.ctrl, "part", r.to), "Drift"), "nothing was approved")
	r.approves(m)
}

// byAddress: members are users by their addresses, but for names of the system, which the process does not use although it might.
func (r *slackRights) byAddress(form, warning string) {
	r.t.Helper()
	config := r.config("email: {domains: [example.com], groups: [" + approvers + "]}\n" + form)
	r.grant(config)
	r.awaitForm(form, "any@example.com")
	r.run(config, 1, r.server)
	log, err := os.ReadFile(r.replicas[0].Log())
	require.NoError(r.t, err)
	assert.Contains(r.t, string(log), warning)
	require.NoError(r.t, r.as(systemUser), "the API server would permit it")
	m := r.held()
	r.refuses(m, map[string][]string{
		memberSystem: {"system users and groups are never impersonated"},
		memberZoe:    {zoe + " may not do that", `cannot get resource \"apps\"`},
	})
	r.approves(m)
}

// approves: hans does, by the right of a group, and the change passes.
func (r *slackRights) approves(m *slackfake.Message) {
	r.t.Helper()
	r.click(memberHans, m)
	r.answered(memberHans, "approved by "+hans+". Its controller carries it out when it next reconciles.")
	wait.For(r.t, "the approved change to pass", wait.Patience, func(context.Context) error { return r.count(r.ctrl, "part", r.to) })
}

// onlyDecides: as a user, the process does nothing but decide, whatever the user may do.
func (r *slackRights) onlyDecides(user string, groups ...string) {
	r.t.Helper()
	c, err := dynamic.NewForConfig(r.impersonating(user, groups...))
	require.NoError(r.t, err)
	for _, err := range []error{
		r.apps(c).Delete(r.t.Context(), "app", metav1.DeleteOptions{}),
		c.Resource(secrets).Namespace(r.ns).Delete(r.t.Context(), "any", metav1.DeleteOptions{}),
	} {
		require.True(r.t, kerrors.IsForbidden(err), "%v", err)
		assert.Contains(r.t, err.Error(), "cannot impersonate-on:user-info:delete resource")
	}
	_, err = c.Resource(secrets).Namespace(r.ns).Get(r.t.Context(), "any", metav1.GetOptions{})
	require.ErrorContains(r.t, err, "cannot impersonate-on:user-info:get resource")
}

// impersonating a user, as the process does it.
func (r *slackRights) impersonating(user string, groups ...string) *rest.Config {
	r.t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	require.NoError(r.t, err)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return c
}

// as a user, the process reads who it is.
func (r *slackRights) as(user string, groups ...string) error {
	r.t.Helper()
	cs, err := kubernetes.NewForConfig(r.impersonating(user, groups...))
	require.NoError(r.t, err)
	got, err := cs.AuthenticationV1().SelfSubjectReviews().Create(r.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil {
		assert.Equal(r.t, user, got.Status.UserInfo.Username)
	}
	return err
}

// awaitForm until the API server knows that the process may act as a user by roles in one form, and not by those in the other.
func (r *slackRights) awaitForm(form, user string) {
	r.t.Helper()
	r.awaitRight("authentication.k8s.io", "impersonate:user-info", user, form == r.constrained())
	r.awaitRight("", "impersonate", user, form != r.constrained())
}

// awaitRight of the process to act as a user, or that it has none.
func (r *slackRights) awaitRight(group, verb, user string, want bool) {
	r.t.Helper()
	c := the.Config()
	if r.server != "" {
		c.Host = r.server
	}
	cs, err := kubernetes.NewForConfig(c)
	require.NoError(r.t, err)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + home + ":kausality-slack",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: "users", Verb: verb, Name: user}}}
	wait.For(r.t, fmt.Sprintf("the right to %s %s to be %t", verb, user, want), wait.Patience, func(ctx context.Context) error {
		got, err := cs.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && got.Status.Allowed != want {
			err = fmt.Errorf("it is %t", got.Status.Allowed)
		}
		return err
	})
}
