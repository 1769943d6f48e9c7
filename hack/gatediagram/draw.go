package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/hack/gatestates"
)

// box of a state, or of a group of states, by its middle and half its size.
type box struct{ x, y, w, h float64 }

const (
	width, height = 980, 600
	halfW, halfH  = 62, 20
	bend          = 18 // how far an edge leaves the straight line
)

func at(x, y float64) box { return box{x, y, halfW, halfH} }

// places of the states.
var places = map[gatestates.Status]box{
	gatestates.StatusAbsent:      at(90, 38),
	gatestates.StatusUnmasked:    at(440, 92),
	gatestates.StatusPaused:      at(850, 38),
	gatestates.StatusOpen:        at(200, 225),
	gatestates.StatusConfirming:  at(470, 225),
	gatestates.StatusHeld:        at(180, 470),
	gatestates.StatusClosed:      at(370, 470),
	gatestates.StatusExpired:     at(560, 470),
	gatestates.StatusDeleting:    at(700, 345),
	gatestates.StatusTerminating: at(895, 345),
}

// group of states that share a transition, drawn as a frame around them.
type group struct {
	name   string
	states []gatestates.Status
	box
}

// groups, larger ones first.
var groups = []group{
	{name: "masked", box: box{410, 350, 370, 220}, states: []gatestates.Status{gatestates.StatusClosed, gatestates.StatusHeld,
		gatestates.StatusExpired, gatestates.StatusOpen, gatestates.StatusConfirming, gatestates.StatusDeleting}},
	{name: "may act", box: box{335, 225, 225, 50}, states: []gatestates.Status{gatestates.StatusOpen, gatestates.StatusConfirming}},
	{name: "may only look", box: box{370, 470, 270, 50}, states: []gatestates.Status{gatestates.StatusClosed, gatestates.StatusHeld,
		gatestates.StatusExpired}},
}

// edge of the picture: all rows that lead from one box to another.
type edge struct {
	from, to box
	numbers  []string
}

// draw the picture.
func draw(rows []gatestates.Transition) ([]byte, error) {
	edges, err := edgesOf(rows)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-labelledby="t d" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif">
  <title id="t">The states of the gate</title>
  <desc id="d">Generated from the table of transitions in docs/gate.md; the numbers are its rows.</desc>
  <defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">`+
		`<path d="M0 0 L8 4 L0 8 z" fill="#57606a"/></marker></defs>
  <rect width="%d" height="%d" fill="#ffffff"/>
`, width, height, width, height, width, height)
	for _, g := range groups {
		frame(&out, g)
	}
	for _, e := range edges {
		line(&out, e)
	}
	for _, s := range slices.Sorted(keys()) {
		state(&out, s, places[s])
	}
	for _, e := range edges {
		badge(&out, e)
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

func keys() func(func(gatestates.Status) bool) {
	return func(yield func(gatestates.Status) bool) {
		for s := range places {
			if !yield(s) {
				return
			}
		}
	}
}

// edgesOf the rows, in their order; a group stands for its states where a row
// is about all of them.
func edgesOf(rows []gatestates.Transition) ([]edge, error) {
	var out []edge
	index := map[[2]box]int{}
	for i, r := range rows {
		to, ok := places[r.To]
		if !ok {
			return nil, fmt.Errorf("state %s has no place in the picture", r.To)
		}
		froms, err := boxesOf(r.From)
		if err != nil {
			return nil, err
		}
		for _, from := range froms {
			k := [2]box{from, to}
			if _, ok := index[k]; !ok {
				index[k] = len(out)
				out = append(out, edge{from: from, to: to})
			}
			e := &out[index[k]]
			e.numbers = append(e.numbers, strconv.Itoa(i+1))
		}
	}
	return out, nil
}

func boxesOf(states []gatestates.Status) ([]box, error) {
	left := slices.Clone(states)
	var out []box
	for _, g := range groups {
		if !slices.ContainsFunc(g.states, func(s gatestates.Status) bool { return !slices.Contains(left, s) }) {
			out = append(out, g.box)
			left = slices.DeleteFunc(left, func(s gatestates.Status) bool { return slices.Contains(g.states, s) })
		}
	}
	for _, s := range left {
		b, ok := places[s]
		if !ok {
			return nil, fmt.Errorf("state %s has no place in the picture", s)
		}
		out = append(out, b)
	}
	return out, nil
}

func frame(out *bytes.Buffer, g group) {
	fmt.Fprintf(out, `  <rect x="%g" y="%g" width="%g" height="%g" rx="10" fill="%s" stroke="#8c959f" stroke-dasharray="5 4"/>`+
		`<text x="%g" y="%g" font-size="12" fill="#57606a">%s</text>
`, g.x-g.w, g.y-g.h, 2*g.w, 2*g.h, fill(g.name), g.x-g.w+10, g.y-g.h+16, g.name)
}

func fill(name string) string {
	return map[string]string{"may act": "#fff8c5", "may only look": "#dafbe1"}[name] + map[string]string{"masked": "#f6f8fa"}[name]
}

func state(out *bytes.Buffer, s gatestates.Status, b box) {
	fmt.Fprintf(out, `  <rect x="%g" y="%g" width="%g" height="%g" rx="8" fill="#ffffff" stroke="#24292f" stroke-width="1.5"/>`+
		`<text x="%g" y="%g" font-size="14" text-anchor="middle" fill="#24292f">%s</text>
`, b.x-b.w, b.y-b.h, 2*b.w, 2*b.h, b.x, b.y+5, s)
}

// path of an edge: its ends on the two boxes, and the point it bends towards.
func path(e edge) (x1, y1, cx, cy, x2, y2 float64) {
	a, b := e.from, e.to
	if a == b {
		return a.x - 20, a.y - a.h, a.x, a.y - a.h - 62, a.x + 20, a.y - a.h
	}
	if inside(b, a) { // from a group to a state in it: from the frame beside it
		return b.x - 24, a.y + a.h*side(b.y-a.y), b.x - 30, (b.y + a.y + a.h*side(b.y-a.y)) / 2, b.x - 18, b.y + b.h*side(b.y-a.y)
	}
	tx, ty := nearest(a, b)
	sx, sy := nearest(b, a)
	mx, my := (tx+sx)/2, (ty+sy)/2
	d := math.Hypot(sx-tx, sy-ty)
	cx, cy = mx-(sy-ty)/d*bend*2, my+(sx-tx)/d*bend*2
	x1, y1 = clip(a, cx, cy, tx, ty)
	x2, y2 = clip(b, cx, cy, sx, sy)
	return x1, y1, cx, cy, x2, y2
}

func side(d float64) float64 {
	if d < 0 {
		return -1
	}
	return 1
}

func inside(b, a box) bool { return math.Abs(b.x-a.x)+b.w <= a.w && math.Abs(b.y-a.y)+b.h <= a.h }

// nearest point of a box's middle line to another box.
func nearest(a, b box) (x, y float64) {
	x = min(max(b.x, a.x-a.w+halfW), a.x+a.w-halfW)
	y = min(max(b.y, a.y-a.h+halfH), a.y+a.h-halfH)
	return x, y
}

// clip the line from a point to the middle of a box at its border.
func clip(b box, px, py, x, y float64) (float64, float64) {
	dx, dy := px-x, py-y
	t := math.Inf(1)
	for _, c := range [][3]float64{{dx, b.x + b.w, x}, {dx, b.x - b.w, x}, {dy, b.y + b.h, y}, {dy, b.y - b.h, y}} {
		if c[0] != 0 {
			if v := (c[1] - c[2]) / c[0]; v > 0 {
				t = min(t, v)
			}
		}
	}
	if math.IsInf(t, 1) || t > 1 {
		return x, y
	}
	return x + dx*t, y + dy*t
}

func line(out *bytes.Buffer, e edge) {
	x1, y1, cx, cy, x2, y2 := path(e)
	fmt.Fprintf(out, `  <path d="M%.0f %.0f Q%.0f %.0f %.0f %.0f" fill="none" stroke="#57606a" stroke-width="1.3" marker-end="url(#a)"/>
`, x1, y1, cx, cy, x2, y2)
}

func badge(out *bytes.Buffer, e edge) {
	x1, y1, cx, cy, x2, y2 := path(e)
	x, y := (x1+2*cx+x2)/4, (y1+2*cy+y2)/4
	text := strings.Join(e.numbers, " ")
	w := 10 + 7*float64(len(text))
	fmt.Fprintf(out, `  <rect x="%.0f" y="%.0f" width="%.0f" height="17" rx="8" fill="#ddf4ff" stroke="#0969da"/>`+
		`<text x="%.0f" y="%.0f" font-size="12" text-anchor="middle" fill="#0550ae">%s</text>
`, x-w/2, y-8.5, w, x, y+4, text)
}
