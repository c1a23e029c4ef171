// Command gen makes crawlers.tsv from crawler-user-agents.json of the npm package crawler-user-agents: it reads the JSON from
// standard input and writes the list to standard output.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var list []struct {
		Pattern string   `json:"pattern"`
		Tags    []string `json:"tags"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	w := bufio.NewWriter(os.Stdout)
	fmt.Fprint(w, header)
	slices.SortStableFunc(list, func(a, b struct {
		Pattern string   `json:"pattern"`
		Tags    []string `json:"tags"`
	}) int {
		return cmp.Compare(strings.ToLower(a.Pattern), strings.ToLower(b.Pattern))
	})
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\n", c.Pattern, strings.Join(c.Tags, ","))
	}
	return w.Flush()
}

const header = `# Patterns and tags of crawler-user-agents 1.60.0 (https://github.com/monperrus/crawler-user-agents), MIT License,
# Copyright (c) 2017 Martin Monperrus; the text of the licence is in crawlers.LICENSE.
# A pattern is a regular expression, matched with regard to case; a tab; tags with commas between them.
# Made by internal/enrich/useragent/internal/gen.
`
