// Package crds embeds the CustomResourceDefinitions of Kausality, as `make
// generate` writes them from api/, so that `kausality manifests` prints the
// same ones that ship as plain YAML. It holds nothing else.
package crds

import "embed"

// FS holds the CustomResourceDefinitions, one YAML document per file.
//
//go:embed *.yaml
var FS embed.FS
