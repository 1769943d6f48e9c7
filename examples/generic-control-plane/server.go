package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericserver "k8s.io/apiserver/pkg/server"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/apiserver"

	gardenv1 "github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1"
)

// admissionConfiguration of the server: what Kausality guards.
//
//go:embed admission.yaml
var admissionConfiguration []byte

// users by their tokens, which a real server would not have in its source.
var users = map[string]*user.DefaultInfo{
	"hans":       {Name: "hans", Groups: []string{gardeners, user.AllAuthenticated}},
	"controller": {Name: "system:serviceaccount:gardens:controller", Groups: []string{controllers, user.AllAuthenticated}},
}

const (
	gardeners   = "gardeners"
	controllers = "system:serviceaccounts:gardens"
	plants      = "plants"
)

// authorize a request: gardeners do anything with gardens, and only read plants; controllers write both, but may not approve their own changes.
func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	reads := a.IsReadOnly() || !a.IsResourceRequest()
	for _, group := range a.GetUser().GetGroups() {
		switch {
		case group == user.SystemPrivilegedGroup:
			return authorizer.DecisionAllow, "", nil
		case group == gardeners && (reads || a.GetAPIGroup() == gardenv1.GroupVersion.Group && a.GetResource() != plants),
			group == controllers && (reads || a.GetVerb() != "approve" && a.GetAPIGroup() == gardenv1.GroupVersion.Group):
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "the example allows nothing else", nil
}

// server with its storage.
type server struct {
	prepared  func(context.Context) error
	etcd      *embed.Etcd
	loopback  *rest.Config
	kausality *apiserver.Kausality
}

// newServer whose data are in a directory.
func newServer(dir string) (*server, error) {
	s := &server{kausality: apiserver.New()}
	s.kausality.Clusters = clusters
	var err error
	if s.etcd, err = startEtcd(dir); err != nil {
		return nil, err
	}
	if err := s.assemble(dir); err != nil {
		s.etcd.Close()
		return nil, err
	}
	return s, nil
}

// startEtcd within this process, at a free port.
func startEtcd(dir string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir, c.LogOutputs = filepath.Join(dir, "etcd"), []string{filepath.Join(dir, "etcd.log")}
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = local, local, local, local
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("cannot start etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, fmt.Errorf("etcd ended: %w", err)
	case <-time.After(time.Minute):
		e.Close()
		return nil, errors.New("etcd is not ready after a minute")
	}
}

// assemble the servers: the one of the kinds of this program in front of the one of CRDs, with the same admission.
func (s *server) assemble(dir string) error {
	config, etcd, err := s.config(dir)
	if err != nil {
		return err
	}
	custom := *config
	custom.PostStartHooks = map[string]genericserver.PostStartHookConfigEntry{}
	custom.MergedResourceConfig = apiextensions.DefaultAPIResourceConfigSource()
	crds := *etcd
	crds.SkipHealthEndpoints = true // those of config suffice
	crds.StorageConfig.Codec = apiextensions.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	if err := crds.ApplyTo(&custom.Config); err != nil {
		return err
	}
	resources := apiextensionsoptions.NewCRDRESTOptionsGetter(*etcd, config.ResourceTransformers, config.StorageObjectCountTracker)
	below := &apiextensions.Config{GenericConfig: &custom, ExtraConfig: apiextensions.ExtraConfig{
		CRDRESTOptionsGetter: byCluster{resources}, MasterCount: 1, ServiceResolver: webhook.NewDefaultServiceResolver(),
		AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, nil),
	}}
	definitions, err := below.Complete().New(genericserver.NewEmptyDelegateWithCustomHandler(http.NotFoundHandler()))
	if err != nil {
		return fmt.Errorf("cannot serve CRDs: %w", err)
	}
	front, err := config.Complete().New("generic-control-plane", definitions.GenericAPIServer)
	if err != nil {
		return fmt.Errorf("cannot make the server: %w", err)
	}
	if err := install(front, byCluster{config.RESTOptionsGetter}); err != nil {
		return err
	}
	s.prepared = front.PrepareRun().RunWithContext
	return nil
}

// config of the server in front.
func (s *server) config(dir string) (*genericserver.RecommendedConfig, *serveroptions.EtcdOptions, error) {
	c := genericserver.NewRecommendedConfig(codecs)
	c.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis") // one for both servers
	c.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	namer := openapinamer.NewDefinitionNamer(scheme, apiextensions.Scheme)
	c.OpenAPIConfig = genericserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(definitions, namer)
	if err := serve(c, dir); err != nil {
		return nil, nil, err
	}
	s.loopback = c.LoopbackClientConfig
	c.Authentication.Authenticator = bearertoken.New(authenticator.TokenFunc(tokenfile.New(users).AuthenticateToken))
	c.Authorization.Authorizer = authorizer.AuthorizerFunc(authorize)
	etcd := serveroptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", codecs.LegacyCodec(versions()...)))
	etcd.StorageConfig.Transport.ServerList = []string{"http://" + s.etcd.Clients[0].Addr().String()}
	etcd.EnableWatchCache = false // one for all clusters would be wrong
	if err := etcd.ApplyTo(&c.Config); err != nil {
		return nil, nil, fmt.Errorf("cannot configure storage: %w", err)
	}
	if err := s.admit(c, dir); err != nil {
		return nil, nil, err
	}
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(h http.Handler, c *genericserver.Config) http.Handler { return withCluster(build(h, c)) }
	return c, etcd, nil
}

// serve at a free port of this machine.
func serve(c *genericserver.RecommendedConfig, dir string) error {
	o := serveroptions.NewSecureServingOptions().WithLoopback()
	var err error
	if o.Listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	address, _ := o.Listener.Addr().(*net.TCPAddr)
	o.BindAddress, o.BindPort, o.ServerCert.CertDirectory = address.IP, address.Port, filepath.Join(dir, "certs")
	if err := o.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{address.IP}); err != nil {
		return fmt.Errorf("cannot make a certificate: %w", err)
	}
	if err := o.ApplyTo(&c.SecureServing, &c.LoopbackClientConfig); err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	c.ExternalAddress = address.String()
	return nil
}

// admit requests by Kausality alone.
func (s *server) admit(c *genericserver.RecommendedConfig, dir string) error {
	file := filepath.Join(dir, "admission.yaml")
	if err := os.WriteFile(file, admissionConfiguration, 0o600); err != nil {
		return err
	}
	o := serveroptions.NewAdmissionOptions()
	o.Plugins, o.ConfigFile = admission.NewPlugins(), file
	s.kausality.Register(o.Plugins)
	o.RecommendedPluginOrder, o.DefaultOffPlugins = apiserver.Order(nil), nil
	client, err := kubernetes.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return err
	}
	c.SharedInformerFactory = informers.NewSharedInformerFactory(client, 0)
	if err := o.ApplyTo(&c.Config, c.SharedInformerFactory, client, dynamicClient, utilfeature.DefaultFeatureGate, c.EffectiveVersion); err != nil {
		return fmt.Errorf("cannot configure admission: %w", err)
	}
	return s.kausality.AddTo(&c.Config)
}

// run until the context ends.
func (s *server) run(ctx context.Context) error {
	defer s.etcd.Close()
	return s.prepared(ctx)
}

// as is the configuration of a user's clients, in a cluster.
func (s *server) as(token, cluster string) *rest.Config {
	c := rest.AnonymousClientConfig(s.loopback)
	c.BearerToken = token
	return clusters.Config(c, cluster)
}
