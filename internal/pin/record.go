package pin

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
)

// Mode says what becomes of definitions that are not accepted.
type Mode string

const (
	Announce   Mode = "announce"   // they are marked, and their annotations do not count
	Quarantine Mode = "quarantine" // they cannot be called
)

// pinned is one definition that is known by its digest.
type pinned struct {
	Digest string          `json:"digest"`
	State  state           `json:"state"`
	At     time.Time       `json:"at"`
	By     string          `json:"by,omitempty"`   // who said so; "" if it was there first
	For    []string        `json:"for,omitempty"`  // the viewers that a variant was first given to
	Text   json.RawMessage `json:"text,omitempty"` // the definition, unless it is too long to keep
}

type state string

const (
	accepted state = "accepted"
	rejected state = "rejected"
	variant  state = "variant" // it was there first for some viewers
)

// record is all that is known of the definitions of one name. It is not changed
// once it is in use.
type record struct {
	Pins   []pinned `json:"pins"`
	Refuse bool     `json:"refuse,omitempty"` // nothing but what is accepted may be called
}

// maxPins bounds what is kept of one name. Beyond it, nothing is kept of its
// own accord.
const maxPins = 64

func (r *record) find(digest string) *pinned {
	if r == nil {
		return nil
	}
	for i := range r.Pins {
		if r.Pins[i].Digest == digest {
			return &r.Pins[i]
		}
	}
	return nil
}

// viewing is for whom a definition is judged.
type viewing struct {
	viewer string // "" is everybody
	known  bool   // the viewer has been given the whole list before
	strict bool   // a viewer's first list does not count
}

// judge says what a definition is. first is true if it is the first of its name
// for the viewer, and so is to be pinned.
func (r *record) judge(digest string, v viewing) (is catalog.State, first bool) {
	p := r.find(digest)
	switch {
	case p != nil && p.State == accepted:
		return catalog.Accepted, false
	case r != nil && (r.Refuse || p != nil && p.State == rejected):
		return catalog.Rejected, false
	case p != nil && v.viewer != "" && slices.Contains(p.For, v.viewer):
		return catalog.Accepted, false
	}
	base, own := false, false
	if r != nil {
		for i := range r.Pins {
			base = base || r.Pins[i].State == accepted
			own = own || v.viewer != "" && slices.Contains(r.Pins[i].For, v.viewer)
		}
	}
	switch {
	case v.viewer != "" && !v.strict && !own && !(v.known && base) && (r == nil || len(r.Pins) < maxPins):
		return catalog.Accepted, true
	case base || own:
		return catalog.Changed, false
	}
	return catalog.Added, false
}

// before is the definition that was accepted last, other than the one of
// digest.
func (r *record) before(digest string) []byte {
	var last *pinned
	if r != nil {
		for i := range r.Pins {
			p := &r.Pins[i]
			if p.Digest != digest && p.State != rejected && (last == nil || last.State == variant && p.State == accepted || last.State == p.State && p.At.After(last.At)) {
				last = p
			}
		}
	}
	if last == nil {
		return nil
	}
	return last.Text
}

// lastFor is the definition that was pinned last for a viewer, or nil.
func (r *record) lastFor(viewer string) *pinned {
	if r == nil || viewer == "" {
		return nil
	}
	for i := len(r.Pins) - 1; i >= 0; i-- {
		if slices.Contains(r.Pins[i].For, viewer) {
			return &r.Pins[i]
		}
	}
	return nil
}

// with is the record with p in place of what was known by its digest.
func (r *record) with(p pinned) *record {
	next := &record{}
	if r != nil {
		next.Refuse = r.Refuse
		next.Pins = slices.DeleteFunc(slices.Clone(r.Pins), func(o pinned) bool { return o.Digest == p.Digest })
	}
	next.Pins = append(next.Pins, p)
	for len(next.Pins) > maxPins { // the oldest that is not accepted, else the oldest
		i := max(slices.IndexFunc(next.Pins, func(o pinned) bool { return o.State != accepted }), 0)
		next.Pins = slices.Delete(next.Pins, i, i+1)
	}
	return next
}

// firstFor is the record with a definition that a viewer was given first.
func (r *record) firstFor(viewer, digest string, text []byte, now time.Time) *record {
	p := pinned{Digest: digest, State: variant, At: now, Text: text}
	if old := r.find(digest); old != nil {
		p = *old
	}
	p.For = append(slices.Clip(p.For), viewer)
	return r.with(p)
}

// decided is the record after somebody has accepted or rejected a definition.
func (r *record) decided(digest string, text []byte, accept bool, by string, now time.Time) *record {
	p := pinned{Digest: digest, State: rejected, At: now, By: by, Text: text}
	if accept {
		p.State = accepted
	}
	next := r.with(p)
	next.Refuse = !accept
	return next
}
