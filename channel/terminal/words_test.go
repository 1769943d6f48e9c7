package terminal

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/page"
	"github.com/kausality-io/function-kausality/channel/slack"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

// TestSameWords covers KR-17-20: a cause and a change have the same words, in the same order, with the same actions on the page, in Slack, and in the
// terminal, on its screens and line by line.
func TestSameWords(t *testing.T) {
	other := viewtest.Held(func(d *v1alpha1.Drift) {
		waiting(d)
		d.Name, d.Spec.ID, d.Spec.Child.Name = "00000000000000aa", "00000000000000aa", "bills"
	})
	_, o, _ := viewtest.New(t, viewtest.Held(waiting), other)
	list := []v1alpha1.Drift{*other, *viewtest.Held(waiting)}
	words := wordsOf(list)
	golden(t, "words", strings.Join(words, "\n")+"\n")
	for name, text := range map[string]string{
		"Page": onPage(t, o, other), "Slack": inSlack(t, list), "Terminal": onScreens(t, o), "Plain": lineByLine(t, o, "1\n1\nq\n"),
	} {
		t.Run(name, func(t *testing.T) {
			inOrder(t, text, words...)
			assert.Equal(t, []string{"Approve once", "Reject", "Withdraw", "Snooze"}, actionsIn(text), "no others, and in this order")
		})
	}
}

// wordsOf a cause, its first change, and the actions on that, as package channel has them.
func wordsOf(list []v1alpha1.Drift) []string {
	c := channel.CardOf(channel.ByCause(list)[0], func(*v1alpha1.Drift) channel.Ruling { return channel.Ruling{} }, "")
	words := append([]string{c.Title, c.Counts}, c.Causes...)
	words = append(append(words, c.Fields...), c.Decided...)
	e := channel.EntryOf(&list[0], channel.Ruling{})
	words = append(words, e.Effect)
	for _, a := range e.Actions {
		if a != channel.ActionOpen { // it is open
			words = append(words, channel.Label(a))
		}
	}
	return words
}

// actionsIn a text, in their order. Of what it has more than once, the first counts.
func actionsIn(text string) (out []string) {
	seen := map[string]bool{}
	for _, found := range regexp.MustCompile(`\b(Approve once|Reject|Withdraw|Snooze|Make an exception|Unfreeze\b)`).FindAllString(text, -1) {
		if !seen[found] {
			seen[found] = true
			out = append(out, found)
		}
	}
	return out
}

// onPage is the text of the pages of the cause and of a change.
func onPage(t *testing.T, o view.Options, d *v1alpha1.Drift) string {
	t.Helper()
	var p *page.Local
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	p, err := page.NewLocal(page.Options{Options: o, Cluster: "prod"}, strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	get := func(path string) string {
		r, err := client.Get(server.URL + path)
		require.NoError(t, err)
		defer r.Body.Close() //nolint:errcheck // It was read.
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode, string(raw))
		_, main, _ := strings.Cut(string(raw), "<main")
		return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(main, " "))
	}
	link, err := url.Parse(p.Link())
	require.NoError(t, err)
	base := strings.TrimSuffix(link.Path, "/enter")
	get(p.Link())
	return get(base+"/cause?key="+channel.CauseKey(d)) + get(base+"/change/"+d.Name+"?namespace="+d.Namespace)
}

// inSlack is the text of the messages of the cause and of its first change.
func inSlack(t *testing.T, list []v1alpha1.Drift) string {
	t.Helper()
	raw, err := slack.Show(&slack.Config{}, list)
	require.NoError(t, err)
	var messages []struct {
		Blocks []any `json:"blocks"`
	}
	require.NoError(t, json.Unmarshal(raw, &messages))
	var out strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] == "static_select" { // its options are the times
				walk(v["placeholder"])
				return
			}
			if text, is := v["text"].(string); is {
				out.WriteString(text + "\n")
			} else {
				walk(v["text"])
			}
			walk(v["elements"])
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	for n := range messages[:2] {
		walk(messages[n].Blocks)
	}
	return strings.ReplaceAll(out.String(), "\u2060", "")
}

// onScreens is the text of the screens of the cause and of a change.
func onScreens(t *testing.T, o view.Options) string {
	t.Helper()
	d := drive(t, o, 200, 60)
	return d.keys("enter").screen() + d.keys("enter").screen()
}
