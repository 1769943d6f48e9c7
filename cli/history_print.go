package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// rawRecord is a record as it was received.
type rawRecord = json.RawMessage

// idOf returns the id of a record; empty where it has none.
func idOf(raw rawRecord) string {
	r := struct {
		ID string `json:"id"`
	}{}
	if json.Unmarshal(raw, &r) != nil {
		return ""
	}
	return r.ID
}

// recordColumns of a table and of CSV. CSV has the further ones, too.
var (
	recordColumns  = []string{"TIME", "EVENT", "OBJECT", "INITIATOR", "BY", "APPROVED BY", "CAUSE", "DETAILS"}
	furtherColumns = []string{"EXTERNAL", "CLUSTER", "CLUSTER UID", "ID", "CAUSED BY", "MESSAGE"}
)

// recordPrinter prints records in a format: JSON as one list, or one record on each line while it watches.
type recordPrinter struct {
	out    io.Writer
	format string
	lines  bool
	table  *tabwriter.Writer
	csv    *csv.Writer
	n      int
	// all records, for YAML.
	all []rawRecord
}

func newRecordPrinter(out io.Writer, format string, watch bool) *recordPrinter {
	return &recordPrinter{out: out, format: format, lines: watch, table: tabwriter.NewWriter(out, 0, 0, 3, ' ', 0), csv: csv.NewWriter(out)}
}

// print prints records.
func (p *recordPrinter) print(list []rawRecord) error {
	for _, raw := range list {
		if err := p.one(raw); err != nil {
			return err
		}
		p.n++
	}
	return nil
}

// one prints one record.
func (p *recordPrinter) one(raw rawRecord) error {
	if p.format == formatJSON {
		before := ",\n  "
		switch {
		case p.lines:
			_, err := fmt.Fprintf(p.out, "%s\n", raw)
			return err
		case p.n == 0:
			before = "{\"records\": [\n  "
		}
		_, err := fmt.Fprintf(p.out, "%s%s", before, raw)
		return err
	}
	if p.format == formatYAML {
		return p.yaml(raw)
	}
	r := records.Record{}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("cannot read a record: %w", err)
	}
	cells := cellsOf(&r)
	if p.format == formatCSV {
		return p.row(append(cells, furtherCells(&r)...))
	}
	if p.n == 0 {
		fmt.Fprintln(p.table, strings.Join(recordColumns, "\t"))
	}
	for i, c := range cells {
		cells[i] = plainText(c)
	}
	_, err := fmt.Fprintln(p.table, strings.Join(cells, "\t"))
	return err
}

// yaml prints a record as YAML: a document for each while it watches, else all in one, in the end.
func (p *recordPrinter) yaml(raw rawRecord) error {
	if !p.lines {
		p.all = append(p.all, raw)
		return nil
	}
	text, err := yaml.JSONToYAML(raw)
	if err == nil {
		_, err = fmt.Fprintf(p.out, "---\n%s", text)
	}
	return err
}

// row prints a row of CSV, with the names of the columns before the first.
func (p *recordPrinter) row(cells []string) error {
	if p.n == 0 {
		if err := p.csv.Write(append(append([]string{}, recordColumns...), furtherColumns...)); err != nil {
			return err
		}
	}
	for i, c := range cells {
		c = plainText(c)
		cells[i] = c
		// A spreadsheet would evaluate it, and any user may have chosen it.
		if c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
			cells[i] = "'" + c
		}
	}
	return p.csv.Write(cells)
}

// flush flushes what was printed.
func (p *recordPrinter) flush() error {
	p.csv.Flush()
	if err := p.csv.Error(); err != nil {
		return err
	}
	return p.table.Flush()
}

// end ends the output.
func (p *recordPrinter) end() error {
	if p.format == formatJSON && !p.lines {
		text := "\n]}\n"
		if p.n == 0 {
			text = "{\"records\": []}\n"
		}
		_, err := fmt.Fprint(p.out, text)
		return err
	}
	if p.format == formatYAML && !p.lines {
		if p.all == nil {
			p.all = []rawRecord{}
		}
		text, err := yaml.Marshal(map[string]any{"records": p.all})
		if err == nil {
			_, err = p.out.Write(text)
		}
		return err
	}
	if p.n == 0 && p.format == formatTable && !p.lines {
		fmt.Fprintln(p.out, "No records.")
	}
	return p.flush()
}

// cellsOf returns the cells of a record, in the order of recordColumns.
func cellsOf(r *records.Record) []string {
	initiator, by := "", ""
	if len(r.Trace) > 0 {
		initiator = r.Trace[0].User
	}
	if r.Actor != nil {
		by = r.Actor.User + channel.Part(" for ", r.Actor.OnBehalfOf, "")
	}
	if initiator == "" {
		initiator, by = by, ""
	}
	if by == initiator {
		by = ""
	}
	approvers := lists.Map(r.Approvers, func(a records.Approver) string { return a.User })
	if len(approvers) == 0 && r.Approval != nil {
		approvers = append(approvers, r.Approval.Policy)
	}
	causes := lists.Map(r.Causes, func(c records.Cause) string { return c.Kind + "/" + c.Name })
	return []string{
		r.Time.UTC().Format(time.RFC3339), string(r.Type), objectText(&r.Object), initiator, by,
		strings.Join(approvers, ","), strings.Join(causes, ","), details(r),
	}
}

// details returns the details of a record: what was done, why, and which fields.
func details(r *records.Record) string {
	var out []string
	for _, s := range []string{r.Operation, r.Reason, strings.Join(r.Verbs, ","), strings.Join(r.Paths, ",")} {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// furtherCells returns further cells of a record, in the order of furtherColumns.
func furtherCells(r *records.Record) []string {
	return []string{r.External, r.Cluster.Name, string(r.Cluster.UID), r.ID, strings.Join(r.CausedBy, ","), r.Message}
}

// plainText has no characters that control a terminal or a table.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
