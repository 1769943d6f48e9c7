// Package v1 has the kinds of the example: a Garden, and the Plants that its controller makes for it.
//
// +kubebuilder:object:generate=true
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=org.example.garden.v1
// +groupName=garden.example.org
package v1

//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen --output-dir . --output-pkg github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1 --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go --go-header-file /dev/null --report-filename /dev/null .

// The generator knows no model names of packages that it does not write.
//
//go:generate sh -c "sed 's#k8s.io/apimachinery/pkg/apis/meta/v1[.]#io.k8s.apimachinery.pkg.apis.meta.v1.#' zz_generated.openapi.go >generated && mv generated zz_generated.openapi.go"
