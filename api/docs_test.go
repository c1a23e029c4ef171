package api

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/internal/testdata"
)

// TestDocs_NameEverything: the reference page names every route, parameter, dimension and configuration key with its default.
func TestDocs_NameEverything(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "reference", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	want := func(s string) {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not have %s", s)
		}
	}
	for _, r := range (&API{}).routes() {
		want("`" + r.method + " " + r.path + "`")
		for _, p := range r.params {
			want("`" + p.name)
		}
	}
	for _, d := range analytics.Dimensions() {
		want("`" + d + "`")
	}
	keys(want, "api", reflect.ValueOf(DefaultConfig()))
}

func keys(want func(string), path string, v reflect.Value) {
	for i := range v.NumField() {
		key := path + "." + v.Type().Field(i).Tag.Get("yaml")
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			keys(want, key, f)
		case reflect.Slice:
			want("`" + key + "`")
		default:
			want(fmt.Sprintf("| `%s` | %v |", key, f.Interface()))
		}
	}
}
