// Package external knows the external systems behind the objects of a cluster,
// one file each: Crossplane managed resources, Workspaces of provider-terraform
// and provider-opentofu, Terraform plans, Terraform objects of Flux's
// tofu-controller, and Applications of Argo CD (spec 8, "External systems").
//
// A System reads from an object as it is stored whether its gate is open, what
// its author wrote, what it would do outside and whether it has done it, and
// names the smallest edits that open and close it. It decides nothing: what may
// be opened is decided in package admission, and it writes nothing.
package systems
