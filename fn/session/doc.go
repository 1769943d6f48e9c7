// Package session has the calls of AWS providers carry whose they are: the session tag kausality-origin, by the Input's external.aws.session.
//
// It writes the tag into the ProviderConfigs that a Composition composes, before anything is decided about them, so that they are judged, held and
// traced as all that the Composition wants (KR-08-70). Other ProviderConfigs, to which composed resources of AWS refer, are shared: it requires them and
// compares, and never changes them (KR-08-71). What the tag looks like is in package carry.
//
// It decides from the request alone, and never modifies it.
package session
