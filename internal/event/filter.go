package event

import (
	"fmt"
	"slices"
	"strings"
)

// Filter says which records are wanted. Empty members want all; a nil Filter
// wants everything.
type Filter struct {
	Types    []string // whole types, or families such as call.*
	Upstream string
	Tool     string // the upstream's own name of it
	Session  string
	Level    string // the least important one
	Trace    string // the id of a trace of W3C
}

// families are what types begin with.
var families = []string{"call", "upstream", "session", "task", "run", "step", "turn", "policy", "error", "health"}

var ranks = map[string]int{Debug: 1, "": 2, Info: 2, Warning: 3, Error: 4}

// NewFilter checks what was asked for. types are separated by commas.
func NewFilter(types, upstream, tool, session, level, trace string) (*Filter, error) {
	f := &Filter{Upstream: upstream, Tool: tool, Session: session, Level: level, Trace: trace}
	if trace != "" && (len(trace) != 32 || strings.Trim(trace, "0123456789abcdef") != "") {
		return nil, fmt.Errorf("trace %q is not the id of a trace: 32 digits of lower-case hex", trace)
	}
	if ranks[level] == 0 {
		return nil, fmt.Errorf("level %q is none of debug, info, warning and error", level)
	}
	for one := range strings.SplitSeq(types, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if family, _, _ := strings.Cut(one, "."); !slices.Contains(families, family) {
			return nil, fmt.Errorf("there are no events of type %q; types begin with %s", one, strings.Join(families, ", "))
		}
		f.Types = append(f.Types, one)
	}
	return f, nil
}

// Passes reports whether a record is wanted.
func (f *Filter) Passes(r *Record) bool {
	if f == nil {
		return true
	}
	return (f.Upstream == "" || f.Upstream == r.Upstream) &&
		(f.Tool == "" || f.Tool == r.Tool) &&
		(f.Session == "" || f.Session == r.Session) &&
		(f.Trace == "" || f.Trace == r.Trace) &&
		(f.Level == "" || ranks[r.Level] >= ranks[f.Level]) &&
		f.hasType(r.Type)
}

func (f *Filter) hasType(t string) bool {
	if len(f.Types) == 0 {
		return true
	}
	for _, want := range f.Types {
		if want == t {
			return true
		}
		family, ok := strings.CutSuffix(want, "*")
		if ok && strings.HasPrefix(t, family) || !strings.Contains(want, ".") && strings.HasPrefix(t, want+".") {
			return true
		}
	}
	return false
}
