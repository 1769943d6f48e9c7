package iam

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Headings of docs/aws.md, each above one policy.
const (
	firstTrust = "Trust policy of the first role"
	laterTrust = "Trust policy of later roles"
	boundary   = "Permissions boundary of the roles"
	forgery    = "Service control policy against forged tags"
	namespaced = "Policy of a role for one Namespace"
)

var block = regexp.MustCompile("(?s)```json\n(.*?)```")

// page returns the policies of docs/aws.md by their headings: every block of JSON is one.
func page(t *testing.T) map[string]*Policy {
	t.Helper()
	raw, err := os.ReadFile("../../docs/aws.md")
	require.NoError(t, err)
	out := map[string]*Policy{}
	for _, section := range bytes.Split(raw, []byte("\n### "))[1:] {
		heading, text, _ := strings.Cut(string(section), "\n")
		blocks := block.FindAllStringSubmatch(text, -1)
		require.Len(t, blocks, 1, heading)
		p, err := Parse([]byte(blocks[0][1]), strings.HasPrefix(heading, "Trust policy"))
		require.NoError(t, err, heading)
		out[heading] = p
	}
	require.Len(t, out, len(block.FindAll(raw, -1)), "each block has a heading of its own")
	return out
}

func requests(t *testing.T) map[string]*Request {
	t.Helper()
	raw, err := os.ReadFile("testdata/requests.json")
	require.NoError(t, err)
	out, err := Requests(raw)
	require.NoError(t, err)
	return out
}

// full allows everything, as FullAWSAccess and AdministratorAccess do.
func full(t *testing.T) *Policy {
	t.Helper()
	return parse(t, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`)
}

// TestPage: what the policies of docs/aws.md allow and deny.
func TestPage(t *testing.T) {
	p, recorded := page(t), requests(t)
	all := full(t)
	organization := []*Policy{all, p[forgery]}
	admin := Policies{Organization: organization, Identity: []*Policy{all}}
	role := Policies{Organization: organization, Boundary: p[boundary], Identity: []*Policy{all}}
	tenant := Policies{Organization: organization, Boundary: p[boundary], Identity: []*Policy{p[namespaced]}}
	first := func(of Policies) Policies { of.Trust = p[firstTrust]; return of }
	later := func(of Policies) Policies { of.Trust = p[laterTrust]; return of }
	alone := Policies{Trust: p[firstTrust], Identity: []*Policy{all}}
	cases := []struct {
		reason, request string
		policies        Policies
		want            Decision
	}{
		{"the provider assumes the first role with the tag", "AssumeTagged", first(admin), Allowed},
		{"without any tag the role is not assumed", "AssumeUntagged", first(admin), NotAllowed},
		{"another tag is not enough", "AssumeOtherTag", first(admin), NotAllowed},
		{"an empty value is not enough", "AssumeEmptyTag", first(admin), NotAllowed},
		{"later sessions would lack the tag", "AssumeNotTransitive", first(admin), NotAllowed},
		{"another transitive tag is not enough", "AssumeOtherTransitive", first(admin), NotAllowed},
		{"an administrator forges the tag: the organization denies it", "AssumeForged", first(admin), Denied},
		{"in another case, too", "AssumeForgedCase", first(admin), Denied},
		{"the trust policy alone does not allow it", "AssumeForged", alone, NotAllowed},
		{"nor is the role assumed by an administrator without the tag", "AssumeByAdmin", first(admin), NotAllowed},
		{"no role of another account is assumed with the tag", "AssumeElsewhere", first(admin), Denied},

		{"the first role assumes a later one", "LaterTagged", later(role), Allowed},
		{"also if the inherited tag counted as one of the request", "LaterRequested", later(role), Allowed},
		{"not without the tag", "LaterUntagged", later(role), Denied},
		{"the trust policy alone does not allow it", "LaterUntagged", later(admin), NotAllowed},
		{"the provider does not skip the first role", "LaterByProvider", later(admin), NotAllowed},

		{"a write with the tag", "WriteTagged", role, Allowed},
		{"a write without the tag", "WriteUntagged", role, Denied},
		{"another tag is not enough", "WriteOtherTag", role, Denied},
		{"an empty value is not enough", "WriteEmptyTag", role, Denied},
		{"a read needs no tag", "ReadUntagged", role, Allowed},
		{"nor does the boundary alone allow anything", "WriteTagged", Policies{Boundary: p[boundary]}, NotAllowed},

		{"a session reaches what is of its Namespace", "WriteOfNamespace", tenant, Allowed},
		{"and nothing of one whose name begins the same", "WriteOfOtherNamespace", tenant, NotAllowed},
		{"the value of a tag is no pattern", "WriteByWildcard", tenant, NotAllowed},
		{"without a tag nothing is its own", "ReadOfNamespaceUntagged", tenant, NotAllowed},

		{"a tag of the role would count as well", "TagRole", admin, Denied},
		{"in another case, too", "TagRoleCase", admin, Denied},
		{"other tags may be set", "TagRoleOther", admin, Allowed},
		{"the boundary stays", "RemoveBoundary", admin, Denied},
		{"but for the administrators of the platform", "RemoveBoundaryByPlatform", admin, Allowed},
		{"other roles are not affected", "RemoveOtherBoundary", admin, Allowed},
		{"the trust policies stay", "TrustOthers", admin, Denied},
	}
	used := map[string]bool{}
	for _, tc := range cases {
		t.Run(tc.request, func(t *testing.T) {
			r := recorded[tc.request]
			require.NotNil(t, r, tc.request)
			used[tc.request] = true
			got, err := Evaluate(tc.policies, r)
			require.NoError(t, err, tc.reason)
			assert.Equal(t, tc.want, got, tc.reason)
		})
	}
	for name := range recorded {
		assert.True(t, used[name], "%s is not evaluated", name)
	}
}

// TestEachStatementCounts: without any one condition or statement of the page, a decision of TestPage is another one.
func TestEachStatementCounts(t *testing.T) {
	recorded := requests(t)
	for name, tc := range map[string]struct {
		heading, condition, request string
		statement                   int
		trust                       bool
	}{
		"Tag":        {heading: firstTrust, condition: "StringLike", request: "AssumeEmptyTag", trust: true},
		"Transitive": {heading: firstTrust, condition: "ForAnyValue:StringEquals", request: "AssumeNotTransitive", trust: true},
		"Later":      {heading: laterTrust, condition: "StringLike", request: "LaterUntagged", trust: true},
		"Write":      {heading: boundary, statement: 1, condition: "StringNotLike", request: "WriteTagged"},
		"Provider":   {heading: forgery, condition: "ArnNotLike", request: "AssumeTagged", trust: true},
		"Forged":     {heading: forgery, condition: "Null", request: "AssumeByAdmin", trust: true},
		"OtherTags":  {heading: forgery, statement: 1, condition: "Null", request: "TagRoleOther"},
		"Platform":   {heading: forgery, statement: 2, condition: "ArnNotLike", request: "RemoveBoundaryByPlatform"},
	} {
		t.Run(name, func(t *testing.T) {
			evaluate := func(p map[string]*Policy) Decision {
				of := Policies{Organization: []*Policy{full(t), p[forgery]}, Boundary: p[boundary], Identity: []*Policy{full(t)}}
				if tc.heading != boundary {
					of.Boundary = nil
				}
				if tc.trust {
					of.Trust = p[firstTrust]
				}
				if tc.heading == laterTrust {
					of.Trust = p[laterTrust]
				}
				got, err := Evaluate(of, recorded[tc.request])
				require.NoError(t, err)
				return got
			}
			p := page(t)
			before := evaluate(p)
			conditions := p[tc.heading].Statement[tc.statement].Condition
			require.Contains(t, conditions, tc.condition)
			delete(conditions, tc.condition)
			assert.NotEqual(t, before, evaluate(p))
		})
	}
}
