package config

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// serverFields are the keys of one server, in the manual's order. They are
// the same in other hosts' files, whose own spellings come last.
func serverFields() []field[Server] {
	table := []field[Server]{
		textField("command", "The program to run; it speaks MCP on stdin and stdout. Either this or `url` is needed. `${VAR}` is filled in.", expanded, func(s *Server) *string { return &s.Command }, nil),
		textsField("args", "The program's arguments. `${VAR}` is filled in.", expanded, false, func(s *Server) *[]string { return &s.Args }, nil),
		secretsField("env", "Variables for the program: a map, or a list of `NAME=value`. They are never shown. `${VAR}` is filled in.", true, func(s *Server) *map[string]secret.String { return &s.Env }),
		textField("envFile", "A file of NAME=value lines for the program; `env` wins over it. `${VAR}` is filled in; a relative path starts at the file's folder.", asPath, func(s *Server) *string { return &s.EnvFile }, nil),
		inheritField(),
		textField("cwd", "The folder that the program runs in; left out, the hub's own. `${VAR}` is filled in; a relative path starts at the file's folder.", asPath, func(s *Server) *string { return &s.Cwd }, nil),
		textField("url", "The address of a server that runs elsewhere: http, https, ws or wss. `${VAR}` is filled in.", expanded, func(s *Server) *string { return &s.URL }, nil),
		secretsField("headers", "HTTP headers for every request to `url`. They are never shown. `${VAR}` is filled in.", false, func(s *Server) *map[string]secret.String { return &s.Headers }),
		objectField("tls", "How a https or wss address is trusted. Files are read again when they have changed.", func(s *Server) *Trust { return &s.TLS }, trustFields()),
		transportField("transport", "How to speak to the server. With auto, a `command` is stdio, a ws address is ws, and an http address is tried as http, then as sse. `ailumina` is a WebSocket agent at a ws address, as in `ws://localhost:8000/ws/news`, which becomes a server with the tool `chat`. `streamable-http` and `streamableHttp` are http."),
		enumField("protocol", "The generation of MCP to speak; auto asks the server.", func(s *Server) *Protocol { return &s.Protocol }, "auto", "modern", "legacy"),
		openMillis("connectTimeoutMs", "Connecting to the server and its first answer may take so many milliseconds; left out, 30000 (of an `ailumina` agent, `timeoutMs`).", func(s *Server) *time.Duration { return &s.Connect }),
		millisField("timeoutMs", "A call may take so many milliseconds from the start of its execution; progress starts the count again.", func(s *Server) *time.Duration { return &s.Timeout }),
		millisField("maxTimeoutMs", "A call may take so many milliseconds in all, whatever its progress; never less than `timeoutMs`.", func(s *Server) *time.Duration { return &s.MaxTimeout }),
		intField("retries", "How often a call is sent again that was not sent, or broke off and may be repeated: its tool is read-only or idempotent. `_meta` `stoa/retries` of a call wins.", 0, 10, func(s *Server) *int { return &s.Retries }),
		toolsField(),
		boolField("trust", "Whether the annotations of its tools (read-only, destructive …) count. false ignores them, so a person is asked about every call a model makes.", func(s *Server) *bool { return &s.Trust }),
		enumField("pin", "What becomes of tools, prompts and resource templates that appear or change after the server was first read: announce marks them, and ignores their annotations until you accept them; quarantine refuses calls of them until then; off takes them as they are. See [pins.md](pins.md).", func(s *Server) *Pin { return &s.Pin }, "announce", "quarantine", "off"),
		enumField("sharing", "shared: all clients use one connection. session: each connection of a legacy client has its own, and so have, for each session that they name, the other requests of each caller; for servers that keep state or ask their client back. The modern era has no sessions: a server that speaks it is shared by modern clients all the same.", func(s *Server) *Sharing { return &s.Sharing }, "shared", "session"),
		intField("maxSessions", "With `sharing: session`: so many connections (processes, for a command) at once. A caller with a token can have half of them.", 1, 10_000, func(s *Server) *int { return &s.MaxSessions }),
		queueField(),
		enumField("task", "When a call becomes a durable task, for clients that declare the extension `io.modelcontextprotocol/tasks`: off never, auto when it takes longer than a second, always at once. Others get the plain call, or with required a refusal; they have the tools `task_start`, `task_status`, `task_result` and `task_cancel`.", func(s *Server) *TaskMode { return &s.Task }, "off", "auto", "always", "required"),
		enumField("sampling", "Who answers when the server asks for a model (`sampling/createMessage`): client asks the client of the call, host has a model of the hub answer once a person or a rule of `policy` allows it, off refuses.", func(s *Server) *Sampling { return &s.Sampling }, "client", "host", "off"),
		textField("samplingModel", "The one of `models` that answers with `sampling: host`; left out, one that the server asks for by name, else the default.", asWritten, func(s *Server) *string { return &s.SamplingModel }, nil),
		toggleField("references", "Replace `@name` in arguments by stored values, on the faces that do so.", func(s *Server) **bool { return &s.References }),
		toggleField("saveAs", "Let a call name what its result is stored as, on the faces that do so.", func(s *Server) **bool { return &s.SaveAs }),
		cardsField(func(s *Server) *Cards { return &s.Cards }),
		objectField("breaker", "When calls to a failing tool are refused at once.", func(s *Server) *Breaker { return &s.Breaker }, breakerFields()),
		durationField("idle", "Close the connection when it was not used for so long; \"0s\" is never. Left out, `pool.maxIdleTime` decides.", func(s *Server) *time.Duration { return &s.Idle }),
		boolField("enabled", "False leaves the server out.", func(s *Server) *bool { return &s.Enabled }),
	}
	return append(table, foreignFields()...)
}

func trustFields() []field[Trust] {
	const path = " `${VAR}` is filled in; a relative path starts at the file's folder."
	return []field[Trust]{
		textField("ca", "The PEM file of the authorities to trust, instead of the system's."+path, asPath, func(t *Trust) *string { return &t.CA }, nil),
		textField("cert", "The PEM file of a certificate to show to the server."+path, asPath, func(t *Trust) *string { return &t.Cert }, nil),
		textField("key", "The PEM file of that certificate's key."+path, asPath, func(t *Trust) *string { return &t.Key }, nil),
		boolField("insecure", "Trust whoever answers. Anybody between the hub and the server can then read and change everything.", func(t *Trust) *bool { return &t.Insecure }),
	}
}

// foreignFields are other hosts' spellings.
func foreignFields() []field[Server] {
	kind := typeField()
	kind.foreign, kind.show = true, nil
	disabled := boolField("disabled", "The opposite of `enabled`, as other hosts call it.", func(s *Server) *bool { return new(bool) })
	disabled.foreign, disabled.show = true, nil
	disabled.decode = func(d *decoder, n *node, at string, s *Server) {
		if d.want(n, boolean, "write true or false, without quotes") {
			d.record(sibling(at, "enabled"), n)
			s.Enabled = n.text != "true"
		}
	}
	serverURL := textField("serverUrl", "`url`, as other hosts call it.", expanded, func(s *Server) *string { return &s.URL }, nil)
	serverURL.foreign, serverURL.show = true, nil
	serverURL.decode = renamed(serverURL.decode, "url")
	httpURL := textField("httpUrl", "`url` with transport http, as other hosts call it.", expanded, func(s *Server) *string { return &s.URL }, nil)
	decode := renamed(httpURL.decode, "url")
	httpURL.foreign, httpURL.show = true, nil
	httpURL.decode = func(d *decoder, n *node, at string, s *Server) {
		decode(d, n, at, s)
		s.Transport = HTTP
	}
	return []field[Server]{kind, disabled, serverURL, httpURL}
}

type serverDecode = func(d *decoder, n *node, at string, s *Server)

// renamed records the value under the key it stands for.
func renamed(decode serverDecode, key string) serverDecode {
	return func(d *decoder, n *node, at string, s *Server) { decode(d, n, sibling(at, key), s) }
}

func sibling(at, key string) string { return at[:strings.LastIndexByte(at, '/')+1] + key }

// transports are the names in use, ours first.
var transports = []struct {
	name string
	is   Transport
}{
	{"auto", Auto}, {"stdio", Stdio}, {"http", HTTP}, {"sse", SSE}, {"ws", WS}, {"ailumina", Ailumina},
	{"streamable-http", HTTP}, {"streamableHttp", HTTP}, {"streamable_http", HTTP}, {"streamablehttp", HTTP},
	{"websocket", WS},
}

// typeField is the transport in some hosts' files, and in others' whether the
// server runs here, which command and url say already.
func typeField() field[Server] {
	f := transportField("type", "`transport`, as other hosts call it. `local` and `remote` are understood and say nothing of the transport.")
	schemaOf, decode := f.schema, f.decode
	f.schema = func(def *Server) *schema {
		s := schemaOf(def)
		s.Enum, s.Default = append(s.Enum[:len(s.Enum):len(s.Enum)], "local", "remote"), nil
		return s
	}
	f.decode = func(d *decoder, n *node, at string, s *Server) {
		if n.kind == text && (n.text == "local" || n.text == "remote") {
			return
		}
		decode(d, n, at, s)
	}
	return f
}

func transportField(key, doc string) field[Server] {
	var names []string
	for _, t := range transports {
		names = append(names, t.name)
	}
	f := enumField(key, doc, func(s *Server) *Transport { return &s.Transport }, names...)
	decode := f.decode
	f.decode = func(d *decoder, n *node, at string, s *Server) {
		decode(d, n, sibling(at, "transport"), s)
		for _, t := range transports {
			if t.name == string(s.Transport) {
				s.Transport = t.is
			}
		}
	}
	return f
}

// secretsField is a map of secrets; where pairs is true a list of NAME=value
// will do.
func secretsField[T any](key, doc string, pairs bool, p func(*T) *map[string]secret.String) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema {
			scalar := &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
			s := &schema{Type: "object", Values: scalar}
			if pairs {
				s = &schema{AnyOf: []*schema{s, {Type: "array", Items: &schema{Type: "string", Pattern: "="}}}}
			}
			return s
		},
		decode: func(d *decoder, n *node, at string, t *T) {
			out := map[string]secret.String{}
			switch {
			case n.kind == object:
				for _, m := range n.members {
					if m.value.kind == null {
						continue
					}
					if v, ok := d.read(m.value, under(at, m.name), expanded); ok {
						out[m.name] = secret.New(v)
					}
				}
			case pairs && n.kind == list:
				d.pairs(n, at, out)
			case pairs:
				d.want(n, object, "write a map, or a list of NAME=value")
				return
			default:
				d.want(n, object, "")
				return
			}
			*p(t) = out
		},
		show: func(s *shower, at string, t *T) { s.secrets(at, *p(t)) },
	}
}

// pairs reads a list of NAME=value.
func (d *decoder) pairs(n *node, at string, out map[string]secret.String) {
	for _, item := range n.items {
		if !d.want(item, text, `write "NAME=value"`) {
			continue
		}
		name, value, ok := strings.Cut(item.text, "=")
		if !ok || name == "" {
			d.problem(item.at, item.ptr, `write "NAME=value"`, "this has no name and '='")
			continue
		}
		if _, twice := out[name]; twice {
			d.problem(item.at, item.ptr, "keep one", "%s is given twice", name)
		}
		d.record(under(at, name), item)
		value, _ = d.expand(value, item, under(at, name))
		out[name] = secret.New(value)
	}
}

func inheritField() field[Server] {
	const hint = `write true, false, or a list of names, as in ["HTTPS_PROXY"]`
	names := textsField("inheritEnv", "What the program gets of the hub's environment besides PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG and TMPDIR: true is all of it, a list names variables.", asWritten, false, func(s *Server) *[]string { return &s.InheritEnv.Names }, checkVariable)
	decode := names.decode
	names.schema = func(*Server) *schema {
		return &schema{Default: false, AnyOf: []*schema{{Type: "boolean"}, {Type: "array", Items: &schema{Type: "string"}}}}
	}
	names.decode = func(d *decoder, n *node, at string, s *Server) {
		switch n.kind {
		case boolean:
			d.record(at, n)
			s.InheritEnv = InheritEnv{All: n.text == "true"}
		case list:
			s.InheritEnv.All = false
			decode(d, n, at, s)
		default:
			d.problem(n.at, n.ptr, hint, "must be true, false or a list of names, and is %s", n.describe())
		}
	}
	names.show = func(s *shower, at string, t *Server) {
		if t.InheritEnv.All || len(t.InheritEnv.Names) == 0 {
			s.put(at, t.InheritEnv.All)
			return
		}
		s.texts(at, t.InheritEnv.Names)
	}
	return names
}

// toolsField takes a plain list for the patterns to allow, as some hosts do.
func toolsField() field[Server] {
	table := []field[Tools]{
		textsField("allow", "Expose only tools that match one of these; `*`, `?` and `[a-z]` are wildcards.", asWritten, false, func(t *Tools) *[]string { return &t.Allow }, checkGlob),
		textsField("deny", "Never expose tools that match one of these, also when allowed.", asWritten, false, func(t *Tools) *[]string { return &t.Deny }, checkGlob),
		overridesField(),
	}
	f := objectField("tools", "Which tools of the server are exposed; a plain list is `allow`.", func(s *Server) *Tools { return &s.Tools }, table)
	schemaOf, decode := f.schema, f.decode
	f.schema = func(def *Server) *schema {
		return &schema{AnyOf: []*schema{schemaOf(def), {Type: "array", Items: &schema{Type: "string"}}}}
	}
	f.decode = func(d *decoder, n *node, at string, s *Server) {
		if n.kind == list {
			table[0].decode(d, n, under(at, "allow"), &s.Tools)
			return
		}
		decode(d, n, at, s)
	}
	return f
}

func queueField() field[Server] {
	table := []field[Queue]{
		intField("concurrency", "Calls that execute at once.", 1, 10_000, func(q *Queue) *int { return &q.Concurrency }),
		intField("capacity", "Calls that may wait; one more is refused.", 0, 1_000_000, func(q *Queue) *int { return &q.Capacity }),
		millisField("timeoutMs", "A call may wait so many milliseconds.", func(q *Queue) *time.Duration { return &q.Timeout }),
	}
	defaults := Queue{Concurrency: 1, Capacity: 100, Timeout: 30 * time.Second}
	return field[Server]{
		key: "queue", doc: "Bounds the calls that the server executes at once; left out, there is no queue.",
		schema: func(*Server) *schema { return objectSchema(&defaults, table) },
		decode: func(d *decoder, n *node, at string, s *Server) {
			q := defaults
			d.trace.places[at] = place{src: d.src, at: n.key, ptr: n.ptr, holder: true}
			decodeObject(d, n, at, &q, table)
			s.Queue = &q
		},
		show: func(s *shower, at string, t *Server) {
			if t.Queue != nil {
				showObject(s, at, t.Queue, table)
			}
		},
	}
}

func breakerFields() []field[Breaker] {
	return []field[Breaker]{
		intField("failures", "So many failures within `window` open the breaker; 0 turns it off.", 0, 1_000_000, func(b *Breaker) *int { return &b.Failures }),
		durationField("window", "The time in which failures are counted.", func(b *Breaker) *time.Duration { return &b.Window }),
		durationField("cooldown", "How long an open breaker refuses calls before it lets one try.", func(b *Breaker) *time.Duration { return &b.Cooldown }),
	}
}

func checkGlob(g string) (string, string) {
	if _, err := path.Match(g, ""); err != nil || g == "" {
		return strconv.Quote(g) + " is no pattern", `close every "[", and write \ before a character that is meant itself`
	}
	return "", ""
}

func checkVariable(name string) (string, string) {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return strconv.Quote(name) + " is no name of a variable", "write the name alone, as in HTTPS_PROXY"
	}
	return "", ""
}
