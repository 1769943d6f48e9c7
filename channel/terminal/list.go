package terminal

import "slices"

// maxKept is how many items are kept as rows.
const maxKept = 2000

// row of the terminal.
type row struct {
	text string
	look look
	// item that it belongs to; open: it can be opened.
	item int
	open bool
}

// list of items of which only those are made into rows that are visible, or next to them (KR-17-21).
type list struct {
	n int
	// item with a number is made into lines.
	item func(n int) []line
	// width and height in cells.
	width, height int
	// at is the item of which the first row is shown, off how many of its rows are above that. cursor is the item that is selected; -1 for none.
	at, off, cursor int
	kept            map[int][]row
	// made counts the items that were made into lines.
	made int
}

// newList returns a list that is shown from its beginning.
func newList(n int, item func(int) []line) *list {
	l := &list{n: n, item: item, cursor: -1, kept: map[int][]row{}}
	return l
}

// listOf returns the list of lines, each an item.
func listOf(lines []line) *list {
	return newList(len(lines), func(n int) []line { return lines[n : n+1] })
}

// size sets the size of the list; rows that were kept have another width otherwise.
func (l *list) size(width, height int) {
	if width != l.width {
		clear(l.kept)
		l.show(l.at, 0)
	}
	l.width, l.height = width, max(height, 1)
	l.clamp()
	if l.cursor < 0 {
		l.mark(l.near(l.at, +1, l.height))
	}
}

// marker of what can be opened: that which is selected, and the others.
const marker, noMarker = "> ", "  "

// rows returns the rows of an item.
func (l *list) rows(n int) []row {
	if have, ok := l.kept[n]; ok {
		return have
	}
	if len(l.kept) >= maxKept {
		clear(l.kept)
	}
	l.made++
	var out []row
	for _, one := range l.item(n) {
		texts := []string{one.text}
		width := l.width - len(marker) - one.indent
		if one.cut {
			texts[0] = fit(one.text, width)
		} else {
			texts = wrap(one.text, width)
		}
		for i, t := range texts {
			indent := one.indent
			if i > 0 {
				indent++
			}
			out = append(out, row{text: spaces(indent) + t, look: one.look, item: n, open: one.to != nil})
		}
	}
	if len(out) == 0 {
		out = []row{{item: n}}
	}
	l.kept[n] = out
	return out
}

// opens reports where an item leads; nil for nowhere.
func (l *list) opens(n int) *place {
	if n < 0 || n >= l.n {
		return nil
	}
	for _, one := range l.item(n) {
		if one.to != nil {
			return one.to
		}
	}
	return nil
}

// show shows the rows of an item first, but for some of them.
func (l *list) show(item, off int) { l.at, l.off = item, off }

// mark marks an item as selected; a negative number selects none.
func (l *list) mark(item int) { l.cursor = item }

// selectable reports whether an item can be opened.
func (l *list) selectable(n int) bool {
	return slices.ContainsFunc(l.rows(n), func(r row) bool { return r.open })
}

// near returns the next item from one on that can be opened, at most some items away; -1 for none.
func (l *list) near(n, step, most int) int {
	for i := 0; n >= 0 && n < l.n && i <= most; i++ {
		if l.selectable(n) {
			return n
		}
		n += step
	}
	return -1
}

// visible rows, from the first that is shown.
func (l *list) visible() (out []row) {
	for n, skip := l.at, l.off; n < l.n && len(out) < l.height; n, skip = n+1, 0 {
		rows := l.rows(n)
		out = append(out, rows[min(skip, len(rows)):]...)
	}
	return out[:min(len(out), l.height)]
}

// clamp clamps what is shown to the items that there are: the last screen is full.
func (l *list) clamp() {
	if l.at >= l.n {
		l.show(max(l.n-1, 0), 0)
	}
	if l.cursor >= l.n {
		l.mark(l.near(l.n-1, -1, l.height))
	}
	if l.n == 0 {
		return
	}
	below := -l.off // rows from the first that is shown, as far as they matter
	for n := l.at; n < l.n && below < l.height; n++ {
		below += len(l.rows(n))
	}
	for missing := l.height - below; missing > 0; {
		switch {
		case l.off > 0:
			step := min(l.off, missing)
			l.show(l.at, l.off-step)
			missing -= step
		case l.at > 0:
			l.show(l.at-1, len(l.rows(l.at-1)))
		default:
			return
		}
	}
}

// scroll scrolls by some rows; it reports whether anything has moved.
func (l *list) scroll(by int) bool {
	at, off := l.at, l.off
	for ; by > 0 && l.at < l.n; by-- {
		switch {
		case l.off+1 < len(l.rows(l.at)):
			l.show(l.at, l.off+1)
		case l.at+1 < l.n:
			l.show(l.at+1, 0)
		}
	}
	for ; by < 0; by++ {
		switch {
		case l.off > 0:
			l.show(l.at, l.off-1)
		case l.at > 0:
			l.show(l.at-1, len(l.rows(l.at-1))-1)
		}
	}
	l.clamp()
	return at != l.at || off != l.off
}

// shown reports how many rows of an item are visible, and whether the first is.
func (l *list) shown(n int) (count int, first bool) {
	rows := l.visible()
	for i := range rows {
		if rows[i].item == n {
			count++
		}
	}
	return count, count > 0 && (n != l.at || l.off == 0)
}

// reveal reveals as much of the selected item as there is room for.
func (l *list) reveal() {
	for range l.height {
		count, first := l.shown(l.cursor)
		switch {
		case count == len(l.rows(l.cursor)), first && l.at == l.cursor:
			return
		case l.cursor < l.at, l.cursor == l.at && l.off > 0:
			if !l.scroll(-1) {
				return
			}
		case !l.scroll(+1):
			return
		}
	}
}

// move moves to the next item that can be opened, or by a row where that is not visible yet.
func (l *list) move(step int) {
	from := l.cursor + step
	if count, _ := l.shown(l.cursor); count == 0 { // it was scrolled away
		rows := l.visible()
		if len(rows) == 0 {
			return
		}
		from = rows[0].item
		if step < 0 {
			from = rows[len(rows)-1].item
		}
	}
	next := l.near(from, step, l.height)
	if !l.pick(next) && l.scroll(step) {
		l.pick(next)
	}
}

// pick picks an item if it is visible.
func (l *list) pick(n int) bool {
	if n < 0 {
		return false
	}
	if _, first := l.shown(n); !first {
		return false
	}
	l.mark(n)
	l.reveal()
	return true
}

// selected returns where what is selected leads, if it is visible; nil for nowhere.
func (l *list) selected() *place {
	if count, _ := l.shown(l.cursor); count == 0 {
		return nil
	}
	return l.opens(l.cursor)
}

// leap leaps a screen up or down.
func (l *list) leap(step int) {
	moved := l.scroll(step * max(l.height-1, 1))
	rows := l.visible()
	pick := -1
	for i := range rows {
		if rows[i].open && (pick < 0 || step > 0 && !moved) {
			pick = rows[i].item
		}
	}
	if pick >= 0 {
		l.mark(pick)
		l.reveal()
	}
}

// first shows the first item, and selects the first that can be opened.
func (l *list) first() {
	l.show(0, 0)
	if n := l.near(0, +1, l.height); n >= 0 {
		l.mark(n)
	}
}

// last item.
func (l *list) last() {
	l.show(max(l.n-1, 0), 0)
	l.clamp()
	if n := l.near(l.n-1, -1, l.height); n >= 0 {
		l.mark(n)
		l.reveal()
	}
}

// spaces returns the spaces of a width.
func spaces(n int) string {
	const many = "                                        "
	return many[:min(max(n, 0), len(many))]
}
