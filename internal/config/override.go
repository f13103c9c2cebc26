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
	Cache       Cache
}

// Cache says for how long results of a tool are reused.
type Cache struct {
	TTL time.Duration // 0: never
}

// longestCache bounds how old a reused result can be.
const longestCache = 24 * time.Hour

// cacheField is how long results are reused.
func cacheField() field[Override] {
	const doc = "Reuse the tool's results: `{ttl: 5m}`. Only for tools that say `readOnlyHint: true` and `idempotentHint: true`, where the server's annotations count; others are always called, with a warning. A result is reused only for the same principal and the same arguments; `_meta` `stoa/fresh` of a call asks for a new one."
	ttl := durationField("ttl", "How long a result is reused, up to 24h.", func(c *Cache) *time.Duration { return &c.TTL })
	schemaOf := ttl.schema
	ttl.schema = func(def *Cache) *schema {
		s := schemaOf(def)
		s.Default = nil
		return s
	}
	f := objectField("cache", doc, func(o *Override) *Cache { return &o.Cache }, []field[Cache]{ttl})
	decode, show := f.decode, f.show
	f.decode = func(d *decoder, n *node, at string, o *Override) {
		before := len(d.problems)
		decode(d, n, at, o)
		if len(d.problems) > before {
			return
		}
		if text, hint := checkCache(o.Cache.TTL); text != "" {
			d.problem(n.at, under(n.ptr, "ttl"), hint, "%s", text)
		}
	}
	f.show = func(s *shower, at string, o *Override) {
		if o.Cache.TTL > 0 {
			show(s, at, o)
		}
	}
	return f
}

func checkCache(ttl time.Duration) (text, hint string) {
	switch {
	case ttl <= 0:
		return "the cache has no ttl, or one of 0", `write how long a result is reused, as in "5m", or leave "cache" out`
	case ttl > longestCache:
		return fmt.Sprintf("the cache's ttl %s is longer than 24h", plainDuration(ttl)), "write a shorter one"
	}
	return "", ""
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
		cacheField(),
	}
}

// overridesField is a map of overrides by the server's own names of tools.
func overridesField() field[Tools] {
	const doc = "Changes to how single tools are offered, by the server's own names for them: `name` (on `/mcp` the tool is then `server__name`) and `description` on merged faces, `hidden: true` everywhere, `timeoutMs` and `priority` for its calls, `cache` for its results, and `task`, `references`, `saveAs` and `cards` in place of the server's."
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
		if text, hint := checkCache(o.Cache.TTL); text != "" && o.Cache.TTL != 0 {
			problem(under("/tools/override", name), text, hint)
		}
	}
}
