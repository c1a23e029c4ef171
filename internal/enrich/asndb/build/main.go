// Command build makes a table of autonomous systems from the CSV files of the npm package @ip-location-db/asn:
//
//	build asn.db asn-ipv4.csv asn-ipv6.csv
package main

import (
	"fmt"
	"os"

	"github.com/spate-io/spate/internal/enrich/asndb"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: build <table> <csv file>...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out string, in []string) error {
	var list []asndb.Range
	for _, path := range in {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		rows, err := asndb.ReadCSV(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		list = append(list, rows...)
	}
	b, err := asndb.Build(list)
	if err != nil {
		return err
	}
	// The new file takes the place of an old one only when it is whole.
	if err := os.WriteFile(out+".new", b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(out+".new", out); err != nil {
		return err
	}
	fmt.Printf("%s: %d ranges from the source, %d bytes\n", out, len(list), len(b))
	return nil
}
