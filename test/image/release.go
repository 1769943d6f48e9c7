package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kausality-io/function-kausality/test/image/release"
)

func writeLayout(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("layout", help)
	output := fs.String("output", "", "directory to write the OCI image layout to")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 || *output == "" {
		return errors.New("layout: name the image tarballs and --output")
	}
	digest, err := release.Layout(*output, fs.Args())
	if err == nil {
		_, _ = fmt.Fprintln(out, *output, digest)
	}
	return err
}

func archive(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("archive", help)
	output := fs.String("output", "", "gzipped tarball to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 || *output == "" {
		return errors.New("archive: name the files and --output")
	}
	_, _ = fmt.Fprintln(out, *output)
	return release.Archive(*output, fs.Args())
}

func krew(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("krew", help)
	p, output := release.Plugin{}, ""
	fs.StringVar(&p.Version, "version", "", "version of the release")
	fs.StringVar(&p.URL, "url", "", "URL below which the archives are published, by version")
	fs.StringVar(&output, "output", "", "manifest to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if p.URL == "" || output == "" {
		return errors.New("krew: name --url and --output")
	}
	p.Archives = fs.Args()
	if err := release.Krew(output, p); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, output)
	return nil
}

func checksums(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("checksums", help)
	version := fs.String("version", "", "version of the release")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("checksums: name the directory of the release")
	}
	if err := release.CheckVersion(*version); err != nil {
		return err
	}
	if err := release.Checksums(fs.Arg(0)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s/%s\n", fs.Arg(0), release.Sums)
	return nil
}
