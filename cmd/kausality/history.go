package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/server"
	"github.com/kausality-io/function-kausality/webhook/serving"
)

// minHashKey is the length of a key of names, in bytes.
const minHashKey = 32

// storeFlags identify a store.
type storeFlags struct{ location, urlFile, keyFile string }

// add the flags to a command.
func (f *storeFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.location, "store", "/var/lib/kausality/history.db", "File of the records in SQLite, which is created.")
	fl.StringVar(&f.urlFile, "store-url-file", "", "File with a URL postgres:// instead of --store.")
	fl.StringVar(&f.keyFile, "hash-key-file", "", "File with the key of the hashes that replace names, at least 32 bytes. It must not change.")
}

// read the files of the flags.
func (f *storeFlags) read() (location string, key []byte, err error) {
	location = f.location
	if f.urlFile != "" {
		raw, err := os.ReadFile(f.urlFile)
		if location = strings.TrimSpace(string(raw)); err != nil || !strings.HasPrefix(location, "postgres") {
			return "", nil, usageError{errors.Join(errors.New("--store-url-file: it must contain a URL postgres://"), err)}
		}
	}
	if f.keyFile != "" {
		if key, err = os.ReadFile(f.keyFile); err != nil || len(key) < minHashKey {
			return "", nil, usageError{errors.Join(fmt.Errorf("--hash-key-file: it must contain at least %d bytes", minHashKey), err)}
		}
	}
	return location, key, nil
}

// with a store, run f.
func (f *storeFlags) with(ctx context.Context, do func(*history.Store) error) error {
	location, key, err := f.read()
	if err != nil {
		return err
	}
	if f.urlFile == "" {
		if _, err := os.Stat(location); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	s, err := history.Open(ctx, location, history.Options{HashKey: key})
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// historyCommand runs the store of records, and has the commands for its administrator.
func historyCommand() *cobra.Command {
	p, s, o := processFlags{}, storeFlags{}, server.Options{}
	cmd := &cobra.Command{
		Use: "history", Short: "Run the store of records: who caused changes, who approved them, and what they did.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Location, o.HashKey, err = s.read(); err != nil {
				return err
			}
			if err := serving.CheckDir(o.CertDir); err != nil {
				return err
			}
			return p.run(cmd.Context(), "history", func(ctx context.Context) error {
				o.Config, o.Log, o.MetricsAddress, o.ProbeAddress = p.Config, p.Log, p.MetricsAddress, p.ProbeAddress
				return server.Run(ctx, o)
			})
		},
	}
	s.add(cmd)
	fl := cmd.Flags()
	p.addServing(fl)
	fl.StringVar(&o.BindAddress, "bind-address", ":8443", "HOST:PORT to receive records and queries on.")
	fl.StringVar(&o.CertDir, "cert-dir", "", "Directory with the serving certificate tls.crt and its key tls.key; read again when they change.")
	fl.DurationVar(&o.Retention, "retention", history.DefaultRetention, "For how long records are kept; 0 keeps all.")
	fl.StringVar(&o.TokenDir, "sender-tokens-dir", "", "Directory with a file for each sender that is no user of this cluster; it contains its bearer token.")
	fl.StringVar(&o.NATS.URLs, "nats-url", "", "URLs of NATS servers to read records from, with commas between.")
	fl.StringVar(&o.NATS.Stream, "nats-stream", "KAUSALITY", "Stream of JetStream with the records; it must exist.")
	fl.StringVar(&o.NATS.Consumer, "nats-consumer", "kausality-history", "Durable consumer, which replicas of one store share.")
	fl.StringVar(&o.NATS.CredsFile, "nats-creds-file", "", "Credentials for --nats-url.")
	fl.StringVar(&o.NATS.CAFile, "nats-ca-file", "", "PEM certificates to trust for --nats-url.")
	return addSilent(cmd, historyForgetCommand(), historyExportCommand(), historyVerifyCommand())
}

// historyForgetCommand replaces a person's name.
func historyForgetCommand() *cobra.Command {
	s := storeFlags{}
	cmd := &cobra.Command{
		Use: "forget USER", Short: "Replace the name of a user by a keyed hash, in all records up to now.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("give one name of a user; see %s --help", cmd.CommandPath())}
			}
			return s.with(cmd.Context(), func(store *history.Store) error {
				n, err := store.Forget(cmd.Context(), args[0])
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%d records changed\n", n)
				}
				return err
			})
		},
	}
	s.add(cmd)
	return cmd
}

// historyExportCommand writes the records of a day for auditors.
func historyExportCommand() *cobra.Command {
	s, on, clusterUID, previous, keyFile := storeFlags{}, "", "", "", ""
	cmd := &cobra.Command{
		Use: "export", Short: "Print the records of a cluster and a day, hash-chained and signed, with hashes instead of names.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := readKey[ed25519.PrivateKey](keyFile, x509.ParsePKCS8PrivateKey)
			if err != nil {
				return usageError{fmt.Errorf("--signing-key-file: %w", err)}
			}
			return s.with(cmd.Context(), func(store *history.Store) error {
				seal, err := store.Export(cmd.Context(), cmd.OutOrStdout(), clusterUID, on, previous, key)
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d records, root %s\n", seal.Count, seal.Root)
				}
				return err
			})
		},
	}
	s.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&on, "day", time.Now().UTC().AddDate(0, 0, -2).Format(time.DateOnly), "Day in UTC, as in 2026-11-24; it must be over.")
	fl.Lookup("day").DefValue = "the day before yesterday"
	fl.StringVar(&clusterUID, "cluster", "", "UID of the cluster, which is that of its Namespace kube-system.")
	fl.StringVar(&previous, "previous", "", "Root of the export of the day before, which this one continues.")
	fl.StringVar(&keyFile, "signing-key-file", "", "PEM file with a private key of Ed25519, PKCS #8.")
	return cmd
}

// historyVerifyCommand checks exports.
func historyVerifyCommand() *cobra.Command {
	s, keyFile, fileOnly := storeFlags{}, "", false
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check an export, and that the store has its records, all of them, and no others.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("give one file; see %s --help", cmd.CommandPath())}
			}
			key, err := readKey[ed25519.PublicKey](keyFile, x509.ParsePKIXPublicKey)
			if err != nil {
				return usageError{fmt.Errorf("--public-key-file: %w", err)}
			}
			e, err := readExport(args[0], key)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d records of %s in cluster %s, chain and signature are intact\n", args[0], e.Seal.Count, e.Header.Day, e.Header.Cluster)
			if fileOnly {
				return nil
			}
			return s.with(cmd.Context(), func(store *history.Store) error { return verify(cmd.Context(), cmd.OutOrStdout(), store, e) })
		},
	}
	s.add(cmd)
	cmd.Flags().StringVar(&keyFile, "public-key-file", "", "PEM file with the public key of Ed25519.")
	cmd.Flags().BoolVar(&fileOnly, "file-only", false, "Check the file alone, as where the records are older than the retention.")
	return cmd
}

// verify an export against a store, and print each record that differs.
func verify(ctx context.Context, out io.Writer, store *history.Store, e *history.Export) error {
	d, err := store.Verify(ctx, e)
	if err != nil {
		return err
	}
	for _, list := range []struct {
		what string
		ids  []string
	}{{"changed", d.Changed}, {"missing", d.Missing}, {"inserted", d.Inserted}, {"arrived after the export", d.Late}} {
		for _, id := range list.ids {
			fmt.Fprintf(out, "%s: %s\n", id, list.what)
		}
	}
	if !d.None() {
		return fmt.Errorf("the store differs from the export: %d records changed, %d missing, %d inserted", len(d.Changed), len(d.Missing), len(d.Inserted))
	}
	fmt.Fprintln(out, "the store has these records, unchanged")
	return nil
}

func readExport(file string, key ed25519.PublicKey) (e *history.Export, err error) {
	f, err := os.Open(file) //nolint:gosec // The administrator names it.
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return history.ReadExport(f, key)
}

// readKey of a type from a PEM file.
func readKey[K any](file string, parse func([]byte) (any, error)) (key K, err error) {
	raw, err := os.ReadFile(file) //nolint:gosec // The administrator names it.
	if err != nil {
		return key, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return key, errors.New("it is no PEM")
	}
	parsed, err := parse(block.Bytes)
	if err != nil {
		return key, err
	}
	key, ok := parsed.(K)
	if !ok {
		return key, errors.New("it is no key of Ed25519")
	}
	return key, nil
}
