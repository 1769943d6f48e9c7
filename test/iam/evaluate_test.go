package iam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(text), false)
	require.NoError(t, err)
	return p
}

// statement is a policy with one statement.
func statement(t *testing.T, text string) *Policy {
	t.Helper()
	return parse(t, `{"Version":"2012-10-17","Statement":[`+text+`]}`)
}

// request is one of a role to create a bucket.
func request(t *testing.T, tags map[string]string, parameters string) *Request {
	t.Helper()
	raw := `{"r":{"eventSource":"s3.amazonaws.com","eventName":"CreateBucket","resources":[{"ARN":"arn:aws:s3:::shop.invoices"}],` +
		`"requestParameters":{` + parameters + `},` +
		`"userIdentity":{"sessionContext":{"sessionIssuer":{"arn":"arn:aws:iam::111122223333:role/crossplane/archives"}}}}}`
	out, err := Requests([]byte(raw))
	require.NoError(t, err)
	out["r"].PrincipalTags = tags
	return out["r"]
}

// TestOperators: each operator, where it is met and where it is not, and where the request has no such key.
func TestOperators(t *testing.T) {
	const tag, other = `"aws:PrincipalTag/team"`, `"aws:PrincipalTag/other"`
	for name, tc := range map[string]struct {
		met, unmet []string
	}{
		"StringEquals": {met: []string{tag + `:"Books"`, tag + `:["a","Books"]`},
			unmet: []string{tag + `:"books"`, tag + `:"Book"`, other + `:"Books"`}},
		"StringNotEquals":           {met: []string{tag + `:"books"`, other + `:"Books"`}, unmet: []string{tag + `:"Books"`, tag + `:["a","Books"]`}},
		"StringEqualsIgnoreCase":    {met: []string{tag + `:"bOOKS"`}, unmet: []string{tag + `:"book"`, other + `:"books"`}},
		"StringNotEqualsIgnoreCase": {met: []string{tag + `:"book"`, other + `:"books"`}, unmet: []string{tag + `:"bOOKS"`}},
		"StringLike": {met: []string{tag + `:"B*s"`, tag + `:"Book?"`, tag + `:"?*"`},
			unmet: []string{tag + `:"b*"`, tag + `:"Books?"`, other + `:"*"`}},
		"StringNotLike":                      {met: []string{tag + `:"b*"`, other + `:"*"`}, unmet: []string{tag + `:"B*"`, tag + `:["a","B*"]`}},
		"StringEqualsIfExists":               {met: []string{tag + `:"Books"`, other + `:"Books"`}, unmet: []string{tag + `:"books"`}},
		"StringNotLikeIfExists":              {met: []string{tag + `:"b*"`, other + `:"*"`}, unmet: []string{tag + `:"B*"`}},
		"Null":                               {met: []string{tag + `:"false"`, other + `:"true"`}, unmet: []string{tag + `:"true"`, other + `:"false"`}},
		"ArnLike":                            {met: []string{arn(`*:role/crossplane/*`)}, unmet: []string{arn(`*:user/*`), arn(`1:role/*`)}},
		"ArnEquals":                          {met: []string{arn(`111122223333:role/crossplane/archives`)}, unmet: []string{arn(`111122223333:role/archives`)}},
		"ArnNotLike":                         {met: []string{arn(`*:user/*`)}, unmet: []string{arn(`*:role/*`)}},
		"ArnNotEquals":                       {met: []string{arn(`*:role/archives`)}, unmet: []string{arn(`*:role/crossplane/archives`)}},
		"ForAnyValue:StringEquals":           {met: []string{keysOf(`"b"`)}, unmet: []string{keysOf(`"c"`), `"sts:TransitiveTagKeys":"a"`}},
		"ForAnyValue:StringNotEquals":        {met: []string{keysOf(`"b"`)}, unmet: []string{keysOf(`["a","b"]`), `"sts:TransitiveTagKeys":"a"`}},
		"ForAllValues:StringEquals":          {met: []string{keysOf(`["a","b","c"]`), `"sts:TransitiveTagKeys":"a"`}, unmet: []string{keysOf(`"b"`)}},
		"ForAllValues:StringLike":            {met: []string{keysOf(`"?"`)}, unmet: []string{keysOf(`"a*"`)}},
		"ForAllValues:StringNotEquals":       {met: []string{keysOf(`"c"`)}, unmet: []string{keysOf(`"b"`)}},
		"ForAnyValue:StringEqualsIfExists":   {met: []string{keysOf(`"b"`), `"sts:TransitiveTagKeys":"a"`}, unmet: []string{keysOf(`"c"`)}},
		"ForAnyValue:StringEqualsIgnoreCase": {met: []string{keysOf(`"B"`)}, unmet: []string{keysOf(`"C"`)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, map[string]string{"Team": "Books"}, `"tags":[{"key":"a","value":"1"},{"key":"b","value":"2"}]`)
			for i, condition := range append(tc.met, tc.unmet...) {
				p := statement(t, fmt.Sprintf(`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{%q:{%s}}}`, name, condition))
				want := NotAllowed
				if i < len(tc.met) {
					want = Allowed
				}
				got, err := Evaluate(Policies{Identity: []*Policy{p}}, r)
				require.NoError(t, err, condition)
				assert.Equal(t, want, got, condition)
			}
		})
	}
}

func arn(of string) string { return `"aws:PrincipalArn":"arn:aws:iam::` + of + `"` }

func keysOf(values string) string { return `"aws:TagKeys":` + values }

// TestStatement: actions, resources and variables.
func TestStatement(t *testing.T) {
	for text, want := range map[string]Decision{
		`"Action":"s3:CreateBucket","Resource":"*"`:                                                                Allowed,
		`"Action":"s3:createbucket","Resource":"arn:aws:s3:::shop.*"`:                                              Allowed,
		`"Action":"s3:Create*","Resource":"arn:aws:s3:::shop.invoices"`:                                            Allowed,
		`"Action":"s3:Get*","Resource":"*"`:                                                                        NotAllowed,
		`"Action":"s3:*","Resource":"arn:aws:s3:::Shop.*"`:                                                         NotAllowed,
		`"Action":"s3:*","Resource":"arn:aws:s3:::shop?invoices"`:                                                  Allowed,
		`"Action":"s3:*","Resource":"arn:aws:s3:::shop"`:                                                           NotAllowed,
		`"NotAction":"s3:Get*","Resource":"*"`:                                                                     Allowed,
		`"NotAction":["s3:Get*","s3:Create*"],"Resource":"*"`:                                                      NotAllowed,
		`"Action":"*","Resource":"arn:aws:s3:::${aws:PrincipalTag/ns}.*"`:                                          Allowed,
		`"Action":"*","Resource":"arn:aws:s3:::${aws:PrincipalTag/wild}*"`:                                         NotAllowed,
		`"Action":"*","Resource":"arn:aws:s3:::${aws:PrincipalTag/none}*"`:                                         NotAllowed,
		`"Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/o":"${aws:PrincipalTag/ns}"}}`:   Allowed,
		`"Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/o":"${aws:PrincipalTag/none}"}}`: NotAllowed,
	} {
		t.Run(text, func(t *testing.T) {
			r := request(t, map[string]string{"ns": "shop", "wild": "*"}, `"tags":[{"key":"o","value":"shop"}]`)
			got, err := Evaluate(Policies{Identity: []*Policy{statement(t, `{"Effect":"Allow",`+text+`}`)}}, r)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

// TestKinds: an explicit deny of any kind wins, and every kind that applies has to allow.
func TestKinds(t *testing.T) {
	all := full(t)
	none, deny := statement(t, `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`), statement(t, `{"Effect":"Deny","Action":"*","Resource":"*"}`)
	trust := func(role string) *Policy {
		p, err := Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",`+
			`"Principal":{"AWS":"arn:aws:iam::111122223333:role/`+role+`"}}]}`), true)
		require.NoError(t, err)
		return p
	}
	list := func(p ...*Policy) []*Policy { return p }
	bucket := request(t, nil, "")
	role := func(account, parameters string) *Request {
		r := request(t, nil, parameters)
		r.EventSource, r.EventName = "sts.amazonaws.com", "AssumeRole"
		r.Resources[0].ARN = "arn:aws:iam::" + account + ":role/x"
		return r
	}
	own, foreign := role("111122223333", ""), role("444455556666", "")
	tagged := role("111122223333", `"tags":[{"key":"a","value":"1"}]`)
	for name, tc := range map[string]struct {
		policies Policies
		request  *Request
		want     Decision
	}{
		"Nothing":              {request: bucket, want: NotAllowed},
		"Identity":             {policies: Policies{Identity: list(all)}, request: bucket, want: Allowed},
		"OneOfTwo":             {policies: Policies{Identity: list(none, all)}, request: bucket, want: Allowed},
		"DeniedByAnother":      {policies: Policies{Identity: list(all, deny)}, request: bucket, want: Denied},
		"Boundary":             {policies: Policies{Identity: list(all), Boundary: none}, request: bucket, want: NotAllowed},
		"BoundaryAlone":        {policies: Policies{Boundary: all}, request: bucket, want: NotAllowed},
		"DeniedByBoundary":     {policies: Policies{Identity: list(all), Boundary: deny}, request: bucket, want: Denied},
		"Organization":         {policies: Policies{Identity: list(all), Organization: list(none)}, request: bucket, want: NotAllowed},
		"DeniedByOrganization": {policies: Policies{Identity: list(all), Organization: list(all, deny)}, request: bucket, want: Denied},
		"Trust":                {policies: Policies{Trust: trust("crossplane/archives")}, request: own, want: Allowed},
		"OtherTrust":           {policies: Policies{Identity: list(all), Trust: trust("archives")}, request: own, want: NotAllowed},
		"TrustAndDeny":         {policies: Policies{Identity: list(deny), Trust: trust("crossplane/archives")}, request: own, want: Denied},
		"OtherAccount":         {policies: Policies{Trust: trust("crossplane/archives")}, request: foreign, want: NotAllowed},
		"BothAccounts":         {policies: Policies{Identity: list(all), Trust: trust("crossplane/archives")}, request: foreign, want: Allowed},
		"TagsNeedAnAction":     {policies: Policies{Identity: list(all), Trust: trust("crossplane/archives")}, request: tagged, want: NotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Evaluate(tc.policies, tc.request)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	_, err := Evaluate(Policies{}, own)
	require.Error(t, err, "a role without a trust policy")
	_, err = Evaluate(Policies{Trust: trust("x")}, bucket)
	require.Error(t, err, "a bucket with a trust policy")
}

// TestStrict: what is not known is an error, and no policy is evaluated without it.
func TestStrict(t *testing.T) {
	const fine = `{"Version":"2012-10-17","Statement":[{"Sid":"A","Effect":"Allow","Action":"*","Resource":"*"}]}`
	_, err := Parse([]byte(fine), false)
	require.NoError(t, err)
	for fault, text := range map[string]string{
		"unknown field":        strings.Replace(fine, `"Sid"`, `"NotResource"`, 1),
		"want version":         strings.Replace(fine, "2012-10-17", "2008-10-17", 1),
		"more than one":        fine + fine,
		"unknown effect":       strings.Replace(fine, `"Allow"`, `"allow"`, 1),
		"one of Action":        strings.Replace(fine, `"Action"`, `"NotAction":"*","Action"`, 1),
		"form of the action":   strings.Replace(fine, `"Action":"*"`, `"Action":"*:Get*"`, 1),
		`action "S3:Get*"`:     strings.Replace(fine, `"Action":"*"`, `"Action":"S3:Get*"`, 1),
		"policy has resources": strings.Replace(fine, `,"Resource":"*"`, "", 1),
		"is no ARN":            strings.Replace(fine, `"Resource":"*"`, `"Resource":"shop.*"`, 1),
		"unknown operator":     condition(fine, `"StringMatches":{"aws:PrincipalArn":"x"}`),
		`"NumericEquals"`:      condition(fine, `"NumericEquals":{"aws:PrincipalArn":"1"}`),
		`"ForSome:StringLike"`: condition(fine, `"ForSome:StringLike":{"aws:TagKeys":"x"}`),
		`"NullIfExists"`:       condition(fine, `"NullIfExists":{"aws:PrincipalArn":"true"}`),
		"unknown condition":    condition(fine, `"StringLike":{"aws:SourceIp":"x"}`),
		"does not fit":         condition(fine, `"StringLike":{"aws:TagKeys":"x"}`),
		"ForAnyValue:ArnLike":  condition(fine, `"ForAnyValue:ArnLike":{"aws:PrincipalArn":"arn:aws:iam::1:role/x"}`),
		"must be true":         condition(fine, `"Null":{"aws:PrincipalArn":"yes"}`),
		`value "x"`:            condition(fine, `"ArnLike":{"aws:PrincipalArn":"x"}`),
		"has no value":         condition(fine, `"StringLike":{"aws:PrincipalArn":[]}`),
	} {
		_, err := Parse([]byte(text), false)
		require.ErrorContains(t, err, fault, text)
	}
	_, err = Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Principal":{"AWS":"arn:aws:iam::111122223333:root"}}]}`), true)
	require.ErrorContains(t, err, "form of the principal")
	for fault, of := range map[string]string{
		"the wildcard":          `"StringEquals":{"aws:PrincipalArn":"x*"}`,
		"unknown condition key": `"StringEquals":{"aws:PrincipalArn":"${aws:username}"}`,
		"unknown form":          `"StringEqualsIgnoreCase":{"aws:PrincipalArn":"${aws:PrincipalTag/x}"}`,
	} {
		_, err := Evaluate(Policies{Identity: []*Policy{parse(t, condition(fine, of))}}, request(t, nil, ""))
		require.ErrorContains(t, err, fault)
	}
	_, err = Requests([]byte(`{"a":{"eventName":"X","other":1}}`))
	require.ErrorContains(t, err, "unknown field")
	_, err = Requests([]byte(`{"a":{"eventName":"X"}}`))
	require.ErrorContains(t, err, `request "a"`)
}

func condition(policy, text string) string {
	return strings.Replace(policy, `"Resource":"*"`, `"Resource":"*","Condition":{`+text+`}`, 1)
}
