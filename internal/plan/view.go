package plan

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stoahub/stoa/internal/session"
)

// View is a run as people and programs look at it.
type View struct {
	Summary
	Plan    *Plan                      `json:"plan,omitempty"`
	Options Options                    `json:"options"`
	Steps   []StepView                 `json:"steps"`
	Paused  *PauseView                 `json:"paused,omitempty"`
	Breaks  []Breakpoint               `json:"breakpoints,omitempty"`
	Failure *Failure                   `json:"failure,omitempty"`
	TookMS  int64                      `json:"tookMs"`
	Settled bool                       `json:"settled"` // it is over, or paused with nothing under way
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"`
	Context map[string]json.RawMessage `json:"context,omitempty"`
	Cut     *CutView                   `json:"cut,omitempty"` // what is too long to be among those, with Look.Mark
}

// CutView is what a view leaves out.
type CutView struct {
	Outputs map[string]Cut `json:"outputs,omitempty"`
	Context map[string]Cut `json:"context,omitempty"`
	Results map[string]Cut `json:"results,omitempty"` // by step
	Rest    string         `json:"rest"`              // how to get it
}

// Cut is the beginning of a value.
type Cut struct {
	Preview json.RawMessage `json:"preview"`
	Bytes   int             `json:"bytes"` // of the value
}

// PauseView is where and why a run is paused.
type PauseView struct {
	Step   string `json:"step,omitempty"`
	After  bool   `json:"after,omitempty"`
	Reason string `json:"reason"`
}

// StepView is a step of a run.
type StepView struct {
	ID       string          `json:"id"`
	Tool     string          `json:"tool"`
	State    string          `json:"state"`
	Attempts int             `json:"attempts,omitempty"`
	Items    int             `json:"items,omitempty"` // of forEach
	Done     int             `json:"done,omitempty"`  // of those
	TookMS   int64           `json:"tookMs,omitempty"`
	Error    *Failure        `json:"error,omitempty"`
	Retry    *time.Time      `json:"nextRetry,omitempty"`
	Reason   string          `json:"reason,omitempty"` // why it was skipped
	Approval string          `json:"approval,omitempty"`
	Undone   string          `json:"undone,omitempty"`
	Fallback bool            `json:"fallback,omitempty"` // its result is that of its fallback
	Pinned   bool            `json:"pinned,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"` // or as much of it as is shown
}

// Look says what a view shows.
type Look struct {
	Results bool
	Step    string // of results: this step's only
	Context bool
	Plan    bool
	Preview int // bytes of a result or value; 0: all
	// Mark is for answers that may be kept and referred to: what is longer than
	// Preview is not shown in place of the value, but under Cut. Rest says there
	// how to get all of it.
	Mark    bool
	Rest    string
	Outputs bool // show those of the plan whole, whatever Preview says
}

// put puts a value into its place in the view, or a part of it there or under
// cut.
func (l Look) put(v *View, to map[string]json.RawMessage, cut func(*CutView) *map[string]Cut, name string, raw json.RawMessage) {
	if !l.Mark || l.Preview <= 0 || len(raw) <= l.Preview {
		to[name] = shown(raw, l.Preview)
		return
	}
	if v.Cut == nil {
		v.Cut = &CutView{Rest: l.Rest}
	}
	m := cut(v.Cut)
	if *m == nil {
		*m = map[string]Cut{}
	}
	(*m)[name] = Cut{shown(raw, l.Preview), len(raw)}
}

// View looks at a run.
func (r *Run) View(ctx context.Context, look Look) (View, error) {
	v := View{Summary: r.Summary()}
	if look.Context {
		vars, err := r.Variables(ctx)
		if err != nil {
			return v, err
		}
		v.Context = map[string]json.RawMessage{}
		for name, raw := range vars {
			look.put(&v, v.Context, func(c *CutView) *map[string]Cut { return &c.Context }, name, raw)
		}
	}
	r.lock()
	defer r.unlock()
	s := r.state
	if look.Step != "" {
		if err := r.has(look.Step); err != nil {
			return v, err
		}
	}
	v.Options, v.Breaks, v.Failure, v.TookMS = s.Created.Options, s.Breaks, s.Failure, s.Spent(time.Now()).Milliseconds()
	v.Settled = s.Status.Over() || s.Status == Paused && len(r.busy) == 0
	if look.Plan {
		v.Plan = &s.Created.Plan
	}
	if s.Pause != nil {
		v.Paused = &PauseView{s.Pause.Step, s.Pause.After, s.Pause.Reason}
	}
	for _, id := range s.planned {
		sv := r.stepView(id)
		if look.Results && s.Steps[id].Phase == StepDone && (look.Step == "" || look.Step == id) {
			raw, err := r.result(ctx, id)
			if err != nil {
				return v, err
			}
			place := map[string]json.RawMessage{}
			look.put(&v, place, func(c *CutView) *map[string]Cut { return &c.Results }, id, raw)
			sv.Result = place[id]
		}
		v.Steps = append(v.Steps, sv)
	}
	if look.Step == "" && (s.Status == Finished || look.Results) {
		v.Outputs = map[string]json.RawMessage{}
		if look.Outputs {
			look.Preview = 0
		}
		for name, text := range s.Created.Plan.Outputs {
			ref, _ := session.ParseReference(text)
			if raw, err := r.values(ctx, nil)(ref); err == nil && raw != nil {
				look.put(&v, v.Outputs, func(c *CutView) *map[string]Cut { return &c.Outputs }, name, raw)
			}
		}
	}
	return v, nil
}

func shown(raw []byte, budget int) json.RawMessage {
	if budget <= 0 || len(raw) <= budget {
		return raw
	}
	p := session.Preview(raw, budget)
	if json.Valid(p) {
		return p
	}
	text, err := json.Marshal(string(p))
	if err != nil {
		return nil
	}
	return text
}

// stepView looks at a step. The run is locked.
func (r *Run) stepView(id string) StepView {
	s := r.state
	step, st := s.Created.Plan.Step(id), s.Steps[id]
	v := StepView{ID: id, Tool: step.Called(), State: string(st.Phase), Reason: st.Reason, Pinned: st.Pinned != nil}
	if st.each && st.List != nil {
		v.Items = len(st.Items)
	}
	for i := range st.Items {
		it := &st.Items[i]
		v.Attempts += it.Attempt
		v.TookMS += it.Took.Milliseconds()
		switch it.Phase {
		case ItemDone:
			if st.each {
				v.Done++
			}
			v.Fallback = v.Fallback || it.Kind == FallbackCall
		case ItemRetry:
			retry := it.Retry // the run goes on while this is looked at
			v.Retry = &retry
		case ItemAsked, ItemUnknown:
			if st.Phase == StepOpen {
				v.State = string(it.Phase)
			}
			if it.Ask != "" {
				v.Approval = it.Ask
			}
		}
		if it.Failure != nil {
			v.Error = it.Failure
		}
		if it.Undo != "" {
			v.Undone = string(it.Undo)
		}
	}
	if v.State == string(StepOpen) && s.Status == Paused && !r.working(id) {
		v.State, v.Reason = string(StepPending), "nothing of it is under way: it is called when the run goes on"
		if v.Attempts > 0 {
			v.Reason = "nothing of it is under way: it is called again when the run goes on"
		}
	}
	return v
}

// working says whether a call of a step, or a question about it, is under way in
// this process: one that was cut off is not. The run is locked.
func (r *Run) working(id string) bool {
	for at := range r.busy {
		if at.step == id {
			return true
		}
	}
	return false
}
