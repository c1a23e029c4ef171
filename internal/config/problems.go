package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problems collects everything that is wrong with a configuration, so that a person mends it in one go. The zero value
// is ready to use; not safe for concurrent use.
type Problems struct {
	prefix string
	list   *[]error
}

// Problem is one violated rule.
type Problem struct {
	Path  string // in the YAML file, such as edge.batch.max_events
	Value any    // as configured
	Rule  string // what must hold, such as "must be at least 1"
}

// Error names the place, the rule and the value.
func (p Problem) Error() string {
	if p.Value == nil {
		return fmt.Sprintf("%s %s", p.Path, p.Rule)
	}
	return fmt.Sprintf("%s %s (is %v)", p.Path, p.Rule, p.Value)
}

// Add records that the value at path (relative to the part) breaks the rule.
func (p *Problems) Add(path string, value any, rule string) {
	if p.list == nil {
		p.list = new([]error)
	}
	full := strings.Trim(p.prefix+"."+path, ".")
	*p.list = append(*p.list, Problem{Path: full, Value: value, Rule: rule})
}

// Check records a problem unless ok.
func (p *Problems) Check(ok bool, path string, value any, rule string) {
	if !ok {
		p.Add(path, value, rule)
	}
}

// Under runs sub with paths below prefix.
func (p *Problems) Under(prefix string, sub func(*Problems)) {
	if p.list == nil {
		p.list = new([]error)
	}
	sub(&Problems{prefix: strings.Trim(p.prefix+"."+prefix, "."), list: p.list})
}

// Err returns all problems joined, one a line, or nil.
func (p *Problems) Err() error {
	if p.list == nil {
		return nil
	}
	return errors.Join(*p.list...)
}
