// Package atrest composes forty odd kinds on the real Crossplane, with and without each part of Kausality, and shows that nothing is
// written while no user changes anything: kinds with defaults, with values that the API server writes otherwise, with fields that it drops,
// and with webhooks that convert, default, change and remove fields.
package atrest
