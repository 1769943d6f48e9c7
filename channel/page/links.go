package page

import (
	"net/url"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// eventsPath is where a page hears of changes.
const eventsPath = "/events"

// links of a page.
type links struct {
	// base is the path below which everything is; others cannot guess it, so that a cookie for it is sent to no other server of the same host.
	base string
}

// href returns a link to a path of the page, with a query of names and values.
func (l links) href(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	if len(q) == 0 {
		return l.base + path
	}
	return l.base + path + "?" + q.Encode()
}

// change returns the page of a change or, with an action, the page that confirms it.
func (l links) change(d *v1alpha1.Drift, a channel.Action) string {
	return l.href("/change/"+d.Name+channel.Part("/", string(a), ""), "namespace", d.Namespace)
}

// object returns the page of an object; empty for one without a name.
func (l links) object(o v1alpha1.ObjectReference) string {
	if o.Name == "" {
		return ""
	}
	return l.freeze(o, "")
}

// freeze returns the page of an object or, with an action, the page that confirms its freeze or the end of it.
func (l links) freeze(o v1alpha1.ObjectReference, a channel.Action) string {
	return l.href("/object"+channel.Part("/", string(a), ""), "apiVersion", o.APIVersion, "kind", o.Kind, "namespace", o.Namespace, "name", o.Name)
}
