package view

import (
	"net/http"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	// Lines of one cause in a list of causes, which bound its size (KR-17-15): of authors, of fields, and of what is decided or missing.
	maxAuthors = 2
	maxFields  = 2
	maxDecided = 3
	// maxBehind of what no approval lets pass, and maxNotes, that are listed.
	maxBehind = 10
	maxNotes  = 5
)

// Brief is what a list of causes shows of one, cut lines.
type Brief struct {
	Authors, Fields, Missing []string
}

// Brief returns the brief of a cause.
func (c *Cause) Brief() Brief {
	return Brief{Authors: clipped(c.Causes, maxAuthors), Fields: clipped(c.Fields, maxFields), Missing: clipped(c.Decided, maxDecided)}
}

// Changes returns how many there are.
func (s *Snapshot) Changes() string {
	return channel.Plural(s.Total, "change") + " of " + channel.Plural(len(s.Causes), "cause")
}

// Notes returns sentences about what is not listed, cut.
func (s *Snapshot) Notes() []string { return clipped(s.Unread, maxNotes) }

// Listed returns those changes that no approval lets pass that are listed; more are not.
func (s *Snapshot) Listed() (list []inspect.Behind, more int) {
	n := min(len(s.Behind), maxBehind)
	return s.Behind[:n], len(s.Behind) - n
}

// BehindText returns what a change is that no approval lets pass.
func BehindText(b *inspect.Behind) string {
	return b.Reason + ": " + channel.Clip(channel.Summary(&v1alpha1.Drift{Spec: b.DriftSpec}))
}

// clipped returns the first lines of some, each cut.
func clipped(lines []string, most int) []string {
	return lists.Map(lines[:min(len(lines), most)], channel.Clip)
}

// NoCause returns the state of a cause of which nothing waits any more.
func NoCause() *State {
	return &State{Status: http.StatusNotFound, Title: "Nothing waits for that cause",
		Text: "All of its changes are decided or over, or were replaced by others. The first page lists what waits now."}
}
