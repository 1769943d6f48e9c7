// Package page tests the page of kubectl kausality ui in Chromium, of the system's packages, on a control plane without Crossplane: the API
// server, our webhook and gate, and the test provider with its cloud. What Crossplane would apply is applied in its name, by its field
// manager. The plugin is the built program, its user one with a client certificate.
//
// The terminal of kubectl kausality tui is tested on the same control plane, in a pseudo terminal whose screen is emulated.
//
// Where the machine has no Chromium, the tests of the page are skipped. -update writes the pictures in docs/images.
package page
