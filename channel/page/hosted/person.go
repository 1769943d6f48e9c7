package hosted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Person is a user of Kubernetes, with the groups that count.
type Person struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// rest is what authorizers may read beside them, of a user who is known by a token.
	rest string
}

// key of a person, as whom one page is.
func (p Person) key() string {
	raw, _ := json.Marshal(append([]string{p.User, p.rest}, p.Groups...)) // of texts alone
	return string(raw)
}

// maxGroups of a user that count: they are part of a cookie.
const maxGroups = 64

// claims returns the names of the claims with the name and the groups of a user.
func (o *OIDC) claims() (user, groups string) {
	return cmp.Or(o.UsernameClaim, "sub"), cmp.Or(o.GroupsClaim, "groups")
}

// prefix of names of users, whose default is that of the API server.
func (o *OIDC) prefix() string {
	switch {
	case o.UsernamePrefix == "-", o.UsernamePrefix == "" && o.UsernameClaim == "email":
		return ""
	case o.UsernamePrefix == "":
		return o.Issuer + "#"
	}
	return o.UsernamePrefix
}

// lacks reports whether claims are without the name or the groups of a user.
func (o *OIDC) lacks(claims map[string]any) bool {
	user, groups := o.claims()
	return claims[user] == nil || claims[groups] == nil
}

// person returns the user that claims name, as the API server would with the same flags.
func (o *OIDC) person(claims map[string]any) (Person, error) {
	user, groups := o.claims()
	name, _ := claims[user].(string)
	if name == "" {
		return Person{}, fmt.Errorf("the login has no claim %s, which has the name of the user", user)
	}
	if verified, has := claims["email_verified"]; user == "email" && has && verified != true {
		return Person{}, errors.New("the e-mail address of the login is not verified")
	}
	p := Person{User: o.prefix() + name}
	switch values := claims[groups].(type) {
	case string:
		p.Groups = []string{o.GroupsPrefix + values}
	case []any:
		for _, g := range values {
			if text, ok := g.(string); ok {
				p.Groups = append(p.Groups, o.GroupsPrefix+text)
			}
		}
	}
	return p, nil
}

// isName reports whether a text is a name of a user or a group that an HTTP header carries as it is.
func isName(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, unicode.IsControl)
}

// refusedError is why a user is refused, for that user.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// admit returns as whom the process acts for a user: with the groups that are listed. A user who is not listed is a refusedError.
func (c *Config) admit(p Person) (Person, error) {
	switch {
	case isSystem(p.User):
		return p, &refusedError{fmt.Sprintf("%q is a user of Kubernetes itself, and looks at no page.", p.User)}
	case !isName(p.User):
		return p, &refusedError{fmt.Sprintf("The name %q has spaces around it or control characters, which no name of a user has.", p.User)}
	case !c.ImpersonateAll && !slices.Contains(c.Users, p.User):
		return p, &refusedError{fmt.Sprintf("You have logged in as %s, who is not in the configuration of this page. Its administrator lists users there.", p.User)}
	}
	out := Person{User: p.User}
	for _, g := range p.Groups {
		if isName(g) && !isSystem(g) && (c.ImpersonateAll || slices.Contains(c.Groups, g)) && len(out.Groups) < maxGroups {
			out.Groups = append(out.Groups, g)
		}
	}
	slices.Sort(out.Groups)
	out.Groups = slices.Compact(out.Groups)
	return out, nil
}
