package rights

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestElsewhereIsShown: each test that Elsewhere names exists, and asserts that its rights were used.
func TestElsewhereIsShown(t *testing.T) {
	for right, name := range Elsewhere {
		dir, test, ok := strings.Cut(name, ".")
		require.True(t, ok, name)
		assert.True(t, shows(t, filepath.Join("..", dir), test), "%s: %s does not call rights.Show", right, name)
	}
}

// shows reports whether a test in a directory calls Show.
func shows(t *testing.T, dir, test string) (found bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != test {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "Show" {
					x, ok := s.X.(*ast.Ident)
					found = found || ok && x.Name == "rights"
				}
				return true
			})
		}
	}
	return found
}

// TestUsed: what a request needed, by a line of the log.
func TestUsed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	line := func(user, verb, resource, subresource, code string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"objectRef":{"apiGroup":"g","resource":"` + resource + `","subresource":"` +
			subresource + `"},"responseStatus":{"code":` + code + "}}\n"
	}
	require.NoError(t, os.WriteFile(log, []byte(line(Prefix+"gate", "watch", "a", "", "200")+line(Prefix+"webhook", "patch", "b", "status", "201")+
		line("hans", "get", "c", "", "200")+line(Prefix+"gate", "get", "d", "", "403")), 0o600))
	used := map[Right]bool{}
	Requests(t, log, Prefix, "", func(e Request) { Used(used, Prefix, e) })
	assert.Equal(t, map[Right]bool{{"gate", "g", "a", "watch"}: true, {"gate", "g", "a", "list"}: true,
		{"webhook", "g", "b/status", "patch"}: true, {"webhook", "g", "b/status", "create"}: true}, used)
}
