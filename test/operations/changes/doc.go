// Package changes has the tests that change an installation of Kausality: it is upgraded, removed and installed again, its components end and
// are started again, its configuration is deleted or edited, the CRD of the policies removed, certificates expire under load, and the API
// server restarts. Each test begins with an installation as the chart has it.
//
// With -rotation.years=5 certificates are rotated under load as often as five years
// do at the default lifetimes, in their proportions; it takes five minutes and more.
package changes
