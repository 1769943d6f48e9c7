package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	// labelHolds is the label for what a ConfigMap of this process holds.
	labelHolds   = "kausality.io/slack"
	holdsMessage = "message"
	holdsClick   = "click"
	// maxClicks are stored at a time; beyond, users are answered that nothing was done.
	maxClicks = 200
	// maxRemembered bounds the clicks that are stored at a time, with those that are worked off and remembered.
	maxRemembered = 2000
	// maxWait of a click to be worked off: what the user saw is too old then.
	maxWait = time.Hour
)

// click of a user as it is stored.
type click struct {
	Team   string         `json:"team"`
	User   string         `json:"user"`
	Action channel.Action `json:"action"`
	// Reference of the block, Reason of a rejection, Until of a snooze or an exception, Scope of an exception.
	Reference string                 `json:"reference"`
	Reason    string                 `json:"reason,omitempty"`
	Until     time.Time              `json:"until,omitzero"`
	Scope     channel.ExceptionScope `json:"scope,omitempty"`
	// Thread is where it was made, for the answer.
	Thread string    `json:"thread,omitempty"`
	At     time.Time `json:"at"`
	// Event is what distinguishes two clicks of the same user: Slack's time of the action, or the id of the view.
	Event string `json:"event"`
	// Remember the click until then, also where it is worked off: the request that made it could be sent again (KR-17-25).
	Remember time.Time `json:"remember,omitzero"`
}

// progress of a click, which the leader writes.
type progress struct {
	// Begun is when it was first written to the cluster; zero for not.
	Begun time.Time `json:"begun,omitzero"`
	// Done: the rest is to answer. Answer is for the user, Noted what the message shows; both may be empty.
	Done   bool   `json:"done,omitempty"`
	Answer string `json:"answer,omitempty"`
	// Over is true where the answer was given, too: the click is kept only to be remembered.
	Over bool `json:"over,omitempty"`
}

// stored click with its object.
type stored struct {
	click
	progress
	object corev1.ConfigMap
	// why it does not count; nil for none.
	invalid error
}

// errFull is the error of a click that cannot be stored since others wait.
var errFull = errors.New("too many clicks wait to be worked off")

// store of clicks and of records of messages, in one Namespace.
type store struct {
	// live reads past every cache, and writes.
	live      client.Client
	namespace string
	// key seals clicks: what others write into the Namespace is no click (KR-17-08).
	key []byte
}

// newStore seals by the tokens, which all replicas have.
func newStore(live client.Client, namespace string, t Tokens) *store {
	sum := sha256.Sum256([]byte("kausality slack clicks\x00" + t.App + t.Signing + "\x00" + t.Bot))
	return &store{live: live, namespace: namespace, key: sum[:]}
}

// seal returns the seal of a click.
func (s *store) seal(raw string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(raw))
	return hex.EncodeToString(h.Sum(nil))
}

// list lists the ConfigMaps that hold something.
func (s *store) list(ctx context.Context, holds string) ([]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	if err := s.live.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{labelHolds: holds}); err != nil {
		return nil, fmt.Errorf("cannot list what is stored: %w", err)
	}
	return list.Items, nil
}

// keep keeps a click. One that is stored already is no error: the same event may be delivered twice.
func (s *store) keep(ctx context.Context, c click) error {
	have, err := s.list(ctx, holdsClick)
	if err != nil {
		return err
	}
	if s.unfinished(have) >= maxClicks || len(have) >= maxRemembered {
		return errFull
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("cannot encode a click: %w", err)
	}
	sum := sha256.Sum256([]byte(c.Team + "\x00" + c.User + "\x00" + c.Event + "\x00" + string(c.Action) + "\x00" + c.Reference))
	o := s.object("kausality-slack-click-"+hex.EncodeToString(sum[:8]), holdsClick)
	o.Data = map[string]string{"click": string(raw), "seal": s.seal(string(raw))}
	if err := s.live.Create(ctx, o); err != nil && !kerrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot store a click: %w", err)
	}
	return nil
}

// unfinished returns the clicks that are not worked off yet.
func (s *store) unfinished(list []corev1.ConfigMap) (n int) {
	for i := range list {
		if !s.read(list[i]).Over {
			n++
		}
	}
	return n
}

// object returns the ConfigMap of a click.
func (s *store) object(name, holds string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{
		labelHolds: holds, "app.kubernetes.io/managed-by": "kausality"}}}
}

// clicks returns the clicks that are stored, the oldest first.
func (s *store) clicks(ctx context.Context) ([]*stored, error) {
	list, err := s.list(ctx, holdsClick)
	if err != nil {
		return nil, err
	}
	out := lists.Map(list, s.read)
	sortClicks(out)
	return out, nil
}

// read reads a click.
func (s *store) read(o corev1.ConfigMap) *stored {
	c := &stored{object: o}
	raw := o.Data["click"]
	if hmac.Equal([]byte(o.Data["seal"]), []byte(s.seal(raw))) {
		c.invalid = json.Unmarshal([]byte(raw), &c.click)
	} else {
		c.invalid = errors.New("it has no seal of this app")
	}
	if p := o.Data["progress"]; p != "" && c.invalid == nil {
		c.invalid = json.Unmarshal([]byte(p), &c.progress)
	}
	return c
}

// advance advances the progress of a click. It fails where another leader has advanced it.
func (s *store) advance(ctx context.Context, c *stored, p progress) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("cannot encode the progress of a click: %w", err)
	}
	o := c.object.DeepCopy()
	o.Data["progress"] = string(raw)
	if err := s.live.Update(ctx, o); err != nil {
		return fmt.Errorf("cannot store the progress of a click: %w", err)
	}
	c.object, c.progress = *o, p
	return nil
}

// forget forgets a click or a record.
func (s *store) forget(ctx context.Context, name string) error {
	if err := s.live.Delete(ctx, s.object(name, "")); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete what is stored: %w", err)
	}
	return nil
}

// records returns the records of messages.
func (s *store) records(ctx context.Context) (out []*record, err error) {
	list, err := s.list(ctx, holdsMessage)
	if err != nil {
		return nil, err
	}
	for i := range list {
		r := &record{name: list[i].Name, version: list[i].ResourceVersion}
		if err := json.Unmarshal([]byte(list[i].Data["message"]), r); err != nil {
			return nil, fmt.Errorf("cannot read the record of a message, ConfigMap %s: %w; delete it", list[i].Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// save saves a record that has changed. It fails where another leader has written it.
func (s *store) save(ctx context.Context, r *record) error {
	if !r.dirty {
		return nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode the record of a message: %w", err)
	}
	name := r.name
	if name == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%v", r.Cause, r.Started.UnixNano(), r.Members[0].key()))
		name = "kausality-slack-message-" + hex.EncodeToString(sum[:8])
	}
	o := s.object(name, holdsMessage)
	o.ResourceVersion, o.Data = r.version, map[string]string{"message": string(raw)}
	if r.name == "" {
		err = s.live.Create(ctx, o)
	} else {
		err = s.live.Update(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("cannot store the record of a message: %w", err)
	}
	r.name, r.version, r.dirty = o.Name, o.ResourceVersion, false
	return nil
}
