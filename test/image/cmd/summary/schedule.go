package main

import (
	"cmp"
	"context"
	"slices"
)

// item is a package to run.
type item struct {
	pkg string
	recorded
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
		running = slices.DeleteFunc(running, func(r item) bool { return r.pkg == ended.pkg })
	}
}

// next returns the index of the item to start beside those that run; -1 where none is to start.
func next(c capacity, pending, running []item) int {
	installations := 0
	for _, r := range running {
		switch r.load {
		case loadAlone:
			return -1
		case loadInstallation:
			installations++
		}
	}
	if len(running) >= c.all {
		return -1
	}
	i := slices.IndexFunc(pending, func(p item) bool {
		return p.load == loadPlane || p.load == loadInstallation && installations < c.installations
	})
	if i < 0 && len(running) == 0 && len(pending) > 0 {
		return 0
	}
	return i
}
