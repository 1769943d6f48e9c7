package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// item is a package to run, or some of its tests.
type item struct {
	// key is the item's in the record: the package, and after a # its tests.
	key, pkg string
	// tests that run, separated by |; empty for all but those of skip.
	tests, skip string
	recorded
}

// itemsOf packages: tests that the record has a line of their own for are an item beside their package. With more they
// are only those that are left to make test-more, else all others.
func itemsOf(packages []string, known record, more bool) []item {
	var items []item
	for _, pkg := range packages {
		rest := item{key: pkg, pkg: pkg, recorded: known.of(pkg)}
		var all []item
		for _, key := range known.shardsOf(pkg) {
			_, tests, _ := strings.Cut(key, "#")
			all = append(all, item{key: key, pkg: pkg, tests: tests, recorded: known[key]})
			rest.skip = strings.Trim(rest.skip+"|"+tests, "|")
		}
		for _, i := range append(all, rest) {
			if left(i.load) != more {
				continue
			}
			if i.load == loadWhole {
				i.tests, i.skip = "", ""
			}
			items = append(items, i)
		}
	}
	return items
}

// flags of go test that select the tests of the item.
func (i item) flags() []string {
	switch {
	case i.tests != "":
		return []string{"-run=^(" + i.tests + ")$"}
	case i.skip != "":
		return []string{"-skip=^(" + i.skip + ")$"}
	}
	return nil
}

// schedule runs items, the longest first, as many at a time as the machine carries, and those that
// measure time alone, after the others. It returns when all have ended; after ctx is done it starts
// no other.
func schedule(ctx context.Context, c capacity, items []item, run func(item)) {
	pending := slices.Clone(items)
	slices.SortStableFunc(pending, func(a, b item) int { return cmp.Compare(b.seconds, a.seconds) })
	var running []item
	done := make(chan item)
	for {
		for ctx.Err() == nil {
			i := next(c, pending, running)
			if i < 0 {
				break
			}
			started := pending[i]
			pending, running = slices.Delete(pending, i, i+1), append(running, started)
			go func() { run(started); done <- started }()
		}
		if len(running) == 0 {
			return
		}
		ended := <-done
		running = slices.DeleteFunc(running, func(r item) bool { return r.key == ended.key })
	}
}

// installs reports whether the item starts a whole installation.
func (i item) installs() bool { return i.load == loadInstallation || left(i.load) }

// next returns the index of the item to start beside those that run; -1 where none is to start.
func next(c capacity, pending, running []item) int {
	installations := 0
	for _, r := range running {
		switch {
		case r.load == loadAlone:
			return -1
		case r.installs():
			installations++
		}
	}
	if len(running) >= c.all {
		return -1
	}
	i := slices.IndexFunc(pending, func(p item) bool {
		return p.load == loadPlane || p.installs() && installations < c.installations
	})
	if i < 0 && len(running) == 0 && len(pending) > 0 {
		return 0
	}
	return i
}
