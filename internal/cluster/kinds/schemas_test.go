package kinds

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/internal/await"
)

const strictCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xstricts.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {kind: XStrict, plural: xstricts, categories: [composite]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: string, description: how large}}}}}}}
  - {name: v2, served: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {engine: {type: string}}}}}}}`

// documents are the OpenAPI documents of real built-in kinds.
type documents struct{ discovery.DiscoveryInterface }

func (documents) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

// schemasOf a cluster with XStrict and Deployments.
func schemasOf(t *testing.T, served discovery.DiscoveryInterface) (*Schemas, *fake.FakeDynamicClient) {
	t.Helper()
	o := crd(t, strictCRD)
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{CRDs: "CustomResourceDefinitionList"}, o)
	kinds, err := New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Schemas{kinds: kinds, client: client, discovery: documents{served}, now: time.Now, byKind: lru.New(maxSchemas), documents: lru.New(maxSchemas)}
	kinds.OnDefined(func(gk schema.GroupKind) { s.byKind.Remove(gk) })
	go kinds.Run(t.Context())
	if !kinds.Synced(t.Context()) {
		t.Fatal("the CRDs are not read")
	}
	return s, client
}

func lacking(t *testing.T, k allowance.Kind, version, path string) string {
	t.Helper()
	p, err := change.ParsePattern(path)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := k.Schemas[version]
	if !ok {
		t.Errorf("%s has no version %s", k.GroupKind, version)
	}
	return s.LacksPattern(p)
}

// What policies name is found in CRDs and in the documents of built-in kinds (KR-06-28).
func TestSchemasFind(t *testing.T) {
	s, client := schemasOf(t, serving(appsServed))
	for _, anyGroup := range []bool{false, true} {
		found, known := s.Find("XStrict", "example.org", anyGroup)
		if !known || len(found) != 1 || !found[0].External || !found[0].ClusterScoped {
			t.Fatalf("found %+v, %t", found, known)
		}
		if lacking(t, found[0], "v1", "spec.size") != "" || lacking(t, found[0], "v1", "spec.engine") == "" || lacking(t, found[0], "v2", "spec.engine") != "" {
			t.Errorf("schemas %+v", found[0].Schemas)
		}
		found, known = s.Find("Deployment", "apps", anyGroup)
		if !known || len(found) != 1 || found[0].External || found[0].ClusterScoped {
			t.Fatalf("found %+v, %t", found, known)
		}
		for path, want := range map[string]string{"spec.replicas": "", "spec.template.spec.containers[*].image": "", "spec.jiraTicket": "spec.jiraTicket",
			"spec.template.spec.containers[*].img": "spec.template.spec.containers[*].img", "status.observedGeneration": "",
			"spec.template.metadata.labels[a]": "", "spec.template.spec.nodeSelector[a/b]": ""} {
			if got := lacking(t, found[0], "v1", path); got != want {
				t.Errorf("%s lacks %q", path, got)
			}
		}
		if found, known := s.Find("Nothing", "example.org", anyGroup); !known || len(found) > 0 {
			t.Errorf("found %+v, %t", found, known)
		}
	}
	if found, known := s.Find("XStrict", "apps", false); !known || len(found) > 0 {
		t.Errorf("in another group: %+v, %t", found, known)
	}
	reads := func() int {
		return len(slices.DeleteFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() != "get" }))
	}
	before := reads()
	s.Find("XStrict", "example.org", false)
	if reads() != before {
		t.Error("a schema is read each time")
	}
}

// A changed CRD has its schema read again.
func TestSchemasChange(t *testing.T) {
	s, client := schemasOf(t, serving(appsServed))
	s.Find("XStrict", "example.org", false)
	o := crd(t, strictCRD)
	versions := o.Object["spec"].(map[string]any)["versions"].([]any)
	root := property(versions[0].(map[string]any), "spec")
	root["properties"].(map[string]any)["engine"] = map[string]any{"type": "string"}
	if err := client.Tracker().Update(CRDs, o, ""); err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "the schema of now", func() bool {
		found, _ := s.Find("XStrict", "example.org", false)
		return lacking(t, found[0], "v1", "spec.engine") == ""
	})
}

// Where discovery does not answer, it is not known that a kind does not exist; a schema that cannot be read has any field.
func TestSchemasUnknown(t *testing.T) {
	s, _ := schemasOf(t, partial{serving(appsServed), flundersOff})
	if found, known := s.Find("Flunder", "wardle.example.org", false); known || len(found) > 0 {
		t.Errorf("found %+v, %t", found, known)
	}
	if found, known := s.Find("Deployment", "apps", false); !known || len(found) != 1 {
		t.Errorf("found %+v, %t", found, known)
	}
	s, client := schemasOf(t, partial{serving(), errors.New("away")})
	if err := client.Tracker().Delete(CRDs, "", "xstricts.example.org"); err != nil {
		t.Fatal(err)
	}
	if found, known := s.Find("Deployment", "apps", false); known || len(found) > 0 {
		t.Errorf("found %+v, %t", found, known)
	}
	k := s.ofCRD(InfosOf(crd(t, strictCRD)))
	if got := lacking(t, k, "v1", "spec.nope"); got != "" {
		t.Errorf("lacks %q, want any field", got)
	}
}
