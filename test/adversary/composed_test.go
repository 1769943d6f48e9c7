package adversary

import (
	"encoding/base64"
	"fmt"
	"regexp"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// kept begins all that is secret in a seed: it must not appear in anything that Kausality writes, neither as text nor as a Secret has it,
// which begins with encoded, since kept ends where three bytes do.
const kept = "kept-secret-"

var encoded = base64.StdEncoding.EncodeToString([]byte(kept))

// offered by a revision of the Composition: a Database, an Object of provider-kubernetes with the manifest of a Secret, and a Secret. Each
// revision has another tier and other passwords, which no user requests for a composite that has settled.
const offered = `
      - name: database
        base:
          apiVersion: cloud.example.org/v1alpha1
          kind: Database
          spec: {forProvider: {size: 0, tags: {tier: tier-%[1]d}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}
      - name: settings
        base:
          apiVersion: kubernetes.m.crossplane.io/v1alpha1
          kind: Object
          spec:
            providerConfigRef: {kind: ClusterProviderConfig, name: default}
            forProvider: {manifest: {apiVersion: v1, kind: Secret, metadata: {name: settings}, data: {password: %[2]s}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: metadata.namespace, toFieldPath: spec.forProvider.manifest.metadata.namespace}
        - type: FromCompositeFieldPath
          fromFieldPath: spec.size
          toFieldPath: spec.forProvider.manifest.data.size
          transforms: [{type: convert, convert: {toType: string}}, {type: string, string: {type: Convert, convert: ToBase64}}]
      - name: login
        base: {apiVersion: v1, kind: Secret, metadata: {name: login}, data: {password: %[3]s}}
        readinessChecks: [{type: None}]
        patches:
        - type: FromCompositeFieldPath
          fromFieldPath: spec.size
          toFieldPath: data.size
          transforms: [{type: convert, convert: {toType: string}}, {type: string, string: {type: Convert, convert: ToBase64}}]`

// passwords that revisions have for a Secret.
func passwords(of string) *regexp.Regexp {
	return regexp.MustCompile("^" + kept + "of-" + regexp.QuoteMeta(of) + `-\d+$`)
}

// composition of a tier.
func composition(tier int) []byte {
	password := func(of string) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%sof-%s-%d", kept, of, tier))
	}
	databases := story.Definition{Group: story.XDatabases.Group, Version: story.XDatabases.Version, Kind: "XDatabase"}
	return databases.Composition("xdatabases.example.org", fmt.Sprintf(offered, tier, password("settings"), password("login")), story.StepKausality)
}
