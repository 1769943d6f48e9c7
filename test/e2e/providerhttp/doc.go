// Package providerhttp plays user stories with provider-http, a provider of other
// authors whose external resources are those of any HTTP server. Its version 1.0.0
// has no spec.managementPolicies and so no gate: the tests show what webhook and
// traces are worth then.
package providerhttp
