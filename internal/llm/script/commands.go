package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
)

// callVerbs begin a call.
var callVerbs = []string{"call", "use", "run"}

// obey does what a command asks for. What is none is answered with what can be
// said instead.
func obey(text string, tools []llm.Tool) string {
	first, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	verb := strings.ToLower(first)
	switch {
	case slices.Contains(callVerbs, verb):
		return call(text, tools)
	case verb == "echo":
		return rest
	case verb == "help" || text == "?":
		return help(tools)
	case verb == "describe" && rest != "":
		return describe(rest, tools)
	case verb == "find" && rest != "":
		return list(matching(rest, tools), fmt.Sprintf("with %q ", rest))
	}
	switch strings.Trim(strings.ToLower(text), ".?! ") {
	case "tools", "list", "list tools", "list the tools", "show tools", "which tools do you have", "what tools do you have", "what can you do":
		return list(tools, "")
	}
	if named(first, tools) { // the name of a tool alone will do
		return call("call "+text, tools)
	}
	return "You said: | " + strings.ReplaceAll(text, "\n", "\n| ") + "\n\n" + help(tools)
}

func named(name string, tools []llm.Tool) bool {
	name, _, _ = strings.Cut(name, "{")
	return slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == name })
}

func help(tools []llm.Tool) string {
	return fmt.Sprintf("I am the built-in model: I follow commands and need no network. Say \"list tools\" (there are %d), \"find WORD\", \"describe NAME\", "+
		"\"call NAME {\"argument\": …}\" or \"call NAME argument=value\" (several lines make several calls), or \"echo TEXT\". "+
		"With the key of a provider, a real model takes my place.", len(tools))
}

func matching(word string, tools []llm.Tool) []llm.Tool {
	word = strings.ToLower(word)
	var hits []llm.Tool
	for _, t := range tools {
		if strings.Contains(strings.ToLower(t.Name+" "+t.Description), word) {
			hits = append(hits, t)
		}
	}
	return hits
}

// list names tools; which says which of them they are.
func list(tools []llm.Tool, which string) string {
	if len(tools) == 0 {
		return strings.TrimSpace("I have no tools "+which) + "."
	}
	var b strings.Builder
	plural := "s"
	if len(tools) == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "I have %d tool%s %s", len(tools), plural, which)
	text := strings.TrimRight(b.String(), " ") + ":\n"
	for _, t := range tools {
		first, _, _ := strings.Cut(t.Description, "\n")
		text += "- " + t.Name
		if first != "" {
			text += ": " + first
		}
		text += "\n"
	}
	return text
}

// describe says what a tool does and what it takes.
func describe(name string, tools []llm.Tool) string {
	full, problem := find(name, tools)
	if problem != "" {
		return problem
	}
	i := slices.IndexFunc(tools, func(t llm.Tool) bool { return t.Name == full })
	if i < 0 {
		return fmt.Sprintf("I have no tool %s. Say \"list tools\" for those that I have.", full)
	}
	var b strings.Builder
	b.WriteString(full + "\n")
	if d := strings.TrimSpace(tools[i].Description); d != "" {
		b.WriteString("| " + strings.ReplaceAll(d, "\n", "\n| ") + "\n")
	}
	s := schemaOf(tools[i])
	if len(s.Properties) == 0 {
		b.WriteString("It takes no arguments that I know of.\n")
		return b.String()
	}
	b.WriteString("It takes:\n")
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		arg := s.Properties[p]
		fmt.Fprintf(&b, "- %s (%s", p, cmp.Or(arg.kind(), "anything"))
		if slices.Contains(s.Required, p) {
			b.WriteString(", needed")
		}
		b.WriteString(")")
		if arg.Description != "" {
			b.WriteString(": " + strings.Join(strings.Fields(arg.Description), " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// schema is what is looked at of the schema of a tool.
type schema struct {
	Properties map[string]argument `json:"properties"`
	Required   []string            `json:"required"`
}

type argument struct {
	Type        any    `json:"type"`
	Description string `json:"description"`
}

func (a argument) kind() string {
	kind, _ := a.Type.(string)
	return kind
}

func schemaOf(t llm.Tool) schema {
	var s schema
	_ = json.Unmarshal(t.Schema, &s) // what cannot be read is as good as none
	return s
}

// call turns each command of text into a block. Arguments may go on over
// several lines until the next command.
func call(text string, tools []llm.Tool) string {
	var b strings.Builder
	for _, command := range commands(text) {
		name, args, _ := strings.Cut(strings.TrimSpace(command), " ")
		if i := strings.IndexAny(name, "{\n"); i > 0 {
			name, args = name[:i], name[i:]+" "+args
		}
		full, problem := find(name, tools)
		if problem != "" {
			return problem
		}
		made := llm.NewCall("", full, arguments(args, full, tools))
		if made.Malformed != "" {
			return fmt.Sprintf("I cannot read the arguments of %s: they have to be one JSON object, or like path=todo.md lines=3.", full)
		}
		body, err := json.Marshal(map[string]any{"tool": full, "arguments": made.Args})
		if err != nil {
			return fmt.Sprintf("I cannot read the arguments of %s: %v", full, err)
		}
		fmt.Fprintf(&b, "```tool\n%s\n```\n", body)
	}
	return b.String()
}

func commands(text string) []string {
	var list []string
	for _, line := range strings.Split(text, "\n") {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(callVerbs, strings.ToLower(verb)) {
			list = append(list, rest)
		} else if len(list) > 0 {
			list[len(list)-1] += "\n" + line
		}
	}
	return list
}

// arguments makes JSON of name=value pairs, as the tool's schema has them. What
// is written otherwise stays as it is.
func arguments(args, tool string, tools []llm.Tool) string {
	args = strings.TrimSpace(args)
	if args == "" || args[0] == '{' {
		return args
	}
	var s schema
	if i := slices.IndexFunc(tools, func(t llm.Tool) bool { return t.Name == tool }); i >= 0 {
		s = schemaOf(tools[i])
	}
	made := map[string]any{}
	for rest := args; rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\n\"{") {
			return args
		}
		var value string
		if value, rest, ok = word(after); !ok {
			return args
		}
		made[name] = valueOf(value, s.Properties[name].kind())
	}
	b, err := json.Marshal(made)
	if err != nil {
		return args
	}
	return string(b)
}

// word cuts off the first word, which may be in quotes.
func word(s string) (first, rest string, ok bool) {
	if s, quoted := strings.CutPrefix(s, "\""); quoted {
		first, rest, ok = strings.Cut(s, "\"")
		return first, strings.TrimSpace(rest), ok
	}
	if i := strings.IndexAny(s, " \t\n"); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:]), true
	}
	return s, "", true
}

// valueOf reads a value of the kind that the schema says. Without one, what
// reads as a number or a truth value is that.
func valueOf(text, kind string) any {
	if kind == "string" {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	return v
}

// find takes the whole name of a tool, or its end if that names one only. A
// name that names none is called all the same: who runs the tools knows
// better which are near.
func find(name string, tools []llm.Tool) (full, problem string) {
	if name == "" {
		return "", "Which tool? Say \"call NAME {json}\"."
	}
	var hits []string
	for _, t := range tools {
		if t.Name == name {
			return name, ""
		}
		if strings.HasSuffix(t.Name, "__"+name) || strings.HasSuffix(t.Name, ":"+name) {
			hits = append(hits, t.Name)
		}
	}
	switch len(hits) {
	case 0:
		return name, ""
	case 1:
		return hits[0], ""
	}
	return "", fmt.Sprintf("There are several: %s. Which one?", strings.Join(hits, ", "))
}
