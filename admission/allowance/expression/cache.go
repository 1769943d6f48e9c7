package expression

import (
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/utils/lru"
)

// cacheSize is the number of programs that a Cache keeps. A program that is evicted continues to work where it is in
// use; its expression is compiled again only for the next policy that has it.
const cacheSize = 4096

// Cache shares programs by the text of their expressions. It is safe for
// concurrent use. The zero Cache is not usable.
type Cache struct {
	programs *lru.Cache
	compile  sync.Mutex
	env      func() (*cel.Env, error)
}

// NewCache returns a Cache that holds cacheSize programs.
func NewCache() *Cache { return &Cache{programs: lru.New(cacheSize), env: env} }

// NewRuleCache returns a Cache for expressions of ApprovalRules, which have other variables.
func NewRuleCache() *Cache { return &Cache{programs: lru.New(cacheSize), env: rulesEnv} }

// Compile returns the program of an expression, compiled now or earlier from the same text. The error names the line
// and column of the mistake.
func (c *Cache) Compile(text string) (*Program, error) {
	if p, ok := c.programs.Get(text); ok {
		return p.(*Program), nil
	}
	c.compile.Lock() // one at a time: loading policies must not starve requests
	defer c.compile.Unlock()
	if p, ok := c.programs.Get(text); ok {
		return p.(*Program), nil
	}
	p, err := compile(c.env, text)
	if err != nil {
		return nil, err
	}
	c.programs.Add(text, p)
	return p, nil
}
