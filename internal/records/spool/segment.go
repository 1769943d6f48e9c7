package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// magic begins each segment, with the version of its format.
	magic = "KRECORD1"
	// header of a record: its length, and the checksum of length and content, 4 bytes each.
	header = 8
	// MaxRecord is the size of a record in bytes at most.
	MaxRecord = 64 << 10
	// suffix of the files of segments, which are named by the number of their first record.
	suffix = ".records"
)

// errDamaged is a record that is torn or was changed on disk.
var errDamaged = errors.New("the record is damaged")

var checksums = crc32.MakeTable(crc32.Castagnoli)

// frame returns the frame of a record, appended to b.
func frame(b, record []byte) []byte {
	var h [header]byte
	binary.BigEndian.PutUint32(h[:4], uint32(len(record)))
	sum := crc32.Update(crc32.Checksum(h[:4], checksums), checksums, record)
	binary.BigEndian.PutUint32(h[4:], sum)
	return append(append(b, h[:]...), record...)
}

// readFrame of the next record; io.EOF at the end, errDamaged where there is no whole record.
func readFrame(r io.Reader) ([]byte, error) {
	var h [header]byte
	switch _, err := io.ReadFull(r, h[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errDamaged
	case err != nil:
		return nil, err
	}
	n := binary.BigEndian.Uint32(h[:4])
	if n > MaxRecord {
		return nil, errDamaged
	}
	record := make([]byte, n)
	switch _, err := io.ReadFull(r, record); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errDamaged
	case err != nil:
		return nil, err
	}
	if crc32.Update(crc32.Checksum(h[:4], checksums), checksums, record) != binary.BigEndian.Uint32(h[4:]) {
		return nil, errDamaged
	}
	return record, nil
}

// A segment is one file of the spool.
type segment struct {
	path string
	// first is the number of its first record; end that of the record after its last.
	first, end uint64
	// size of the file in bytes, of what is whole.
	size int64
}

// fileOf returns the file of a segment whose first record has a number.
func fileOf(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, suffix))
}

// firstOf the segment that a file is; false for other files.
func firstOf(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil
}

// scan scans a segment up to its end, or up to what is damaged.
func scan(path string, first uint64) (s segment, damaged bool, err error) {
	s = segment{path: path, first: first, end: first}
	f, err := os.Open(path) //nolint:gosec // In a directory that a flag names.
	if err != nil {
		return s, false, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	r := bufio.NewReaderSize(f, 1<<16)
	if !isSegment(r) {
		return s, true, nil
	}
	s.size = int64(len(magic))
	for {
		record, err := readFrame(r)
		switch {
		case errors.Is(err, io.EOF):
			return s, false, nil
		case errors.Is(err, errDamaged):
			return s, true, nil
		case err != nil:
			return s, false, err
		}
		s.end++
		s.size += int64(header + len(record))
	}
}

// isSegment reads the beginning of a segment.
func isSegment(r io.Reader) bool {
	begin := make([]byte, len(magic))
	_, err := io.ReadFull(r, begin)
	return err == nil && string(begin) == magic
}
