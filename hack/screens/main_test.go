package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The picture of the README is that of the recorded screen.
func TestPicture(t *testing.T) {
	const root = "../.."
	want, err := draw(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, picture))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what make generate draws: %v", picture, err)
	}
	d := xml.NewDecoder(bytes.NewReader(want))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"Composition revision xdatabases-7f3", "&#34;bronze&#34; → &#34;gold&#34;", "7642947475a29290", "To approve: kubectl"} {
		if !bytes.Contains(want, []byte(text)) {
			t.Errorf("the picture lacks %q", text)
		}
	}
}

// A screen with something that differs between runs is refused.
func TestUnknownValue(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, recorded)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("since <a new placeholder>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := draw(root); err == nil {
		t.Error("it is drawn")
	}
}
