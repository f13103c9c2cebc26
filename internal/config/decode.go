package config

import (
	"fmt"
	"slices"
	"strings"
)

// source is one file.
type source struct {
	name      string // as a person named it
	workspace string // absolute; relative paths in it and ${workspaceFolder} start here
	strict    bool   // has `stoa: 1`
	rank      int
	env       environ // the variables that its strings see
	// doubles are the keys that are there twice, where each server answers for
	// its own; see decoder.doubled.
	tolerant bool
	doubles  Problems
}

// report collects what is to be said of all files.
type report struct {
	problems Problems
	notes    []Note
	misnamed []Server // what is wrong with them is known, and no other server can have their name
}

func (r *report) problem(p Problem) {
	switch n := len(r.problems); {
	case n < maxProblems:
		r.problems = append(r.problems, p)
	case n == maxProblems:
		r.problems = append(r.problems, Problem{Text: fmt.Sprintf("there are more than %d problems", maxProblems), Hint: "correct these first", rank: 1 << 30})
	}
}

// decoder reads the tree of one file over the configuration so far.
type decoder struct {
	*report
	src      *source
	trace    *trace
	lenient  bool // variables that are not set are notes: the server is disabled
	tolerant bool // Options.Tolerant
}

func (d *decoder) problem(at position, ptr, hint, format string, args ...any) {
	d.report.problem(Problem{d.src.name, at.line, at.column, ptr, fmt.Sprintf(format, args...), hint, d.src.rank})
}

func (d *decoder) note(at position, ptr, hint, format string, args ...any) {
	d.notes = append(d.notes, Note{File: d.src.name, Line: at.line, Column: at.column, Pointer: ptr, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// record says that the value at path is now that of n; a value of another file
// that it replaces is told of.
func (d *decoder) record(path string, n *node) {
	if old, ok := d.trace.places[path]; ok && old.src != nil && old.src != d.src {
		d.note(n.at, n.ptr, "", "replaces the value of %s:%d", old.src.name, old.at.line)
	}
	d.trace.places[path] = place{src: d.src, at: n.at, ptr: n.ptr}
}

// want reports whether n is of kind k, and complains where it is not.
func (d *decoder) want(n *node, k kind, hint string) bool {
	if n.kind == k {
		return true
	}
	if hint == "" {
		hint = usual[k]
	}
	d.problem(n.at, n.ptr, hint, "must be %s, and is %s", k, n.describe())
	return false
}

// usual is the advice for a value of the wrong kind where there is none better.
var usual = map[kind]string{
	text:   `put it in quotes, as in "…"`,
	list:   `write it as ["…", "…"]`,
	object: `write it as {"key": …}`,
}

// describe names n for a message; strings are not quoted, they may be secret.
func (n *node) describe() string {
	if n.kind == number || n.kind == boolean {
		return n.raw
	}
	return n.kind.String()
}

// decodeObject reads the members of n into t by the table. A member that is
// null counts as not given: YAML has it wherever a value was left out.
func decodeObject[T any](d *decoder, n *node, path string, t *T, table []field[T]) {
	if !d.want(n, object, "") {
		return
	}
	var unknown []member
	for _, m := range n.members {
		i := slices.IndexFunc(table, func(f field[T]) bool { return f.key == m.name })
		switch {
		case i < 0:
			unknown = append(unknown, m)
		case m.value.kind != null:
			table[i].decode(d, m.value, under(path, table[i].key), t)
		}
	}
	d.unknown(n, unknown, keysOf(table))
}

// unknown complains of each unknown member in our own file, and tells of them
// all at once in another host's.
func (d *decoder) unknown(n *node, unknown []member, known []string) {
	if len(unknown) == 0 {
		return
	}
	if !d.src.strict {
		names := make([]string, 0, len(unknown))
		for _, m := range unknown {
			names = append(names, m.name)
		}
		d.note(unknown[0].at, n.ptr, "", "not read: %s", some(names, 12))
		return
	}
	for _, m := range unknown {
		d.problem(m.at, under(n.ptr, m.name), didYouMean(m.name, known), "unknown key %q", m.name)
	}
}

// keysOf lists the keys of a table, other hosts' spellings left out.
func keysOf[T any](table []field[T]) []string {
	var keys []string
	for _, f := range table {
		if !f.foreign {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// some joins at most n of names.
func some(names []string, n int) string {
	if len(names) > n {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
	}
	return strings.Join(names, ", ")
}
