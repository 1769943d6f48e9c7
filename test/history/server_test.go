package history

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history/query"
	historyserver "github.com/kausality-io/function-kausality/internal/history/server"
	"github.com/kausality-io/function-kausality/internal/history/stream"
	"github.com/kausality-io/function-kausality/internal/records/sink"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// rule of a role.
func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

// historyServer on a real control plane, with a stream of NATS.
type historyServer struct {
	*testing.T
	*controlplane.ControlPlane
	url     string
	certs   string
	cluster types.UID
	nats    jetstream.JetStream
}

// config of a ServiceAccount with rights, by its token.
func (h *historyServer) config(name string, rules ...rbacv1.PolicyRule) *rest.Config {
	h.Helper()
	file, err := h.ServiceAccountKubeconfig(h.Context(), "people", name, rules...)
	require.NoError(h, err)
	c, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(h, err)
	return c
}

// startHistory with all that it needs.
func startHistory(t *testing.T) *historyServer {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	h := &historyServer{T: t, ControlPlane: plane, certs: filepath.Join(plane.Dir(), "history-certs")}
	require.NoError(t, h.CA().ServingCert(h.certs))
	client, err := kubernetes.NewForConfig(h.Config())
	require.NoError(t, err)
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	require.NoError(t, err)
	h.cluster = ns.UID
	broker := h.broker()
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	h.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	config := h.config("history", rule("create", "authentication.k8s.io", "tokenreviews"), rule("create", "authorization.k8s.io", "subjectaccessreviews"),
		rule("get", "", "namespaces", "kube-system"), rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""},
			Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- historyserver.Run(ctx, historyserver.Options{
			Config: config, Log: logr.Discard(), Location: filepath.Join(t.TempDir(), "history.db"), BindAddress: h.url[len("https://"):], CertDir: h.certs,
			MetricsAddress: "0", ProbeAddress: "0", Retention: 24 * time.Hour,
			NATS: stream.Options{URLs: broker.ClientURL(), Stream: "KAUSALITY", Consumer: "history"},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// broker is a NATS server with a stream of records.
func (h *historyServer) broker() *natsserver.Server {
	h.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: h.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(h, err)
	s.Start()
	require.True(h, s.ReadyForConnections(30*time.Second))
	h.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(h, err)
	h.Cleanup(conn.Close)
	h.nats, err = jetstream.New(conn)
	require.NoError(h, err)
	_, err = h.nats.CreateStream(h.Context(), jetstream.StreamConfig{Name: "KAUSALITY", Subjects: []string{"kausality.>"}})
	require.NoError(h, err)
	return s
}

// client of the server, with the credentials of a config for the API server.
func (h *historyServer) client(c *rest.Config) *http.Client {
	h.Helper()
	c = rest.CopyConfig(c)
	c.Host, c.CAFile, c.CAData = h.url, filepath.Join(h.certs, controlplane.FileCA), nil
	client, err := rest.HTTPClientFor(c)
	require.NoError(h, err)
	return client
}

// names of the objects of the records that a client sees, newest first.
func (h *historyServer) names(c *http.Client, values string) (names []string, err error) {
	r, err := http.NewRequestWithContext(h.Context(), http.MethodGet, h.url+"/v1/records?"+values, http.NoBody)
	if err != nil {
		return nil, err
	}
	w, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(w.Body)
	_ = w.Body.Close()
	if err != nil || w.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%d: %s: %w", w.StatusCode, body, err)
	}
	page := query.Page{}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	for _, raw := range page.Records {
		record, err := recordsv1alpha1.Decode(raw)
		if err != nil {
			return nil, err
		}
		names = append(names, record.Object.Name)
	}
	return names, nil
}

// message with a record about a ConfigMap.
func (h *historyServer) message(name string, cluster types.UID) sink.Message {
	h.Helper()
	r := recordsv1alpha1.Record{
		Type: recordsv1alpha1.TypeIntent, Time: metav1.NowMicro(), Cluster: recordsv1alpha1.Cluster{Name: "test", UID: cluster},
		Object: recordsv1alpha1.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}, Actor: &recordsv1alpha1.Actor{User: "anna"},
	}
	r.ID = recordsv1alpha1.ID(r.Cluster, r.Object, r.Type, r.Time.Time)
	raw, err := recordsv1alpha1.Encode(r)
	require.NoError(h, err)
	return sink.Message{Raw: raw, Record: r}
}

// TestServer: on a real API server a sender with a token of a ServiceAccount delivers batches (KR-16-43), of which users see what
// they may see of objects, by tokens and certificates (KR-16-40), in pages (KR-16-36); and records arrive over NATS (KR-16-44).
func TestServer(t *testing.T) {
	h := startHistory(t)
	sender := h.config("sender", rule("create", "kausality.io", "records"))
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(sender.BearerToken), 0o600))
	to, err := sink.Parse("cloudevents=" + h.url + "/v1/records,token-file=" + token + ",ca-file=" + filepath.Join(h.certs, controlplane.FileCA))
	require.NoError(t, err)
	out, err := sink.New(to)
	require.NoError(t, err)
	batch := []sink.Message{h.message("orders", h.cluster), h.message("users", h.cluster), h.message("elsewhere", "another-cluster")}
	wait.For(t, "the records are delivered", time.Minute, func(ctx context.Context) error { return out.Send(ctx, batch) })
	require.NoError(t, out.Send(t.Context(), batch), "once more changes nothing")

	sees := func(c *http.Client, values string, want ...string) {
		t.Helper()
		wait.For(t, "the user sees records", 30*time.Second, func(context.Context) error {
			if got, err := h.names(c, values); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("want %v, got %v: %w", want, got, err)
			}
			return nil
		})
	}
	sees(h.client(h.config("auditor", rule("list", "kausality.io", "records"))), "", "elsewhere", "users", "orders")
	sees(h.client(h.config("reader", rule("get", "", "configmaps"))), "", "users", "orders")
	one := h.client(h.config("one", rule("get", "", "configmaps", "orders")))
	sees(one, "", "orders")
	sees(one, "kind=ConfigMap&namespace=shop&name=users")
	sees(h.client(h.config("other", rule("get", "kausality.io", "records", "another-cluster"))), "", "elsewhere")
	sees(h.client(h.config("none", rule("get", "", "secrets"))), "")

	require.NoError(t, h.Grant(t.Context(), "berta", rule("get", "", "configmaps", "users")))
	file, err := h.Kubeconfig("berta", "berta")
	require.NoError(t, err)
	berta, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	sees(h.client(berta), "", "users")

	anonymous := rest.AnonymousClientConfig(h.Config())
	_, err = h.names(h.client(anonymous), "")
	require.ErrorContains(t, err, "401")
	_, err = h.names(h.client(berta), url.Values{"limit": {"100000"}}.Encode())
	require.ErrorContains(t, err, "400")

	for range 3 { // a stream's own window of repetitions is minutes; the store's key decides
		m := h.message("streamed", "third-cluster")
		for _, again := range []string{"", "again"} {
			_, err := h.nats.PublishMsg(t.Context(), &nats.Msg{
				Subject: "kausality.third-cluster.Intent", Data: m.Raw, Header: nats.Header{nats.MsgIdHdr: {m.Record.ID + again}},
			})
			require.NoError(t, err)
		}
	}
	third := h.client(h.config("third", rule("get", "kausality.io", "records", "third-cluster")))
	sees(third, "", "streamed", "streamed", "streamed")
	consumer, err := h.nats.Consumer(t.Context(), "KAUSALITY", "history")
	require.NoError(t, err)
	wait.For(t, "all messages are acknowledged", time.Minute, func(ctx context.Context) error {
		info, err := consumer.Info(ctx)
		if err == nil && info.NumAckPending+int(info.NumPending) > 0 {
			err = fmt.Errorf("%d are not", info.NumAckPending)
		}
		return err
	})
	sees(third, "", "streamed", "streamed", "streamed")
}
