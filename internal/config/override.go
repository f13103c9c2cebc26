package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Override changes how one tool is offered. Zero values change nothing.
type Override struct {
	Name        string        // on merged faces, in place of the server's own
	Description string        // on merged faces, in place of the server's own
	Hidden      bool          // on every face
	Timeout     time.Duration // of a call, in place of the server's
	Task        TaskMode      // in place of the server's
	Priority    string        // in the server's queue: high, normal or low; empty: normal
	References  *bool         // in place of the server's
	SaveAs      *bool         // in place of the server's
	Cards       Cards         // in place of the server's
}

func overrideFields() []field[Override] {
	limit := millisField("timeoutMs", "A call of it may take so many milliseconds; progress starts the count again.", func(o *Override) *time.Duration { return &o.Timeout })
	schemaOf, show := limit.schema, limit.show
	limit.schema = func(def *Override) *schema {
		s := schemaOf(def)
		s.Default = nil // the server's own
		return s
	}
	limit.show = func(s *shower, at string, o *Override) {
		if o.Timeout > 0 {
			show(s, at, o)
		}
	}
	durable := enumField("task", "`task` for this tool.", func(o *Override) *TaskMode { return &o.Task }, "off", "auto", "always", "required")
	showTask := durable.show
	durable.show = func(s *shower, at string, o *Override) {
		if o.Task != "" {
			showTask(s, at, o)
		}
	}
	priority := enumField("priority", "Whose turn comes sooner in the server's queue; `_meta` `stoa/priority` of a call wins.", func(o *Override) *string { return &o.Priority }, "high", "normal", "low")
	showPriority := priority.show
	priority.show = func(s *shower, at string, o *Override) {
		if o.Priority != "" {
			showPriority(s, at, o)
		}
	}
	return []field[Override]{
		textField("name", "Its name on merged faces, after the server's name.", asWritten, func(o *Override) *string { return &o.Name }, nil),
		textField("description", "What it says of itself on merged faces.", asWritten, func(o *Override) *string { return &o.Description }, nil),
		boolField("hidden", "True offers it nowhere.", func(o *Override) *bool { return &o.Hidden }),
		limit,
		durable,
		priority,
		toggleField("references", "`references` for this tool.", func(o *Override) **bool { return &o.References }),
		toggleField("saveAs", "`saveAs` for this tool.", func(o *Override) **bool { return &o.SaveAs }),
		cardsField(func(o *Override) *Cards { return &o.Cards }),
	}
}

// overridesField is a map of overrides by the server's own names of tools.
func overridesField() field[Tools] {
	const doc = "Changes to how single tools are offered, by the server's own names for them: `name` (on `/mcp` the tool is then `server__name`) and `description` on merged faces, `hidden: true` everywhere, `timeoutMs` and `priority` for its calls, and `task`, `references`, `saveAs` and `cards` in place of the server's."
	return field[Tools]{
		key: "override", doc: doc,
		schema: func(*Tools) *schema {
			return &schema{Type: "object", Values: objectSchema(&Override{}, overrideFields())}
		},
		decode: func(d *decoder, n *node, at string, t *Tools) {
			if !d.want(n, object, "") {
				return
			}
			d.record(at, n)
			t.Override = map[string]Override{}
			taken := map[string]string{}
			for _, m := range n.members {
				if m.value.kind == null {
					continue
				}
				var o Override
				decodeObject(d, m.value, under(at, m.name), &o, overrideFields())
				if other, twice := taken[o.Name]; twice && o.Name != "" {
					d.problem(m.value.at, under(m.value.ptr, "name"), "choose another", "the tool %q is called %q too", other, o.Name)
				}
				taken[o.Name] = m.name
				t.Override[m.name] = o
			}
		},
		show: func(s *shower, at string, t *Tools) {
			for _, name := range slices.Sorted(maps.Keys(t.Override)) {
				o := t.Override[name]
				showObject(s, under(at, name), &o, overrideFields())
			}
		},
	}
}

// checkOverrides looks at overrides made by hand.
func checkOverrides(all map[string]Override, problem func(key, text, hint string)) {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o := all[name]
		if other, twice := taken[o.Name]; twice && o.Name != "" {
			problem(under("/tools/override", name), fmt.Sprintf("the tool %q is called %q too", other, o.Name), "choose another")
		}
		if taken[o.Name] = name; o.Timeout < 0 {
			problem(under("/tools/override", name), "its time-out is negative", "leave it out, or write a positive one")
		}
	}
}
