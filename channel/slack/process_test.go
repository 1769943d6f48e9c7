package slack

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	act "github.com/kausality-io/function-kausality/channel/actor"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/drift"
)

const hans, anna, eve = "U0HANS00", "U0ANNA00", "U0EVE000"

// bench is a replica with a fake Slack and a fake API server.
type bench struct {
	t      *testing.T
	config *Config
	server *slackfake.Server
	slack  slackfake.Driver
	client client.Client
	leader *leader
	socket *socket
	// interactions of socket, and of the requests that a test serves.
	interactions *interactions
	timeout      time.Duration
	// parents are the annotations of what decisions are written to, with the users who wrote.
	parents *parents
	// changed is raised when messages, connections and what is known of them are others than before.
	changed await.Signal
	mu      sync.Mutex
	ahead   time.Duration
}

// now of the bench: the clock may be put forward.
func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.ahead)
}

// later puts the clock forward.
func (b *bench) later(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead += d
}

// newBench with Drifts, whose API server's calls go through funcs.
func newBench(t *testing.T, funcs interceptor.Funcs, drifts ...*v1alpha1.Drift) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Drift{}, &v1alpha1.DriftReceiver{}).WithInterceptorFuncs(funcs)
	for _, d := range drifts {
		builder = builder.WithObjects(d.DeepCopy())
	}
	b := &bench{t: t, timeout: readTimeout, client: builder.Build(), server: &slackfake.Server{}, parents: &parents{values: map[string]map[string]string{}}}
	b.server.Changed = b.changed.Raise
	web := httptest.NewServer(b.server)
	t.Cleanup(web.Close)
	b.server.URL, b.slack = web.URL, slackfake.Driver{URL: web.URL}
	b.config = &Config{Channel: slackfake.Channel, Workspace: slackfake.Team, ClusterName: "prod", Users: map[string]Person{
		hans: {User: "hans@example.com"}, anna: {User: "anna@example.com", Groups: []string{"dba"}}, eve: {User: "eve@example.com"}}}
	require.NoError(t, b.config.Check())
	for _, u := range []string{hans, anna, eve} {
		require.NoError(t, b.slack.AddUser(map[string]any{"id": u, "team_id": slackfake.Team}))
	}
	b.start()
	return b
}

// start a replica: one that ran before is dead, with all that it knew.
func (b *bench) start() {
	tokens := Tokens{Bot: slackfake.BotToken, App: slackfake.AppToken}
	calls, kept := newAPI(tokens, b.config.Channel, b.server.URL+"/api/"), newStore(b.client, "kausality-system", tokens)
	look, up := renderer{config: b.config, zone: time.UTC}, &link{}
	post := &poster{api: calls, store: kept, drifts: b.client, render: look, link: up, now: b.now, log: logr.Discard(),
		owes: drift.NewChannel(b.client, Component, Receiver, nil, logr.Discard())}
	work := &worker{api: calls, store: kept, poster: post, live: b.client, as: b.parents.as, now: b.now, log: logr.Discard(),
		directory: &directory{config: b.config, lookup: calls.client.GetUserInfoContext, now: b.now}}
	b.leader = &leader{post, work, logr.Discard()}
	log := funcr.New(func(string, string) { b.changed.Raise() }, funcr.Options{})
	b.interactions = &interactions{api: calls, store: kept, render: look, drifts: b.client, now: b.now, log: log}
	b.socket = &socket{interactions: b.interactions, link: up, pause: time.Millisecond}
	require.NoError(b.t, b.leader.load(b.t.Context()))
}

// connect a replica's socket, until the test ends.
func (b *bench) connect() {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	before := b.state().Sockets
	go func() { _ = b.socket.Start(ctx); close(done) }()
	b.t.Cleanup(func() { cancel(); <-done })
	b.changed.Until(b.t, "a connection", func() bool { return b.state().Sockets > before })
}

func (b *bench) state() slackfake.State {
	b.t.Helper()
	s, err := b.slack.State()
	require.NoError(b.t, err)
	return s
}

// rounds of the leader.
func (b *bench) rounds(n int) {
	b.t.Helper()
	for range n {
		require.NoError(b.t, b.leader.both(b.t.Context()))
	}
}

// message to all that has buttons for a Drift; nil for none.
func (b *bench) message(d *v1alpha1.Drift) *slackfake.Message {
	b.t.Helper()
	for _, m := range b.state().Messages {
		block, _ := m.Block()
		if at, ok := parseReference(block); ok && m.Ephemeral == "" && at.Name == d.Name {
			return m
		}
	}
	return nil
}

// click of a user on a button of the message of a Drift.
func (b *bench) click(user string, d *v1alpha1.Drift, a channel.Action, option string) slackfake.Acknowledged {
	b.t.Helper()
	m := b.message(d)
	require.NotNil(b.t, m, "no message has buttons")
	return b.clickOn(user, slackfake.Team, m, a, option)
}

func (b *bench) clickOn(user, team string, m *slackfake.Message, a channel.Action, option string) slackfake.Acknowledged {
	b.t.Helper()
	block, _ := m.Block()
	ack, err := b.slack.Click(slackfake.Click{User: user, Team: team, TS: m.TS, Block: block, Action: actionPrefix + string(a), Value: option})
	require.NoError(b.t, err)
	return ack
}

// answers that only a user sees.
func (b *bench) answers(user string) (out []string) {
	b.t.Helper()
	for _, m := range b.state().Messages {
		if m.Ephemeral == user {
			out = append(out, strings.ReplaceAll(m.Blocks, "\u2060", ""))
		}
	}
	return out
}

// stored objects of a kind.
func (b *bench) stored(holds string) []corev1.ConfigMap {
	b.t.Helper()
	list := &corev1.ConfigMapList{}
	require.NoError(b.t, b.client.List(b.t.Context(), list, client.MatchingLabels{labelHolds: holds}))
	return list.Items
}

// change a Drift and its status.
func (b *bench) change(d *v1alpha1.Drift, edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
	b.t.Helper()
	now := &v1alpha1.Drift{}
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKeyFromObject(d), now))
	edit(now)
	status := now.DeepCopy().Status
	require.NoError(b.t, b.client.Update(b.t.Context(), now))
	now.Status = status
	require.NoError(b.t, b.client.Status().Update(b.t.Context(), now))
	return now
}

// delivery to this channel as a Drift has it; nil for none.
func (b *bench) delivery(d *v1alpha1.Drift) *v1alpha1.DriftDelivery {
	b.t.Helper()
	now := &v1alpha1.Drift{}
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKeyFromObject(d), now))
	for i := range now.Status.Deliveries {
		if now.Status.Deliveries[i].Receiver == Receiver {
			return &now.Status.Deliveries[i]
		}
	}
	return nil
}

// ready is the condition of the DriftReceiver.
func (b *bench) ready() metav1.Condition {
	b.t.Helper()
	o := &v1alpha1.DriftReceiver{}
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKey{Name: "kausality-slack-slack"}, o))
	require.Len(b.t, o.Status.Conditions, 1)
	return o.Status.Conditions[0]
}

// parents hold decisions, as a webhook would let users write them.
type parents struct {
	mu     sync.Mutex
	values map[string]map[string]string
	// wrote are user and annotation of each write that changed something.
	wrote []string
	// forbidden users, and what a write fails with after it was stored.
	forbidden map[string]bool
	dies      func()
}

// as a person.
func (p *parents) as(who Person) (actor, error) { return &parentActor{p, who}, nil }

type parentActor struct {
	*parents
	who Person
}

// Holder implements actor.
func (p *parentActor) Holder(_ context.Context, on v1alpha1.ObjectReference) (map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forbidden[p.who.User] {
		return nil, kerrors.NewForbidden(schema.GroupResource{Resource: "xdatabases"}, on.Name, nil)
	}
	out := map[string]string{}
	for k, v := range p.values[on.Name] {
		out[k] = v
	}
	return out, nil
}

// Write implements actor: as the webhook does, it knows who wrote an approval.
func (p *parentActor) Write(_ context.Context, d *v1alpha1.Drift, do channel.Decision) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.values[do.On.Name]
	if have == nil {
		have = map[string]string{}
		p.values[do.On.Name] = have
	}
	for _, w := range do.Writes {
		next, err := w.Edit(have)
		if err != nil {
			return "", &act.RefusedError{Err: err}
		}
		if next == nil {
			delete(have, w.Key)
		} else if have[w.Key] != *next {
			have[w.Key] = *next
			p.wrote = append(p.wrote, p.who.User+" "+w.Key)
		}
		if strings.HasPrefix(w.Key, v1alpha1.AnnotationKeyApprovePrefix) && next != nil {
			set := approval.Parse(have)
			vote := v1alpha1.Vote{User: p.who.User, Via: FieldManager, At: metav1.Now()}
			have[v1alpha1.AnnotationKeyClaims] = approval.Claims{{Content: set.Approvals[0].Content, State: v1alpha1.ClaimOpen, At: metav1.Now(),
				Bound: d.Spec.Digest, By: []v1alpha1.Vote{vote}}}.String()
		}
	}
	if p.dies != nil {
		p.dies()
	}
	return "Written.", nil
}

// Except implements actor.
func (p *parentActor) Except(_ context.Context, _ *v1alpha1.Drift, e *channel.Exception) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forbidden[p.who.User] {
		return kerrors.NewForbidden(schema.GroupResource{Resource: e.Resource()}, e.Name, nil)
	}
	p.wrote = append(p.wrote, p.who.User+" "+e.Kind()+" "+e.Name)
	return nil
}

// used takes the approval of a parent away, as the webhook does once its write has landed.
func (p *parents) used(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var claims approval.Claims
	_ = json.Unmarshal([]byte(p.values[name][v1alpha1.AnnotationKeyClaims]), &claims)
	for i := range claims {
		claims[i].State = v1alpha1.ClaimUsed
	}
	p.values[name] = map[string]string{v1alpha1.AnnotationKeyClaims: claims.String()}
}

func (p *parents) value(name, key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[name][key]
}

func (p *parents) writes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.wrote...)
}
