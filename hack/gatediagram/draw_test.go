package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/hack/gatestates"
)

// The picture is XML, the same each time, and shows every state and every row.
func TestDraw(t *testing.T) {
	rows := gatestates.Transitions()
	got, err := draw(rows)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := draw(rows); !bytes.Equal(got, again) {
		t.Error("drawn twice, another picture")
	}
	var texts []string
	for d := xml.NewDecoder(bytes.NewReader(got)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			texts = append(texts, strings.Fields(string(c))...)
		}
	}
	all := " " + strings.Join(texts, " ") + " "
	for s := range places {
		if !strings.Contains(all, " "+string(s)+" ") {
			t.Errorf("state %s is missing", s)
		}
	}
	for i := range rows {
		if !strings.Contains(all, fmt.Sprintf(" %d ", i+1)) {
			t.Errorf("row %d is missing", i+1)
		}
	}
}

func TestDrawUnknown(t *testing.T) {
	for _, r := range []gatestates.Transition{{To: "limbo"}, {From: []gatestates.Status{"limbo"}, To: gatestates.StatusClosed}} {
		if _, err := draw([]gatestates.Transition{r}); err == nil {
			t.Errorf("a state without a place is drawn: %v", r)
		}
	}
}

func TestReplace(t *testing.T) {
	got, err := replace([]byte("a\n"+begin+"old\n"+end+"z\n"), "new\n")
	if err != nil || string(got) != "a\n"+begin+"new\n"+end+"z\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replace([]byte("a\n"), "new\n"); err == nil {
		t.Error("a page without a place for the table")
	}
}
