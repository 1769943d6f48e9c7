package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrNone is returned where the machine has no PostgreSQL.
var ErrNone = errors.New("there is no PostgreSQL on this machine: install the package postgresql")

// Bounds of the start and the end of a server.
const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
)

// Server of databases that are gone with it.
type Server struct {
	dir       string
	cmd       *exec.Cmd
	databases int
}

// programs initdb and postgres: on the path, or where Debian's and Fedora's packages install them.
func programs() (initdb, server string, err error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(dirs)
	for _, dir := range append(dirs, "/usr/bin", "/usr/local/bin", "/usr/pgsql/bin") {
		initdb, server = filepath.Join(dir, "initdb"), filepath.Join(dir, "postgres")
		if executable(initdb) && executable(server) {
			return initdb, server, nil
		}
	}
	return "", "", ErrNone
}

func executable(file string) bool {
	i, err := os.Stat(file)
	return err == nil && i.Mode()&0o111 != 0
}

// unprivileged is what a process needs to run as a user other than root; nil where this one does.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "daemon"} {
		if u, err := user.Lookup(name); err == nil {
			uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
			gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
		}
	}
	return nil, errors.New("cannot run PostgreSQL: it refuses to run as root, and there is no user postgres or daemon")
}

// Start a server on a socket in a new directory. The error matches ErrNone where there is none to start.
func Start(ctx context.Context) (*Server, error) {
	initdb, server, err := programs()
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil { // short: a socket's path has at most 107 bytes
		return nil, err
	}
	if as != nil {
		if err := os.Chown(s.dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, errors.Join(err, s.Stop())
		}
	}
	data := filepath.Join(s.dir, "data")
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = s.dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + s.dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
		return cmd
	}
	if out, err := command(initdb, "-D", data, "-A", "trust", "-U", "test", "--no-sync", "-E", "UTF8").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot initialize PostgreSQL: %w: %s", err, out), s.Stop())
	}
	s.cmd = command(server, "-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "shared_buffers=256MB", "-c", "max_wal_size=2GB")
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return nil, errors.Join(fmt.Errorf("cannot start PostgreSQL: %w", err), s.Stop())
	}
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = s.answers(ctx)
		return last == nil, nil
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("PostgreSQL does not answer: %w", last), s.Stop())
	}
	return s, nil
}

// url of a database.
func (s *Server) url(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("test"), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}).String()
}

func (s *Server) answers(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// Database creates an empty one and returns its URL. It is not safe for concurrent use.
func (s *Server) Database(ctx context.Context) (string, error) {
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return "", err
	}
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	_, err = c.Exec(ctx, "CREATE DATABASE "+name)
	return s.url(name), errors.Join(err, c.Close(ctx))
}

// Stop the server and delete its databases.
func (s *Server) Stop() error {
	var err error
	if s.cmd != nil {
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		err = s.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended: // its exit code is of no interest
		case <-time.After(stopTimeout):
			err = errors.Join(err, s.cmd.Process.Kill(), <-ended)
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
