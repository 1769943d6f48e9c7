// Package kinds is which kinds a cluster has and how their CRDs define them: their
// role in Crossplane and kro, lists, defaults and schemas. Kinds of aggregated API
// servers and built-in ones come from discovery.
package kinds
