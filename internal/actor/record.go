package actor

import (
	"errors"
	"fmt"

	"github.com/stoahub/stoa/internal/auth"
)

// Record is an Actor at rest.
type Record struct {
	Path      Path             `json:"path,omitempty"`
	Principal string           `json:"principal"`
	Via       auth.Via         `json:"via,omitempty"`
	Chain     []DelegateRecord `json:"chain,omitempty"`
}

// DelegateRecord is a Delegate at rest.
type DelegateRecord struct {
	Kind Kind    `json:"kind"`
	Name string  `json:"name,omitempty"`
	Call string  `json:"call,omitempty"`
	For  *Record `json:"for,omitempty"`
}

// Record returns what has to be kept of a.
func (a Actor) Record() *Record {
	r := &Record{Path: a.path, Principal: a.Name()}
	if a.who != nil {
		r.Via = a.who.Via
	}
	for _, d := range a.chain {
		one := DelegateRecord{Kind: d.Kind, Name: d.Name, Call: d.Call}
		if d.For != nil {
			one.For = d.For.Record()
		}
		r.Chain = append(r.Chain, one)
	}
	return r
}

// OwnRecord is that of a principal who does something without anybody between.
func OwnRecord(principal string) *Record { return &Record{Principal: principal} }

// Own reports whether it is a principal that decides itself what is done: no
// model, agent or server, and nobody else's plan, acts for it.
func (r *Record) Own(principal string) bool {
	for i := range r.Chain {
		switch d := &r.Chain[i]; {
		case d.For != nil:
			return false
		case d.Kind != Plan && d.Kind != Batch && d.Kind != Task:
			return false
		}
	}
	return r.Principal == principal
}

// IsModel reports whether a model acts in it, however indirectly.
func (r *Record) IsModel() bool {
	for i := range r.Chain {
		if d := &r.Chain[i]; d.Kind == Model || d.For != nil && d.For.IsModel() {
			return true
		}
	}
	return false
}

// Chain bounds, so that nothing grows without end.
const (
	MaxDepth  = 64 // delegates of one actor
	maxNested = 16 // actors behind actors
)

// ErrGone means that somebody an actor rests on may not come in any more.
var ErrGone = errors.New("the token is not valid any more")

// Restore makes of a record the actor that it was. Its error is ErrGone if
// somebody it rests on may not come in any more, and ErrUnsure if that cannot be
// found out now. owner is whose the record is: one without an actor in it, as
// older versions wrote them, counts as a model's.
func Restore(r *Record, owner string, lookup Lookup) (Actor, error) {
	if r == nil {
		who, err := find(lookup, owner, "")
		if err != nil {
			return Actor{}, err
		}
		return Unknown(who), nil
	}
	return r.restore(lookup, maxNested)
}

func (r *Record) restore(lookup Lookup, nested int) (Actor, error) {
	if nested == 0 || len(r.Chain) > MaxDepth {
		return Actor{}, errors.New("the chain of delegates is too long")
	}
	who, err := find(lookup, r.Principal, r.Via)
	if err != nil {
		return Actor{}, err
	}
	a := New(r.Path, who)
	for _, one := range r.Chain {
		d := Delegate{Kind: one.Kind, Name: one.Name, Call: one.Call}
		if one.For != nil {
			behind, err := one.For.restore(lookup, nested-1)
			if err != nil {
				return Actor{}, err
			}
			d.For = &behind
		}
		a.chain = append(a.chain, d)
	}
	return a, nil
}

// find returns who has a name now and came in that way.
func find(lookup Lookup, name string, via auth.Via) (*auth.Principal, error) {
	switch who, err := lookup(name, via); {
	case err != nil:
		return nil, unsure(name, err)
	case who == nil:
		return nil, fmt.Errorf("%q: %w", name, ErrGone)
	default:
		return who, nil
	}
}
