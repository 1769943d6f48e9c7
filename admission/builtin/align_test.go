package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAlign covers KR-08-44: what the API server stores in another form is in that
// form, and nothing that differs is.
func TestAlign(t *testing.T) {
	const pod = `{apiVersion: v1, kind: PodTemplate, template: {spec: {containers: [`
	cases := map[string]struct {
		reason           string
		want, have, then string
		manager          Manager
		custom           bool
	}{
		"Quantities": {reason: "numbers, fractions and other units",
			want: pod + `{name: a, resources: {requests: {cpu: 2, memory: 1073741824}, limits: {cpu: 0.1, memory: 1025Mi}}}]}}}`,
			have: pod + `{name: a, resources: {requests: {cpu: "2", memory: 1Gi}, limits: {cpu: 100m, memory: 1Gi}}}]}}}`,
			then: pod + `{name: a, resources: {requests: {cpu: "2", memory: 1Gi}, limits: {cpu: 100m, memory: 1025Mi}}}]}}}`},
		"Texts": {reason: "a text is no quantity, duration or document",
			want: `{apiVersion: v1, kind: ConfigMap, data: {a: "1.0", b: "60s", c: "{}", d: 1Gi}}`,
			have: `{apiVersion: v1, kind: ConfigMap, data: {a: "1", b: "1m", c: "{ }", d: 1024Mi}}`,
			then: `{apiVersion: v1, kind: ConfigMap, data: {a: "1.0", b: "60s", c: "{}", d: 1Gi}}`},
		"StringData": {reason: "it becomes data, and takes precedence",
			want: `{apiVersion: v1, kind: Secret, data: {a: b2xk, b: "Yg==\n"}, stringData: {a: new}}`,
			have: `{apiVersion: v1, kind: Secret, data: {a: bmV3, b: Yg==}}`,
			then: `{apiVersion: v1, kind: Secret, data: {a: bmV3, b: Yg==}}`},
		"Redacted": {reason: "a provider that shows no values",
			want: `{apiVersion: v1, kind: Secret, stringData: {a: b}}`,
			have: `{apiVersion: v1, kind: Secret, data: {redacted: null}}`, then: `{apiVersion: v1, kind: Secret}`},
		"Unset": {reason: "zero values that are none; false of a pointer is a value",
			want: `{apiVersion: v1, kind: Pod, status: {}, metadata: {creationTimestamp: null, uid: ""},
				spec: {hostNetwork: false, dnsPolicy: "", enableServiceLinks: false, volumes: []}}`,
			have: `{apiVersion: v1, kind: Pod, spec: {dnsPolicy: ClusterFirst}}`,
			then: `{apiVersion: v1, kind: Pod, spec: {dnsPolicy: ClusterFirst, enableServiceLinks: false}}`},
		"ZeroDiffers": {reason: "zero is compared with a value that is no default",
			want: `{apiVersion: v1, kind: Pod, spec: {hostNetwork: false}}`, have: `{apiVersion: v1, kind: Pod, spec: {hostNetwork: true}}`,
			then: `{apiVersion: v1, kind: Pod, spec: {hostNetwork: false}}`},
		"Unknown": {reason: "a field that the kind does not have is not stored",
			want: `{apiVersion: v1, kind: Service, spec: {tpye: x, ports: [{port: 80}]}}`, have: `{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}`,
			then: `{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}`},
		"Ports": {reason: "80 and \"80\" are two targets",
			want: `{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: 80}]}}`,
			have: `{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: "80"}]}}`,
			then: `{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: 80}]}}`},
		"Endpoints": {reason: "grouped in another way",
			want: `{apiVersion: v1, kind: Endpoints, subsets: [{addresses: [{ip: b}], ports: [{port: 1}]}, {addresses: [{ip: a}], ports: [{port: 1}]}]}`,
			have: `{apiVersion: v1, kind: Endpoints, subsets: [{addresses: [{ip: a}, {ip: b}], ports: [{port: 1, protocol: TCP}]}]}`,
			then: `{apiVersion: v1, kind: Endpoints, subsets: [{addresses: [{ip: a}, {ip: b}], ports: [{port: 1, protocol: TCP}]}]}`},
		"Injected": {reason: "what admission adds to a Pod", want: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: x}]}}`,
			have: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: proxy}, {name: a, image: "y"}]}}`,
			then: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: proxy}, {name: a, image: x}]}}`},
		"Tainted": {reason: "what controllers add to a Node", want: `{apiVersion: v1, kind: Node, spec: {taints: [{key: a, effect: NoSchedule}]}}`,
			have: `{apiVersion: v1, kind: Node, spec: {taints: [{key: down, effect: NoExecute}, {key: a, effect: NoSchedule}]}}`,
			then: `{apiVersion: v1, kind: Node, spec: {taints: [{key: down, effect: NoExecute}, {key: a, effect: NoSchedule}]}}`},
		"Added": {reason: "a container that another added to a template", want: pod + `{name: a}]}}}`,
			have: pod + `{name: a}, {name: b}]}}}`, then: pod + `{name: a}]}}}`},
		"Shared": {reason: "under server-side apply it is its own", want: pod + `{name: a}]}}}`, manager: Shares,
			have: pod + `{name: b}, {name: a}]}}}`, then: pod + `{name: b}, {name: a}]}}}`},
		"Custom": {reason: "a custom resource is stored as it is written", custom: true,
			want: `{apiVersion: x.example.com/v1, kind: X, metadata: {uid: ""}, spec: {cpu: 2, x: null}}`,
			have: `{apiVersion: x.example.com/v1, kind: X, spec: {cpu: "2"}}`,
			then: `{apiVersion: x.example.com/v1, kind: X, metadata: {}, spec: {cpu: 2, x: null}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, have := parse(t, tc.want), parse(t, tc.have)
			first, second := runtime.DeepCopyJSON(want), runtime.DeepCopyJSON(have)
			if tc.manager == "" {
				tc.manager = Replaces
			}
			out, ok := Align(want, have, tc.manager)
			if ok == tc.custom {
				t.Errorf("%s: known = %t", tc.reason, ok)
			}
			if d := cmp.Diff(parse(t, tc.then), out); d != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
			if d := cmp.Diff(first, want) + cmp.Diff(second, have); d != "" {
				t.Errorf("input modified: %s", d)
			}
			if again, _ := Align(out, have, tc.manager); !cmp.Equal(out, again) {
				t.Errorf("a second time it is another: %s", cmp.Diff(out, again))
			}
		})
	}
}
