package kinds

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// partial is a discovery in which some groups do not answer.
type partial struct {
	discovery.DiscoveryInterface
	err error
}

func (p partial) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, served, err := p.DiscoveryInterface.ServerGroupsAndResources()
	return groups, served, errors.Join(err, p.err)
}

func serving(lists ...*metav1.APIResourceList) discovery.DiscoveryInterface {
	return &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}
}

func resource(name, kind string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true}
}

var (
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	appsServed = &metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{resource("deployments",
		"Deployment"), resource("deployments/status", "Deployment"), resource("controllerrevisions", "ControllerRevision")}}
	flunder     = schema.GroupVersionKind{Group: "wardle.example.org", Version: "v1", Kind: "Flunder"}
	flundersOff = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{flunder.GroupVersion(): errors.New("its API server does not answer")}}
)

func kindsWithMapper() *Kinds {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(deployment, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, meta.RESTScopeNamespace)
	mapper.Add(flunder, meta.RESTScopeNamespace)
	return &Kinds{Mapper: mapper, byGVK: map[schema.GroupVersionKind]version{}, legacy: map[schema.GroupKind]bool{},
		stale: make(chan struct{}, 1), OnDiscovery: func() {}}
}

func names(all []Info) string {
	var out []string
	for _, i := range all {
		out = append(out, i.GVK.Kind)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestDiscover: a built-in kind is known once it has a status, and stays known while
// its API server does not answer.
func TestDiscover(t *testing.T) {
	flunders := &metav1.APIResourceList{GroupVersion: "wardle.example.org/v1", APIResources: []metav1.APIResource{resource("flunders/status", "Flunder")}}
	steps := []struct {
		reason string
		client discovery.DiscoveryInterface
		want   string
		fails  bool
	}{
		{reason: "a kind without a status is the parent of nothing", client: serving(appsServed, flunders), want: "Deployment Flunder"},
		{reason: "an API server that does not answer keeps its kinds", client: partial{serving(appsServed), flundersOff}, want: "Deployment Flunder", fails: true},
		{reason: "a discovery that fails altogether changes nothing", client: partial{serving(), errors.New("EOF")}, want: "Deployment Flunder", fails: true},
		{reason: "a kind that is gone is forgotten", client: serving(appsServed), want: "Deployment"},
	}
	k := kindsWithMapper()
	changes := 0
	k.OnDiscovery = func() { changes++ }
	for _, step := range steps {
		if err := k.discover(step.client); (err != nil) != step.fails {
			t.Errorf("%s: error %v", step.reason, err)
		}
		if got := names(k.Discovered()); got != step.want {
			t.Errorf("%s: discovered are %q, want %q", step.reason, got, step.want)
		}
	}
	if changes != 2 {
		t.Errorf("the kinds changed twice, and %d changes were reported", changes)
	}
	k.byGVK[deployment] = version{Info: Info{GVK: deployment}}
	if got := names(k.Discovered()); got != "" {
		t.Errorf("what a CRD defines is no built-in kind: %q", got)
	}
}
