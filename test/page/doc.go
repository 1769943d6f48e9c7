// Package page tests the page of kubectl kausality ui in Chromium, of the system's packages, on a control plane without Crossplane: the API
// server, our webhook and gate, and the test provider with its cloud. What Crossplane would apply is applied in its name, by its field
// manager. The plugin is the built program, its user one with a client certificate.
//
// Where the machine has no Chromium, the tests are skipped. -update writes the screenshots in docs/images.
package page
