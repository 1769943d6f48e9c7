// Package e2e plays the whole story, and its variants, on real parts: Crossplane,
// providers, webhook, gate and function. On the same parts scenarios of the gate
// run with a provider that is not ours, and TestSteady asserts that nothing is
// written where nothing changes.
package e2e
