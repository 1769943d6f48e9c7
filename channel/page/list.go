package page

import (
	"context"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

const (
	// maxCauses and maxChanges of one page.
	maxCauses  = 40
	maxChanges = 100
)

// paging of a list.
type paging struct {
	// From and To are the numbers of the first and the last, Of is how many there are.
	From, To, Of int
	// Before and After are links; empty for none.
	Before, After string
}

// pageOf returns the page of a list of n, by the parameter from of a query. link is the page that begins with a number.
func pageOf(r *http.Request, n, size int, link func(from string) string) (p paging, from, to int) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from >= n {
		from = 0
	}
	to = min(from+size, n)
	p = paging{From: from + 1, To: to, Of: n}
	if from > 0 {
		p.Before = link(strconv.Itoa(max(from-size, 0)))
	}
	if to < n {
		p.After = link(strconv.Itoa(to))
	}
	return p, from, to
}

// lists are the pages with what waits.
type lists struct{ *Page }

// overviewData of the first page.
type overviewData struct {
	*view.Snapshot
	Cards  []cardData
	Paging paging
	Behind []behindData
	More   int
	// At is when it was read; Away is why it could not be read again, empty where it is fresh.
	At   metav1.Time
	Away string
}

// cardData of a cause.
type cardData struct {
	*view.Cause
	Href string
}

// behindData of a change that no approval lets pass.
type behindData struct{ Text, Parent, Href string }

// overview returns the first page: what waits, by cause (KR-17-12).
func (p lists) overview(ctx context.Context, q *query) (*answer, error) {
	s, err := p.view.Pending(ctx)
	if s == nil {
		return nil, err
	}
	data := &overviewData{Snapshot: s, At: metav1.NewTime(s.At)}
	if err != nil {
		data.Away = channel.Clip(err.Error())
	}
	paged, from, to := pageOf(q.Request, len(s.Causes), maxCauses, func(from string) string { return p.href("/", "from", from) })
	data.Paging = paged
	for _, c := range s.Causes[from:to] {
		data.Cards = append(data.Cards, cardData{Cause: c, Href: p.href("/cause", "key", c.Key)})
	}
	behind, more := s.Listed()
	for n := range behind {
		b := &behind[n]
		data.Behind = append(data.Behind, behindData{Text: view.BehindText(b), Parent: channel.Describe(b.Parent), Href: p.links.object(b.Parent)})
	}
	data.More = more
	return &answer{live: true, template: "overview.html", title: "What waits", data: data}, nil
}

// causeData of one cause.
type causeData struct {
	*channel.Card
	Listed []listed
	Paging paging
	Away   string
	At     metav1.Time
}

// listed is a change in a list.
type listed struct {
	*channel.Entry
	Href, Change string
}

// cause shows the changes of one cause.
func (p lists) cause(ctx context.Context, q *query) (*answer, error) {
	s, err := p.view.Pending(ctx)
	if s == nil {
		return nil, err
	}
	key := q.URL.Query().Get("key")
	for _, c := range s.Causes {
		if c.Key != key {
			continue
		}
		data := &causeData{Card: c.Card, At: metav1.NewTime(s.At)}
		if err != nil {
			data.Away = channel.Clip(err.Error())
		}
		paged, from, to := pageOf(q.Request, len(c.Changes), maxChanges, func(from string) string { return p.href("/cause", "key", key, "from", from) })
		data.Paging = paged
		for _, d := range c.Changes[from:to] {
			e := channel.EntryOf(d, c.Ruling(d))
			data.Listed = append(data.Listed, listed{Entry: &e, Href: p.links.change(d, ""), Change: channel.Clip(e.Change)})
		}
		return &answer{live: true, template: "cause.html", title: channel.Clip(c.Title), data: data}, nil
	}
	return nil, view.NoCause()
}
