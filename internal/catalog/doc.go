// Package catalog owns what can be called and its names: tools, prompts,
// resources and templates of all upstreams, merged into one snapshot.
//
// A snapshot is immutable; readers take the current one and never wait. Names
// depend on the upstream and the tool alone, never on what else is there, so
// that a name a client has learned stays good. A definition that is broken in
// some way is kept as far as it goes, with a note, and never hides another.
// The package dials nothing and calls nothing.
package catalog
