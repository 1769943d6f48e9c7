package apiserver

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/server"
)

// maxUserAgent bounds what is kept of a User-Agent, in bytes.
const maxUserAgent = 128

type userAgentKey struct{}

// WithUserAgent returns a handler that puts the User-Agent of each request into its context: it is the last resort to distinguish one build of a controller
// from another, where the controller runs outside of Pods. It is a claim.
func WithUserAgent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.UserAgent()
		name = strings.ToValidUTF8(name[:min(len(name), maxUserAgent)], "")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userAgentKey{}, name)))
	})
}

// userAgent of the request that a context is of; "" where it is not known.
func userAgent(ctx context.Context) string {
	name, _ := ctx.Value(userAgentKey{}).(string)
	return name
}

// AddTo a server: the filter of WithUserAgent in front of its handlers, and Start as a post-start hook. Of a server that is composed of
// several, it is for the first.
func (k *Kausality) AddTo(c *server.Config) error {
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(handler http.Handler, c *server.Config) http.Handler { return WithUserAgent(build(handler, c)) }
	return c.AddPostStartHook("start-kausality", func(h server.PostStartHookContext) error { return k.Start(h, h.LoopbackClientConfig) })
}
