package allowance

import (
	"regexp"
	"strings"
)

// glob is a pattern with * for any run of characters, slashes included, and ?
// for one. nil matches everything.
type glob struct{ re *regexp.Regexp }

func newGlob(text string) *glob {
	if text == "" || text == "*" {
		return nil
	}
	quoted := regexp.QuoteMeta(text)
	quoted = strings.ReplaceAll(quoted, `\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\?`, `.`)
	return &glob{re: regexp.MustCompile(`(?s)\A` + quoted + `\z`)} // quoted text always compiles
}

func (g *glob) match(text string) bool { return g == nil || g.re.MatchString(text) }
