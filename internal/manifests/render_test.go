package manifests

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// certificate that looks like a certificate; Render does not parse its content.
const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

func valid() Options {
	return Options{
		WebhookURL: "https://10.0.0.7:9443",
		CABundle:   []byte(certificate),
		Resources:  []string{"deployments.apps", "configmaps", "*.example.org"},
	}
}

// TestRenderGolden covers KR-12-01.
func TestRenderGolden(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*Options)
	}{
		"log": {
			reason: "The defaults: log mode, an outage refuses no request.",
			change: func(*Options) {},
		},
		"enforce": {
			reason: "Enforcing fails closed, components outside the cluster get the same access, the URL keeps its path.",
			change: func(o *Options) {
				o.DefaultMode = v1alpha1.ModeEnforce
				o.ComponentUsers = []string{"kausality-webhook", "system:serviceaccount:ops:gate"}
				o.WebhookURL += "/kausality/"
				o.Resources = []string{"*.db.example.org", "replicasets.apps", "deployments.apps", "deployments.apps"}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := valid()
			tc.change(&o)
			got, err := Render(o)
			if err != nil {
				t.Fatalf("%s\nRender(): %v", tc.reason, err)
			}
			again, err := Render(o)
			if err != nil || !bytes.Equal(got, again) {
				t.Errorf("%s\nRender() twice: not the same bytes (err %v)", tc.reason, err)
			}
			var only bytes.Buffer
			if err := writeCRDs(&only, true); err != nil || !bytes.HasPrefix(got, only.Bytes()) {
				t.Fatalf("%s\nRender(): does not start with the CRDs (err %v)", tc.reason, err)
			}
			golden(t, filepath.Join("testdata", name+".yaml"), got[only.Len():])
		})
	}
}

// The annotation by which the function requires more of the cluster comes with the
// role that lets Crossplane read it, and not without (KR-09-08).
func TestRenderForTheFunction(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		want bool
	}{"CRDsOnly": {o: Options{CRDsOnly: true}}, "FunctionOnly": {o: Options{FunctionOnly: true}, want: true}, "All": {o: valid(), want: true}} {
		out, err := Render(tc.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		marked, role := strings.Contains(string(out), v1alpha1.AnnotationKeyCrossplaneReads), strings.Contains(string(out), RoleCrossplane)
		if marked != tc.want || role != tc.want || !strings.Contains(string(out), "name: kausalities.kausality.io") {
			t.Errorf("%s: annotation %t, role %t, want %t", name, marked, role, tc.want)
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want, +got (go test -update writes it):\n%s", file, diff)
	}
}

func TestRenderIsYAML(t *testing.T) {
	out, err := Render(valid())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, doc := range strings.Split(strings.TrimPrefix(string(out), separator), "\n"+separator) {
		var o struct {
			APIVersion string
			Kind       string
			Metadata   struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("document does not parse: %v\n%s", err, doc)
		}
		if o.APIVersion == "" || o.Metadata.Name == "" {
			t.Errorf("document without apiVersion or name:\n%s", doc)
		}
		kinds = append(kinds, o.Kind)
	}
	if kinds[0] != "CustomResourceDefinition" || kinds[len(kinds)-1] != "MutatingWebhookConfiguration" {
		t.Errorf("order: CRDs must come first and the webhook last, got %v", kinds)
	}
}

func TestRenderErrors(t *testing.T) {
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"NoURL": {change: func(o *Options) { o.WebhookURL = "" }, want: `--webhook-url is missing`},
		"HTTP": {change: func(o *Options) { o.WebhookURL = "http://a:1" },
			want: `--webhook-url: "http://a:1" must be https`},
		"NoHost":   {change: func(o *Options) { o.WebhookURL = "https://:9443" }, want: `--webhook-url: `},
		"BareHost": {change: func(o *Options) { o.WebhookURL = "10.0.0.7:9443" }, want: `--webhook-url: `},
		"Query": {change: func(o *Options) { o.WebhookURL = "https://a:1?x=y" },
			want: `must have no user, query or fragment`},
		"NoCA":   {change: func(o *Options) { o.CABundle = nil }, want: `--ca-file is missing or empty`},
		"NotPEM": {change: func(o *Options) { o.CABundle = []byte("hello") }, want: `--ca-file holds no PEM certificate`},
		"KeyAsCA": {change: func(o *Options) { o.CABundle = []byte(strings.ReplaceAll(certificate, "CERTIFICATE", "PRIVATE KEY")) },
			want: `--ca-file holds no PEM certificate`},
		"Mode": {change: func(o *Options) { o.DefaultMode = "strict" },
			want: `--default-mode: "strict" must be log or enforce`},
		"FailurePolicy": {change: func(o *Options) { o.FailurePolicy = "fail" },
			want: `--failure-policy: "fail" must be Ignore or Fail`},
		"User": {change: func(o *Options) { o.ComponentUsers = []string{""} }, want: `--component-user is empty`},
		"ServiceAccount": {change: func(o *Options) { o.ComponentUsers = []string{"system:serviceaccount:ops"} },
			want: `--component-user: "system:serviceaccount:ops" is no ServiceAccount`},
		"NoResources": {change: func(o *Options) { o.Resources = nil }, want: `--resources is missing`},
		"BadResource": {change: func(o *Options) { o.Resources = []string{"configmaps", ""} },
			want: `--resources: an entry is empty`},
		"OrderOfMistakes": {change: func(o *Options) { *o = Options{} }, want: `--webhook-url is missing`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := valid()
			tc.change(&o)
			out, err := Render(o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Render(): want one line with %q, got %v", tc.want, err)
			}
			if out != nil {
				t.Errorf("Render(): want no output with an error, got %d bytes", len(out))
			}
		})
	}
}

// TestFailurePolicy covers KR-12-04, KR-05-26.
func TestFailurePolicy(t *testing.T) {
	cases := map[string]struct {
		mode     v1alpha1.Mode
		explicit admissionregistrationv1.FailurePolicyType
		want     admissionregistrationv1.FailurePolicyType
	}{
		"Default":      {want: admissionregistrationv1.Ignore},
		"Log":          {mode: v1alpha1.ModeLog, want: admissionregistrationv1.Ignore},
		"Enforce":      {mode: v1alpha1.ModeEnforce, want: admissionregistrationv1.Fail},
		"LogButFail":   {mode: v1alpha1.ModeLog, explicit: admissionregistrationv1.Fail, want: admissionregistrationv1.Fail},
		"EnforceNever": {mode: v1alpha1.ModeEnforce, explicit: admissionregistrationv1.Ignore, want: admissionregistrationv1.Ignore},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := valid()
			o.DefaultMode, o.FailurePolicy = tc.mode, tc.explicit
			in, err := o.parse()
			if err != nil {
				t.Fatal(err)
			}
			hooks := webhookConfiguration(in).Webhooks
			if got := *hooks[0].FailurePolicy; got != tc.want {
				t.Errorf("%s: want %s, got %s", hooks[0].Name, tc.want, got)
			}
			if got := *hooks[1].FailurePolicy; got != admissionregistrationv1.Ignore {
				t.Errorf("%s: must never refuse a request, got %s", hooks[1].Name, got)
			}
		})
	}
}
