// Package published owns the plans that are offered as tools: where they are
// kept, and who may change which.
//
// All hubs on one store share them. A change is decided on the latest that was
// written, by whichever hub, and is durable before it is known here; another
// hub knows it a moment later. Whether a plan can be offered at all is decided
// by Options.Check, and a kept plan that cannot is as if it were not there. It
// offers nothing itself.
package published

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/store"
)

// Prefix begins the names of plans that are offered as tools.
const Prefix = "plan__"

// Plan is a plan that is offered as a tool, to who published it and, if it is
// shared, to others.
type Plan struct {
	Name   string    `json:"name"`
	Owner  string    `json:"owner"` // the principal that published it
	Shared bool      `json:"shared,omitempty"`
	Plan   plan.Plan `json:"plan"`
	// By is who published it; nil in what older versions wrote.
	By *actor.Record `json:"by,omitempty"`
}

// Tool is the name of the tool. Those of the person at this machine are as they
// were called; others have something of the publisher's name in them, so that
// what one publishes never depends on what others have.
func (p *Plan) Tool() string {
	if p.Owner == auth.LocalName {
		return Prefix + p.Name
	}
	sum := sha256.Sum256([]byte(p.Owner))
	return Prefix + p.Name + "-" + hex.EncodeToString(sum[:3])
}

// Revision stands for what the plan does: another plan of the same name has
// another. Whoever decides about a plan names the one that they looked at.
func (p *Plan) Revision() string {
	data, err := json.Marshal(p.Plan)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]) // whoever publishes two that agree has made 2^64 of them
}

// Options are what Plans work with.
type Options struct {
	Logger  *slog.Logger     // nil discards
	Check   func(Plan) error // says why a plan cannot be offered as a tool; nil means each can
	Changed func()           // is called when there is another list; must not block. Optional.
}

// Plans are the published plans.
type Plans struct {
	o      Options
	values *journal.Values[Plan]
}

// Open opens the plans that st keeps; nil means in memory.
func Open(ctx context.Context, st *store.Store, o Options) (*Plans, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Plans{o: o}
	var err error
	p.values, err = store.Values(ctx, st, store.BucketOptions{Name: "plans"}, journal.ValuesOptions[Plan]{
		Options: journal.Options{Logger: o.Logger},
		Decode: func(data []byte) (Plan, error) {
			one, err := p.decode(data)
			if err != nil {
				o.Logger.Error("a published plan cannot be used", "plan", one.Name, "err", err)
			}
			return one, err
		},
		Changed: func(string, *Plan) {
			if o.Changed != nil {
				o.Changed()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the published plans: %w", err)
	}
	return p, nil
}

// Close ends what goes on behind those who publish.
func (p *Plans) Close() { p.values.Close() }

func (p *Plans) decode(data []byte) (one Plan, err error) {
	err = json.Unmarshal(data, &one)
	if err == nil && p.o.Check != nil {
		err = p.o.Check(one)
	}
	return one, err
}

// List are the plans, by the names of their tools. Two lists with the same
// revision are the same.
func (p *Plans) List() (list []Plan, revision string) {
	all := map[string]journal.Value[Plan]{}
	for _, v := range p.values.All() {
		// A tool is kept once; should it be there twice, the later counts.
		if tool := v.V.Tool(); v.Rev > all[tool].Rev {
			all[tool] = v
		}
	}
	var rev strings.Builder
	for _, tool := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[tool].V)
		fmt.Fprintf(&rev, "%s@%d ", tool, all[tool].Rev)
	}
	return list, rev.String()
}

// Get returns the plan that is offered as a tool.
func (p *Plans) Get(tool string) (Plan, bool) {
	got, err := p.values.Get(p.key(tool))
	if err != nil || got.V.Tool() != tool {
		return Plan{}, false
	}
	return got.V, true
}

// CatchUp makes sure that all is known that others published and took back
// before it was called.
func (p *Plans) CatchUp(ctx context.Context) error { return p.values.CatchUp(ctx) }

// Current is CatchUp with what was said until a moment: the store is asked only if
// what is known is older.
func (p *Plans) Current(ctx context.Context, since time.Time) error {
	return p.values.Current(ctx, since)
}

// key is where the plan of a tool is kept. Older versions kept it by its name
// alone, whoever had published it.
func (p *Plans) key(tool string) string {
	key := strings.TrimPrefix(tool, Prefix)
	got, err := p.values.Get(key)
	if err == nil && got.V.Tool() == tool {
		return key
	}
	for at, v := range p.values.All() {
		if v.V.Tool() == tool {
			return at
		}
	}
	if err == nil { // another's, from such a version
		return key + ".own"
	}
	return key
}

// tries is how often it is decided anew where others change the same plan.
const tries = 16

// Change makes of the plan of a tool what decide says; nil is none. decide is
// given the latest, nil if there is none, and asked again if somebody else was
// quicker. What it says is durable when Change returns.
func (p *Plans) Change(ctx context.Context, tool string, decide func(old *Plan) (*Plan, error)) error {
	if err := p.CatchUp(ctx); err != nil {
		return err
	}
	for range tries {
		err := p.change(ctx, tool, decide)
		if _, conflict := errors.AsType[*journal.Conflict](err); !conflict {
			return err
		}
	}
	return fault.New(fault.Storage, tool, "others changed it each of the %d times that this was tried", tries)
}

func (p *Plans) change(ctx context.Context, tool string, decide func(old *Plan) (*Plan, error)) error {
	key := p.key(tool)
	data, rev, err := p.values.Read(ctx, key)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	var old *Plan
	if err == nil {
		if was, err := p.decode(data); err == nil {
			old = &was
		}
	}
	next, err := decide(old)
	if err != nil {
		return err
	}
	if next == nil {
		if rev == 0 {
			return nil
		}
		return p.values.RemoveAfter(ctx, key, rev)
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false) // it is shown as it was written
	if err := w.Encode(next); err != nil {
		return fault.New(fault.Internal, tool, "the plan cannot be written").Because(err)
	}
	_, err = p.values.PutAfter(ctx, key, b.Bytes(), rev)
	return err
}
