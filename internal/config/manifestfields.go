package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// manifestFields are the keys of a manifest, in the manual's order.
func manifestFields() []field[Manifest] {
	return []field[Manifest]{
		manifestVersion(),
		{
			key: "$schema", foreign: true, doc: "The address of this schema, for editors.",
			schema: func(*Manifest) *schema { return &schema{Type: "string"} },
			decode: func(d *decoder, n *node, _ string, _ *Manifest) { d.want(n, text, "") },
		},
		textField("name", "How the agent calls itself; left out, the name of the file, or of its folder where the file is `agent.yaml`.", asWritten, func(m *Manifest) *string { return &m.Name }, checkAgentName),
		textField("title", "Its name for people.", asWritten, func(m *Manifest) *string { return &m.Title }, nil),
		textField("instructions", "What a client is told of the agent as a whole.", asWritten, func(m *Manifest) *string { return &m.Instructions }, nil),
		objectField("queue", "Bounds the commands that run at once. A change takes effect when the agent is started again.", func(m *Manifest) *Queue { return &m.Queue }, manifestQueueFields()),
		namedField("tools", "The tools, by name.", checkEntryName, func(name string) ManifestTool { return ManifestTool{Name: name, Form: "text", Exec: defaultExec()} },
			func(m *Manifest) *[]ManifestTool { return &m.Tools }, toolFields()),
		namedField("resources", "What can be read, by name.", anyName, func(name string) ManifestResource { return ManifestResource{Name: name, Exec: defaultExec()} },
			func(m *Manifest) *[]ManifestResource { return &m.Resources }, resourceFields()),
		namedField("prompts", "The prompts, by name.", checkEntryName, func(name string) ManifestPrompt { return ManifestPrompt{Name: name} },
			func(m *Manifest) *[]ManifestPrompt { return &m.Prompts }, promptFields()),
	}
}

// defaultQueue is that of an agent: one command at a time.
var defaultQueue = Queue{Concurrency: 1, Capacity: 100, Timeout: 30 * time.Second}

func defaultExec() Exec {
	return Exec{Timeout: 30 * time.Second, MaxTimeout: 10 * time.Minute, OutputBytes: 1 << 20}
}

func manifestVersion() field[Manifest] {
	one := int64(1)
	return field[Manifest]{
		key: "agent", doc: "The version of this format, always 1.",
		schema: func(*Manifest) *schema { return &schema{Type: "integer", Minimum: &one, Maximum: &one} },
		decode: func(d *decoder, n *node, _ string, _ *Manifest) {
			if n.kind != number || n.text != "1" {
				d.problem(n.at, n.ptr, "write 1", "this version of Stoa reads format 1 only")
			}
		},
	}
}

func manifestQueueFields() []field[Queue] {
	return []field[Queue]{
		intField("concurrency", "Commands that run at once. `--concurrency` wins; left out, `AGENT_CONCURRENCY` decides.", 1, 10_000, func(q *Queue) *int { return &q.Concurrency }),
		intField("capacity", "Calls that may wait; one more is refused.", 0, 1_000_000, func(q *Queue) *int { return &q.Capacity }),
		millisField("timeoutMs", "A call may wait so many milliseconds.", func(q *Queue) *time.Duration { return &q.Timeout }),
	}
}

func toolFields() []field[ManifestTool] {
	table := []field[ManifestTool]{
		textField("title", "Its name for people.", asWritten, func(t *ManifestTool) *string { return &t.Title }, nil),
		textField("description", "What it does, for the model that chooses it.", asWritten, func(t *ManifestTool) *string { return &t.Description }, nil),
		rawField("inputSchema", "The JSON Schema of the arguments, that of an object; left out, there are none. Every call is checked against it.", func(t *ManifestTool) *json.RawMessage { return &t.Input }, object),
	}
	table = append(table, execFields(func(t *ManifestTool) *Exec { return &t.Exec })...)
	return append(table,
		enumField("output", "What stdout is: text, or one JSON value, which becomes the structured content of the result.", func(t *ManifestTool) *string { return &t.Form }, "text", "json"),
		rawField("outputSchema", "The JSON Schema of the output, where that is json. An output that does not fit is an error of the tool.", func(t *ManifestTool) *json.RawMessage { return &t.Output }, object),
		exitCodesField(),
		objectField("annotations", "What a client may want to know before it calls.", func(t *ManifestTool) *ManifestHints { return &t.Hints }, []field[ManifestHints]{
			hintField("readOnly", "It changes nothing.", func(h *ManifestHints) **bool { return &h.ReadOnly }),
			hintField("destructive", "It can lose something.", func(h *ManifestHints) **bool { return &h.Destructive }),
			hintField("idempotent", "Calling it again changes nothing more.", func(h *ManifestHints) **bool { return &h.Idempotent }),
			hintField("openWorld", "It reaches beyond this machine.", func(h *ManifestHints) **bool { return &h.OpenWorld }),
		}),
	)
}

// exitCodesField is a list of exit codes.
func exitCodesField() field[ManifestTool] {
	lo, hi := int64(1), int64(255)
	return field[ManifestTool]{
		key: "exitCodes", doc: "Exit codes that are no failure besides 0, for programs such as grep, which ends with 1 where it finds nothing.",
		schema: func(*ManifestTool) *schema {
			return &schema{Type: "array", Items: &schema{Type: "integer", Minimum: &lo, Maximum: &hi}}
		},
		decode: func(d *decoder, n *node, path string, t *ManifestTool) {
			if !d.want(n, list, "write it as [1]") {
				return
			}
			d.record(path, n)
			for _, item := range n.items {
				if v, ok := d.whole(item, lo, hi); ok {
					t.ExitCodes = append(t.ExitCodes, int(v))
				}
			}
		},
	}
}

func hintField(key, doc string, p func(*ManifestHints) **bool) field[ManifestHints] {
	f := boolField(key, doc, func(*ManifestHints) *bool { return new(bool) })
	f.schema = func(*ManifestHints) *schema { return &schema{Type: "boolean"} }
	f.decode = func(d *decoder, n *node, path string, h *ManifestHints) {
		if d.want(n, boolean, "write true or false, without quotes") {
			d.record(path, n)
			v := n.text == "true"
			*p(h) = &v
		}
	}
	return f
}

// execFields are the keys of whatever runs a command.
func execFields[T any](p func(*T) *Exec) []field[T] {
	names := textsField("inheritEnv", "What the command gets of the agent's environment besides PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, TMPDIR, ROUTER_HOST and ROUTER_PORT: the names of variables.", asWritten, false, func(t *T) *[]string { return &p(t).InheritEnv.Names }, checkVariable)
	return []field[T]{
		commandField("command", "The program and its arguments, one element each; no shell reads them. `{{name}}` in an element after the first is replaced by the argument of that name; an element whose argument is missing is left out. `{{?name}}` stands for nothing, but leaves the element out where the argument is missing or false. A list in the list is left out as a whole. `${VAR}` is filled in.",
			func(t *T) *[][]string { return &p(t).Command }),
		textField("stdin", "What the command reads: `json` is the arguments as one JSON object, `none` is nothing, a text with `{{name}}` is that text. Left out, `none` where `command` or `env` use arguments, else `json`.",
			asWritten, func(t *T) *string { return &p(t).Stdin }, nil),
		envField("env", "Variables for the command. `{{name}}` is replaced as in `command`; a variable whose argument is missing is not set. `${VAR}` is filled in.", func(t *T) *map[string]string { return &p(t).Env }),
		names,
		textField("cwd", "The folder that the command runs in; left out, that of the manifest."+pathDoc, asPath, func(t *T) *string { return &p(t).Cwd }, nil),
		millisField("timeoutMs", "The command may run for so many milliseconds; progress starts the count again.", func(t *T) *time.Duration { return &p(t).Timeout }),
		millisField("maxTimeoutMs", "The command may run for so many milliseconds in all, whatever its progress; never less than `timeoutMs`.", func(t *T) *time.Duration { return &p(t).MaxTimeout }),
		sizeField("outputBytes", "The output may have so many bytes; one that writes more is ended.", 1, 8<<20, func(t *T) *int { return &p(t).OutputBytes }),
	}
}

// commandField is a list of strings and of lists of strings.
func commandField[T any](key, doc string, p func(*T) *[][]string) field[T] {
	const hint = `write it as ["program", "argument", ["--option", "{{name}}"]]`
	scalar := &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			return &schema{Type: "array", Items: &schema{AnyOf: append(scalar.AnyOf[:3:3], &schema{Type: "array", Items: scalar})}}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			// Known in any case, so that a wrong one is not missed as well.
			d.record(path, n)
			if !d.want(n, list, hint) {
				return
			}
			var groups [][]string
			for i, item := range n.items {
				at, elements := under(path, strconv.Itoa(i)), []*node{item}
				if item.kind == list {
					d.record(at, item)
					elements = item.items
				}
				group := []string{}
				for j, e := range elements {
					place := at
					if item.kind == list {
						place = under(at, strconv.Itoa(j))
					}
					if e.kind == object || e.kind == list {
						d.want(e, text, hint)
						continue
					}
					if v, ok := d.read(e, place, expanded); ok {
						group = append(group, v)
					}
				}
				groups = append(groups, group)
			}
			if len(n.items) == 0 || len(n.items) > 0 && n.items[0].kind == list {
				d.problem(n.at, n.ptr, hint, "begins with no program")
			}
			*p(t) = groups
		},
	}
}

// envField is a map of strings.
func envField[T any](key, doc string, p func(*T) *map[string]string) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			return &schema{Type: "object", Values: &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, object, "write it as {NAME: value}") {
				return
			}
			out := map[string]string{}
			for _, m := range n.members {
				if m.value.kind == null {
					continue
				}
				if problem, hint := checkVariable(m.name); problem != "" {
					d.problem(m.at, under(n.ptr, m.name), hint, "%s", problem)
					continue
				}
				if v, ok := d.read(m.value, under(path, m.name), expanded); ok {
					out[m.name] = v
				}
			}
			*p(t) = out
		},
	}
}

// namedField is an object of things by name, kept in the file's order.
func namedField[T, U any](key, doc string, check check, fresh func(name string) U, p func(*T) *[]U, table []field[U]) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			one := fresh("")
			return &schema{Type: "object", Values: objectSchema(&one, table)}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, object, `write them by name, as in {"name": {…}}`) {
				return
			}
			if len(n.members) > maxEntries {
				d.problem(n.at, n.ptr, "make two agents of it", "there are more than %d", maxEntries)
				return
			}
			for _, m := range n.members {
				if problem, hint := check(m.name); problem != "" {
					d.problem(m.at, under(n.ptr, m.name), hint, "%s", problem)
					continue
				}
				at := under(path, m.name)
				named := *m.value
				named.at = m.at
				d.record(at, &named)
				one := fresh(m.name)
				decodeObject(d, m.value, at, &one, table)
				*p(t) = append(*p(t), one)
			}
		},
	}
}

func resourceFields() []field[ManifestResource] {
	table := []field[ManifestResource]{
		textField("uri", "Its address, of any scheme; `{name}` makes it a template whose variables are arguments of `file` or `command` (RFC 6570, level 1).", asWritten, func(r *ManifestResource) *string { return &r.URI }, nil),
		textField("title", "Its name for people.", asWritten, func(r *ManifestResource) *string { return &r.Title }, nil),
		textField("description", "What it is.", asWritten, func(r *ManifestResource) *string { return &r.Description }, nil),
		textField("mimeType", "What its contents are. Contents that are no UTF-8 text are sent as base64.", asWritten, func(r *ManifestResource) *string { return &r.MimeType }, nil),
		textField("file", "The file that holds the contents; either this or `command` is needed. `{{name}}` is replaced by a variable of the address; what is behind the folder before the first of them cannot be left."+pathDoc, asPath, func(r *ManifestResource) *string { return &r.File }, nil),
		envPatterns(),
	}
	exec := execFields(func(r *ManifestResource) *Exec { return &r.Exec })
	exec[0].doc = "The command whose stdout is the contents, as of a tool; its arguments are the variables of the address."
	return append(table, exec...)
}

// envPatterns are patterns by the names of variables.
func envPatterns() field[ManifestResource] {
	f := envField("variables", "What the variables of the address may be: for each a regular expression that must match the whole value. One that is not named may be anything but empty.", func(r *ManifestResource) *map[string]string { return &r.Variables })
	f.schema = func(*ManifestResource) *schema { return &schema{Type: "object", Values: &schema{Type: "string"}} }
	f.decode = func(d *decoder, n *node, path string, r *ManifestResource) {
		if !d.want(n, object, `write a pattern for each, as in {"day": "[0-9-]+"}`) {
			return
		}
		r.Variables = map[string]string{}
		for _, m := range n.members {
			if !d.want(m.value, text, `write a regular expression, as in "[0-9-]+"`) {
				continue
			}
			d.record(under(path, m.name), m.value)
			if _, err := regexp.Compile(m.value.text); err != nil {
				d.problem(m.value.at, m.value.ptr, "see https://pkg.go.dev/regexp/syntax", "is no regular expression: %v", err)
			}
			r.Variables[m.name] = m.value.text
		}
	}
	return f
}

func promptFields() []field[ManifestPrompt] {
	return []field[ManifestPrompt]{
		textField("title", "Its name for people.", asWritten, func(p *ManifestPrompt) *string { return &p.Title }, nil),
		textField("description", "What it is for.", asWritten, func(p *ManifestPrompt) *string { return &p.Description }, nil),
		itemsField("arguments", "Its arguments, in the order in which they are asked for.", func(p *ManifestPrompt) *[]ManifestArgument { return &p.Arguments }, []field[ManifestArgument]{
			textField("name", "The name that `{{name}}` stands for.", asWritten, func(a *ManifestArgument) *string { return &a.Name }, checkEntryName),
			textField("title", "Its name for people.", asWritten, func(a *ManifestArgument) *string { return &a.Title }, nil),
			textField("description", "What it is.", asWritten, func(a *ManifestArgument) *string { return &a.Description }, nil),
			boolField("required", "It must be given; one that is not is otherwise empty text.", func(a *ManifestArgument) *bool { return &a.Required }),
		}),
		textField("text", "The prompt, as one message of the user. `{{name}}` is replaced by an argument.", asWritten, func(p *ManifestPrompt) *string { return &p.Text }, nil),
		itemsField("messages", "The prompt as several messages, instead of `text`.", func(p *ManifestPrompt) *[]ManifestMessage { return &p.Messages }, []field[ManifestMessage]{
			enumField("role", "Who says it.", func(m *ManifestMessage) *string { return &m.Role }, "user", "assistant"),
			textField("text", "What is said. `{{name}}` is replaced by an argument.", asWritten, func(m *ManifestMessage) *string { return &m.Text }, nil),
		}),
	}
}

// itemsField is a list of objects.
func itemsField[T, U any](key, doc string, p func(*T) *[]U, table []field[U]) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			var one U
			return &schema{Type: "array", Items: objectSchema(&one, table)}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, list, "write a list of objects") {
				return
			}
			d.record(path, n)
			for i, item := range n.items {
				var one U
				at := under(path, strconv.Itoa(i))
				d.record(at, item)
				decodeObject(d, item, at, &one, table)
				*p(t) = append(*p(t), one)
			}
		},
	}
}

func anyName(string) (string, string) { return "", "" }

var entryName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func checkEntryName(name string) (string, string) {
	if !entryName.MatchString(name) {
		return fmt.Sprintf("%q is no name that every client takes", name), "use letters, digits, _, - and ., at most 128"
	}
	return "", ""
}

func checkAgentName(name string) (string, string) {
	if name == "" || Slug(name) != name {
		hint := `use a name such as "files"`
		if slug := Slug(name); slug != "" {
			hint = fmt.Sprintf("write %q", slug)
		}
		return fmt.Sprintf("%q is no name of an agent", name), hint
	}
	return "", ""
}
