package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// askedElicitation is what a server asks the person while its tool runs.
type askedElicitation struct {
	ID       string          `json:"id"`
	Tool     string          `json:"tool"`
	Upstream string          `json:"upstream"`
	Message  string          `json:"message"`
	URL      string          `json:"url"`
	Schema   json.RawMessage `json:"requestedSchema"`
}

// replyPayload is the answer to it.
type replyPayload struct {
	ID      string         `json:"id"`
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// form is a question of a server that the person is answering.
type form struct {
	*askedElicitation
	fields  []field
	content map[string]any
}

// field is one value that is asked for.
type field struct {
	name, title, about, kind string
	choices                  []string
	required                 bool
	standard                 json.RawMessage // what is taken if nothing is said
}

// canElicit is what a client says that puts such questions to somebody.
const canElicit = "elicitation"

// elicited keeps a question for the person. Where there is none, another client
// of the conversation may have one.
func (t *talk) elicited(e *askedElicitation) {
	if t.human && !slices.ContainsFunc(t.questions, func(o *askedElicitation) bool { return o.ID == e.ID }) {
		t.questions = append(t.questions, e)
	}
}

// replied takes a question back that has been answered, here or elsewhere.
func (t *talk) replied(id string) {
	t.questions = slices.DeleteFunc(t.questions, func(o *askedElicitation) bool { return o.ID == id })
}

// reply answers a question, and asks no more about it.
func (t *talk) reply(id, action string, content map[string]any) {
	t.send(makeFrame("reply", replyPayload{ID: id, Action: action, Content: content}))
	t.replied(id)
}

// newForm reads what a question asks for.
func newForm(e *askedElicitation) *form {
	f := &form{askedElicitation: e, content: map[string]any{}}
	required, _ := wire.Elements(wire.Get(e.Schema, "required"))
	for _, p := range wire.Members(wire.Get(e.Schema, "properties")) {
		one := field{name: string(p.Name), standard: wire.Get(p.Value, "default")}
		one.kind, _ = wire.String(wire.Get(p.Value, "type"))
		one.title, _ = wire.String(wire.Get(p.Value, "title"))
		one.about, _ = wire.String(wire.Get(p.Value, "description"))
		one.choices = choicesOf(p.Value)
		if one.choices == nil {
			one.choices = choicesOf(wire.Get(p.Value, "items"))
		}
		one.required = slices.ContainsFunc(required, func(raw []byte) bool {
			name, _ := wire.String(raw)
			return name == one.name
		})
		f.fields = append(f.fields, one)
	}
	return f
}

// choicesOf are the values that a schema allows; nil means any.
func choicesOf(schema []byte) (out []string) {
	list, _ := wire.Elements(wire.Get(schema, "enum"))
	for _, raw := range list {
		if s, ok := wire.String(raw); ok {
			out = append(out, s)
		}
	}
	for _, name := range []string{"oneOf", "anyOf"} {
		titled, _ := wire.Elements(wire.Get(schema, name))
		for _, one := range titled {
			if s, ok := wire.String(wire.Get(one, "const")); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// parse reads what the person has typed for a field. ok is false if the field is
// left out.
func (f *field) parse(line string) (value any, ok bool, err error) {
	line = strings.TrimSpace(line)
	switch {
	case line == "" && f.standard != nil:
		return f.standard, true, nil
	case line == "" && f.required:
		return nil, false, fmt.Errorf("%s is needed", f.name)
	case line == "":
		return nil, false, nil
	}
	switch f.kind {
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return true, true, nil
		case "n", "no", "false":
			return false, true, nil
		}
		return nil, false, fmt.Errorf("%s is yes or no", f.name)
	case "number", "integer":
		n := json.Number(line)
		if _, err := n.Float64(); err != nil {
			return nil, false, fmt.Errorf("%s is a number", f.name)
		}
		if _, err := n.Int64(); err != nil && f.kind == "integer" {
			return nil, false, fmt.Errorf("%s is a whole number", f.name)
		}
		return n, true, nil
	case "array":
		parts := strings.Split(line, ",")
		for i := range parts {
			if parts[i] = strings.TrimSpace(parts[i]); f.choices != nil && !slices.Contains(f.choices, parts[i]) {
				return nil, false, fmt.Errorf("%s may be %s", f.name, strings.Join(f.choices, ", "))
			}
		}
		return parts, true, nil
	}
	if f.choices != nil && !slices.Contains(f.choices, line) {
		return nil, false, fmt.Errorf("%s may be %s", f.name, strings.Join(f.choices, ", "))
	}
	return line, true, nil
}

// hint describes a field to the person who fills it in.
func (f *field) hint() string {
	var about []string
	for _, s := range []string{f.title, f.about} {
		if s != "" {
			about = append(about, s)
		}
	}
	switch {
	case f.choices != nil:
		about = append(about, "one of "+strings.Join(f.choices, ", "))
	case f.kind == "boolean":
		about = append(about, "yes or no")
	case f.kind == "number" || f.kind == "integer":
		about = append(about, "a number")
	case f.kind == "array":
		about = append(about, "several, with commas between them")
	}
	switch {
	case f.standard != nil:
		about = append(about, "Enter takes "+string(f.standard))
	case !f.required:
		about = append(about, "Enter leaves it out")
	}
	return strings.Join(about, "; ")
}

// inquire shows what a server asks, and opens the line for the first answer.
func (d *desk) inquire(e *askedElicitation) {
	f := newForm(e)
	d.view.interrupt()
	d.view.status.line(d.view.status.paint(amber, "?") + " " + d.view.status.paint(bold, exactLine(e.Upstream)) + " asks while " + exactLine(e.Tool) + " runs: " + exactLine(e.Message))
	if e.URL != "" {
		d.view.status.line("  " + exactLine(e.URL))
	}
	d.view.hint("  /decline says no, Ctrl-D answers nothing; what you say goes to the server")
	d.fill(f)
}

// fill opens the line for the next answer of a form.
func (d *desk) fill(f *form) {
	lead := "done? [y/n] > "
	if len(f.fields) > 0 {
		if about := f.fields[0].hint(); about != "" {
			d.view.hint("  " + exactLine(about))
		}
		lead = exactLine(f.fields[0].name) + " > "
	} else if f.URL != "" {
		lead = "go there, then press Enter > "
	}
	d.ask(&question{kind: forField, form: f}, lead, "")
}

// field takes an answer.
func (d *desk) field(f *form, line string) {
	no := strings.ToLower(strings.TrimSpace(line))
	switch {
	case !d.inquires(f):
		d.view.hint("it has been answered elsewhere, or it is too late")
		return
	case no == "/decline", len(f.fields) == 0 && (no == "n" || no == "no"):
		d.reply(f.ID, "decline", nil)
		return
	case len(f.fields) == 0:
		d.reply(f.ID, "accept", nil)
		return
	}
	value, said, err := f.fields[0].parse(line)
	if err != nil {
		d.view.tell("✗", red, err.Error())
		d.fill(f)
		return
	}
	if said {
		f.content[f.fields[0].name] = value
	}
	if f.fields = f.fields[1:]; len(f.fields) > 0 {
		d.fill(f)
		return
	}
	d.reply(f.ID, "accept", f.content)
}

// inquires reports whether a question still waits.
func (d *desk) inquires(f *form) bool {
	return slices.ContainsFunc(d.questions, func(o *askedElicitation) bool { return o.ID == f.ID })
}
