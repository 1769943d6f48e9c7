// Package viewtest has what tests of the renderers of package view share: a small API server with a composite, its database and Drifts, which serves
// reads, watches and patches of them, refuses what a test forbids, and goes away when a test wants it to.
package viewtest
