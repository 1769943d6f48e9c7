package slack

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the pictures of docs/images")

// TestPictures: the pictures of the documents show the messages as they are sent.
func TestPictures(t *testing.T) {
	look := renderer{config: &Config{ClusterName: "prod-eu-1"}, zone: time.UTC}
	one := held(1)
	one.Spec.Parent.Name, one.Spec.Child.Name, one.Name = "orders", "orders-abc", "7642947475a29290"
	one.Spec.Difference = append(one.Spec.Difference,
		v1alpha1.FieldDifference{Path: "spec.forProvider.engineVersion", Verb: "Mutate", Old: `"15.4"`, New: `"16.1"`})
	one.Status.Votes, one.Status.Lacks = []v1alpha1.Vote{{User: "hans@example.com"}}, "1 of 2 approvals by users of group dba"
	var many []v1alpha1.Drift
	for n, is := range []func(*v1alpha1.Drift){
		func(*v1alpha1.Drift) {},
		func(d *v1alpha1.Drift) {
			d.Status.Ruling = &v1alpha1.DriftRuling{Rejected: &v1alpha1.Rejection{Reason: "not before the migration"}}
		},
		func(d *v1alpha1.Drift) {
			d.Status.Ruling = &v1alpha1.DriftRuling{Snooze: &v1alpha1.Snooze{Expiry: metav1.NewTime(morning.Add(23 * time.Hour)), User: "anna@example.com"}}
		},
		func(d *v1alpha1.Drift) {
			vote := v1alpha1.Vote{User: "anna@example.com", BreakGlass: "INC-4711: the disk is full"}
			d.Status.Phase, d.Status.Resolution, d.Status.BrokenGlass = v1alpha1.DriftResolved, "approved, and it landed", &vote
			d.Status.Approval = &v1alpha1.HopApproval{By: []v1alpha1.Vote{vote}}
		},
	} {
		d := held(n)
		d.Name = []string{"7642947475a29290", "1f2e3d4c5b6a7980", "93c0ffe1e2d3a4b5", "0badcafe01234567"}[n]
		d.Spec.Parent.Name, d.Spec.Child.Name = []string{"orders", "billing", "search", "mail"}[n], []string{"orders", "billing", "search", "mail"}[n]+"-abc"
		is(d)
		many = append(many, *d)
	}
	for name, shown := range map[string][]message{
		"slack-held":     messagesOf(look, *one),
		"slack-thread":   messagesOf(look, many...),
		"slack-reminder": {look.reminder(&overdue{drifts: []v1alpha1.Drift{*one}}, morning.Add(75*time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			got := pictureOf(t, shown)
			require.NoError(t, xml.Unmarshal(got, &struct{}{}), "well-formed")
			file := filepath.Join("..", "..", "docs", "images", name+".svg")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o644)) //nolint:gosec // It is committed and public.
			}
			want, err := os.ReadFile(file) //nolint:gosec // A file of this repository.
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got), "the message has changed: go test ./channel/slack -run TestPictures -update")
		})
	}
}

// messagesOf some changes of one cause, as they are sent: the message, and the entries of its thread.
func messagesOf(look renderer, list ...v1alpha1.Drift) (out []message) {
	drifts, owed := map[key]*v1alpha1.Drift{}, []*v1alpha1.Drift(nil)
	for i := range list {
		d := list[i].DeepCopy()
		d.Status.Phase = v1alpha1.DriftDetected
		drifts[keyOf(&list[i])], owed = &list[i], append(owed, d)
	}
	r := assign(nil, owed, morning)[0]
	settle([]*record{r}, drifts, morning)
	card, members := r.members(drifts)
	out = append(out, look.main(card, members, len(members)))
	for i := range members {
		if len(members) > 1 {
			out = append(out, look.entry(&members[i]))
		}
	}
	return out
}

// Sizes of the pictures, in pixels.
const (
	pictureWidth = 720.0
	letterWidth  = 8.2
	codeWidth    = 7.3
	lineHeight   = 20.0
	indent       = 56.0
)

// picture of messages as Slack shows them.
type picture struct {
	body bytes.Buffer
	// x is the left edge of a message, y the bottom of what was drawn.
	x, y float64
}

// pictureOf messages, those after the first in its thread, by the JSON of their blocks.
func pictureOf(t *testing.T, all []message) []byte {
	p := &picture{x: indent, y: 14}
	for n, m := range all {
		if n == 1 {
			p.x += 34
			p.y += 6
			fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f" fill="#1264a3" font-weight="600">%d replies</text>`+"\n", p.x-34, p.y+14, len(all)-1)
			p.y += 28
		}
		p.author(m)
		raw, err := json.Marshal(m.blocks)
		require.NoError(t, err)
		var blocks []block
		require.NoError(t, json.Unmarshal(raw, &blocks))
		for _, b := range blocks {
			p.block(b)
		}
		p.y += 12
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n",
		pictureWidth, p.y, pictureWidth, p.y, escape("A message of Kausality in Slack: "+all[0].text))
	fmt.Fprintf(&out, `<rect width="%.0f" height="%.0f" rx="8" fill="#ffffff" stroke="#dddddd"/>`+"\n", pictureWidth, p.y)
	out.WriteString(`<g font-family="Lato, system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="14" fill="#1d1c1d">` + "\n")
	out.Write(p.body.Bytes())
	out.WriteString("</g>\n</svg>\n")
	return out.Bytes()
}

// author of a message, as Slack shows an app.
func (p *picture) author(m message) {
	fmt.Fprintf(&p.body, `<rect x="%.0f" y="%.0f" width="30" height="30" rx="6" fill="#4a154b"/>`+"\n", p.x-40, p.y)
	fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f" fill="#ffffff" font-weight="700">K</text>`+"\n", p.x-30, p.y+20)
	also := ""
	if m.broadcast {
		also = "  replied to a thread"
	}
	fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f"><tspan font-weight="700">Kausality</tspan>`, p.x, p.y+12)
	fmt.Fprintf(&p.body, `<tspan fill="#616061" font-size="12">  APP%s</tspan></text>`+"\n", also)
	p.y += 20
}

// block of Block Kit, as far as messages have it.
type block struct {
	Type     string    `json:"type"`
	Text     text      `json:"text"`
	Elements []element `json:"elements"`
}

type text struct{ Text string }

// UnmarshalJSON reads a text object, or the text of an element of rich text.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &t.Text)
	}
	object := struct {
		Text string `json:"text"`
	}{}
	err := json.Unmarshal(raw, &object)
	t.Text = object.Text
	return err
}

// element of a block: a section of rich text, preformatted text, a button or a menu.
type element struct {
	Type        string    `json:"type"`
	Text        text      `json:"text"`
	Placeholder text      `json:"placeholder"`
	Confirm     *struct{} `json:"confirm"`
	Style       any       `json:"style"`
	Elements    []element `json:"elements"`
}

// block draws one.
func (p *picture) block(b block) {
	switch b.Type {
	case "header":
		p.write(b.Text.Text, letterWidth+1.6, `font-weight="900" font-size="17"`)
		p.y += 4
	case "rich_text":
		for _, e := range b.Elements {
			for _, part := range e.Elements {
				if e.Type == "rich_text_preformatted" {
					p.code(part.Text.Text)
					continue
				}
				bold := ""
				if part.Style != nil {
					bold = `font-weight="700"`
				}
				p.write(strings.TrimPrefix(part.Text.Text, "\n"), letterWidth, bold)
			}
		}
	case "actions":
		p.buttons(b.Elements)
	}
}

// write a text, wrapped.
func (p *picture) write(s string, letter float64, style string) {
	for _, l := range wrapped(s, int((pictureWidth-p.x-20)/letter)) {
		p.y += lineHeight
		fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f" %s>%s</text>`+"\n", p.x, p.y-5, style, escape(l))
	}
}

// code is preformatted text.
func (p *picture) code(s string) {
	lines := wrapped(s, int((pictureWidth-p.x-40)/codeWidth))
	height := float64(len(lines))*18 + 14
	fmt.Fprintf(&p.body, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="4" fill="#f8f8f8" stroke="#dddddd"/>`+"\n",
		p.x, p.y+4, pictureWidth-p.x-20, height)
	for n, l := range lines {
		fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">%s</text>`+"\n",
			p.x+10, p.y+22+float64(n)*18, escape(l))
	}
	p.y += height + 8
}

// buttons and menus, in as many rows as they take.
func (p *picture) buttons(all []element) {
	x := p.x
	p.y += 6
	for _, e := range all {
		label, stroke, fill := e.Text.Text, "#bbbbbb", "#ffffff"
		if e.Type == "static_select" {
			label = e.Placeholder.Text + " ▾"
		}
		if e.Style == "primary" {
			stroke, fill = "#007a5a", "#007a5a"
		}
		ink := "#1d1c1d"
		if fill != "#ffffff" {
			ink = "#ffffff"
		}
		width := float64(len([]rune(label)))*letterWidth + 24
		if x+width > pictureWidth-16 {
			x, p.y = p.x, p.y+38
		}
		fmt.Fprintf(&p.body, `<rect x="%.0f" y="%.0f" width="%.0f" height="30" rx="4" fill="%s" stroke="%s"/>`+"\n", x, p.y, width, fill, stroke)
		fmt.Fprintf(&p.body, `<text x="%.0f" y="%.0f" text-anchor="middle" font-weight="600" fill="%s">%s</text>`+"\n", x+width/2, p.y+20, ink, escape(label))
		x += width + 8
	}
	p.y += 38
}

// wrapped text: lines of at most so many letters, which end between words where they can.
func wrapped(s string, most int) (out []string) {
	for _, l := range strings.Split(s, "\n") {
		rest := []rune(l)
		for len(rest) > most {
			cut := strings.LastIndex(string(rest[:most]), " ")
			if cut <= 0 {
				cut = len(string(rest[:most]))
			}
			head := string(rest)[:cut]
			out, rest = append(out, head), []rune(strings.TrimPrefix(string(rest)[cut:], " "))
		}
		out = append(out, string(rest))
	}
	return out
}

// escape a text for XML.
func escape(s string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(s)); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return out.String()
}
