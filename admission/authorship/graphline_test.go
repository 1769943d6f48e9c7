package authorship

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestGraphLine covers KR-18-10: the line of a graph that decides about a field.
func TestGraphLine(t *testing.T) {
	var graph map[string]any
	if err := yaml.Unmarshal([]byte(`
spec:
  resources:
  - id: other
    template: {}
  - id: app
    includeWhen: ["${schema.spec.on == 'x' && schema.spec.n > 1}"]
    forEach: [{zone: "${schema.spec.zones}"}]
    template:
      metadata: {name: app}
      spec:
        replicas: ${schema.spec.replicas}
        password: hunter2
        selector: ${schema.spec.selector}
        template: {spec: {containers: [{name: app, image: "nginx:${schema.spec.tag}"}]}}
        config: {a.b: "${schema.spec.config}"}
`), &graph); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ reason, node, path, want string }{
		"Expression": {reason: "a field", node: "app", path: "spec.replicas", want: "resources[1].template.spec.replicas: ${schema.spec.replicas}"},
		"Text": {reason: "with an expression in it", node: "app", path: "spec.template.spec.containers[0].image",
			want: "resources[1].template.spec.template.spec.containers[0].image: …${schema.spec.tag}"},
		"Key": {reason: "in brackets", node: "app", path: "spec.config[a.b]", want: "resources[1].template.spec.config[a.b]: ${schema.spec.config}"},
		"Below": {reason: "of an expression for a map", node: "app", path: "spec.selector.app",
			want: "resources[1].template.spec.selector: ${schema.spec.selector}"},
		"Constant": {reason: "its value is not shown", node: "app", path: "spec.password", want: "resources[1].template.spec.password (a constant)"},
		"Whole":    {reason: "a map that is removed", node: "app", path: "spec.config", want: "resources[1].template.spec.config"},
		"Missing":  {reason: "the graph does not have it", node: "app", path: "spec.paused", want: "resources[1].template.spec has no paused"},
		"Item": {reason: "beyond the list", node: "app", path: "spec.template.spec.containers[1].image",
			want: "resources[1].template.spec.template.spec.containers has no [1].image"},
		"Object": {reason: "creation and deletion", node: "app",
			want: `resources[1].includeWhen[0]: ${schema.spec.on == "…" && schema.spec.n > 1}, resources[1].forEach[0].zone: ${schema.spec.zones}`},
		"Always":  {reason: "no condition", node: "other", want: "resources[0], without includeWhen and forEach"},
		"Dropped": {reason: "the graph has it no more", node: "gone", path: "spec.replicas", want: "it has no resource gone"},
		"None":    {reason: "an object of no graph", path: "spec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := GraphLine(graph, tc.node, tc.path); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestShown: nothing that may be a value is shown.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"${schema.spec.a}": "${schema.spec.a}",
		"postgres://admin:hunter2@${schema.spec.h}/x": "…${schema.spec.h}…",
		`${schema.spec.a + "hunter2}" + 'hun\'ter2'}`: `${schema.spec.a + "…" + "…"}`,
		"${{'a': schema.spec.a}.a}-${schema.spec.b}":  `${{"…": schema.spec.a}.a}…${schema.spec.b}`,
		"${schema.spec.a + \"hunter2":                 `${schema.spec.a + "…"`,
		"hunter2":                                     "…",
		"${schema.spec.a\n  + schema.spec.b}":         "${schema.spec.a + schema.spec.b}",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%s: want %s, got %s", text, want, got)
		}
	}
}
