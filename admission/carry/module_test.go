package carry

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeclared(t *testing.T) {
	deep := strings.Repeat("(", maxModule/2)
	for name, tc := range map[string]struct {
		reason, source, module, format string
		want                           []string
		fails                          string
	}{
		"None": {reason: "most modules declare none", module: `variable "size" { default = 1 }`},
		"Two": {reason: "sorted, and none of others", module: `
variable "size" {}
variable "kausality_trace_id" {
  type    = string
  default = ""
}
variable kausality_origin {}
resource "terraform_data" "x" { input = "${var.size} ${var.kausality_origin}" }`, want: []string{"kausality_origin", "kausality_trace_id"}},
		"Within": {reason: "a block within another declares nothing", module: `module "m" { variable "kausality_origin" {} }`},
		"Comment": {reason: "nor does a comment, or a text", module: `# variable "kausality_origin" {}
locals { a = <<EOT
variable "kausality_origin" {}
EOT
}`},
		"Read":     {reason: "reading one does not declare it", module: `output "o" { value = var.kausality_origin }`},
		"Remote":   {reason: "what it declares is not known", source: "Remote", module: `git::https://example.org/variable/kausality_origin`},
		"JSON":     {reason: "an object", format: "JSON", module: `{"variable": {"kausality_origin": {}, "size": {}}}`, want: []string{"kausality_origin"}},
		"JSONList": {reason: "a list", format: "json", module: `{"variable": [{"kausality_origin": {}}, {"size": {}}]}`, want: []string{"kausality_origin"}},
		"JSONNone": {reason: "no variables", format: "JSON", module: `{"output": {"kausality_origin": {}}}`},
		"Open":     {reason: "a brace is missing", module: `variable "kausality_origin" {`, fails: "does not parse"},
		"Closed":   {reason: "a brace too many", module: "}\nvariable \"kausality_origin\" {}", fails: "main.tf:1: there is a } too many"},
		"NoJSON":   {reason: "it is no JSON", format: "JSON", module: `variable "kausality_origin" {}`, fails: "does not parse"},
		"NoObject": {reason: "variable is a text", format: "JSON", module: `{"variable": "kausality_origin"}`, fails: "does not parse"},
		"Large":    {reason: "1 MiB", module: `variable "kausality_origin" {}` + strings.Repeat("#", 1<<20), fails: "the inline module has 1048606 bytes"},
		"Deep":     {reason: "no stack grows with it", module: "a = " + deep + "\nvariable \"kausality_origin\" {}", want: []string{"kausality_origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.source == "" {
				tc.source = "Inline"
			}
			got, err := Declared(map[string]any{"source": tc.source, "module": tc.module, "inlineFormat": tc.format})
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && err == nil {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
