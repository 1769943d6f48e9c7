package controlplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestFreePort(t *testing.T) {
	seen := map[int]bool{}

	for range 50 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}

		if seen[port] {
			t.Fatalf("%d was returned twice", port)
		}

		seen[port] = true

		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // The test ends.

		if free(port) {
			t.Errorf("%d is in use, but reported free", port)
		}
	}
}

// leaseHelper names the variable that makes a test binary one of the processes of TestLeases.
const leaseHelper = "CONTROLPLANE_LEASES"

const (
	leaseProcesses = 4
	leasesEach     = 50
	leaseRange     = 400
)

// TestLeases: processes that pick ports at once, out of few, get different ones, and can listen on all
// of them.
func TestLeases(t *testing.T) {
	lines := make(chan string, 2*leaseProcesses)
	stdins := make([]io.WriteCloser, leaseProcesses)

	for i := range stdins {
		stdins[i] = startLeaseHelper(t, lines)
	}

	owners := map[string]int{}

	for i := range stdins {
		leased := strings.Fields(<-lines)
		if len(leased) != leasesEach {
			t.Fatalf("a process leased %d ports: %q", len(leased), leased)
		}

		for _, port := range leased {
			if other, taken := owners[port]; taken {
				t.Errorf("port %s is leased to the processes %d and %d", port, other, i)
			}

			owners[port] = i
		}
	}

	for _, stdin := range stdins {
		if _, err := io.WriteString(stdin, "listen\n"); err != nil {
			t.Fatal(err)
		}
	}

	for range stdins {
		if got, want := <-lines, "listening"; got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// startLeaseHelper runs TestLeaseHelper until the test ends, and sends each line that it prints.
func startLeaseHelper(t *testing.T, lines chan<- string) io.WriteCloser {
	t.Helper()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaseHelper+"=1")

	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	read := make(chan struct{})

	go func() {
		defer close(read)

		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // The result of the helper's own test: nothing reads it.
			}
		}
	}()

	t.Cleanup(func() {
		_ = stdin.Close()

		<-read

		if err := cmd.Wait(); err != nil {
			t.Errorf("a process that leases ports: %v", err)
		}
	})

	return stdin
}

// HelpLeasing is for TestMain: where leaseHelper is set, the process leases, listens when it is requested
// to, and ends with its input; else it returns.
func HelpLeasing() {
	if os.Getenv(leaseHelper) == "" {
		return
	}

	ports.first = ports.last - leaseRange + 1

	leased, err := freePorts(leasesEach)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}

	fmt.Println(strings.Trim(fmt.Sprint(leased), "[]"))

	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')

	for _, port := range leased {
		if _, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}

	fmt.Println("listening")

	_, _ = in.ReadString('\n')

	os.Exit(0)
}

// TestLeaseHeld: a lease survives the garbage collector, is not inherited by a child, and ends with its file.
func TestLeaseHeld(t *testing.T) {
	mine, others := newLessor(t.TempDir()), newLessor("")
	others.dir = mine.dir

	port, err := mine.lease()
	if err != nil {
		t.Fatal(err)
	}

	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})

	runtime.GC()
	runtime.GC()

	if leased, err := others.take(port); leased || err != nil {
		t.Errorf("a port is leased twice: %v, %v", leased, err)
	}

	if err := mine.leases[port].Close(); err != nil {
		t.Fatal(err)
	}

	if leased, err := others.take(port); !leased || err != nil {
		t.Errorf("a port is not leased again: %v, %v", leased, err)
	}
}

// TestLeaseRefused: a directory that cannot be used is named in one line.
func TestLeaseRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := newLessor(filepath.Join(file, "ports")).lease()
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("want an error about the directory, got %v", err)
	}

	if text := err.Error(); !strings.HasPrefix(text, "cannot lease a port: ") || !strings.Contains(text, file) || strings.Contains(text, "\n") {
		t.Errorf("want one line that names the directory, got %q", text)
	}
}
