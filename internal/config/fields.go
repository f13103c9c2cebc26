package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/dial"
)

// configFields are the keys of Stoa's own file, in the manual's order.
func configFields() []field[Config] {
	table := []field[Config]{
		versionField(),
		{
			key: "$schema", foreign: true, doc: "The address of this schema, for editors.",
			schema: func(*Config) *schema { return &schema{Type: "string"} },
			decode: func(d *decoder, n *node, _ string, _ *Config) { d.want(n, text, "") },
		},
		textsField("listen", "The addresses to listen on, each host:port; one string or a list. Port 0 takes a free one. `--listen` replaces them all; without either, `AIUR_SERVER_HOST` and `AIUR_SERVER_PORT`, then `PORT`, decide. An address that is not loopback needs authentication.",
			asWritten, true, func(c *Config) *[]string { return &c.Listen }, checkListen),
		objectField("tls", "The certificate of the hub. With it all addresses speak https only; without it, plain HTTP. Who may come in is decided as without. The files are read again when they have changed.", func(c *Config) *TLS { return &c.TLS }, tlsFields()),
		boolField("sse", "Also serve HTTP+SSE, the transport of protocol version 2024-11-05, at `/sse` and `/message`, for clients that know nothing newer.", func(c *Config) *bool { return &c.SSE }),
		textField("data", "The folder of the hub's own data. `--data` wins; without either, `STOA_DATA`, then `stoa` in the user's state folder (`XDG_STATE_HOME` or `~/.local/state`). `${VAR}` is filled in; a relative path starts at the file's folder.",
			asPath, func(c *Config) *string { return &c.Data }, nil),
		storeField(),
		serversField("servers", "The MCP servers to connect to, by name; see [servers](#servers).", false),
		serversField("mcpServers", "`servers`, as other hosts call it.", true),
		mcpField(),
		boolField("autoDiscover", "Connect to every server at the start and list its tools. When false, nothing is dialled or listed until it is asked for.",
			func(c *Config) *bool { return &c.AutoDiscover }),
		poolField(),
		objectField("auth", "Who may talk to the hub.", func(c *Config) *Auth { return &c.Auth }, authFields()),
		objectField("limits", "The bounds of what the hub takes in. Sizes are bytes, or strings such as `\"10MiB\"`.", func(c *Config) *Limits { return &c.Limits }, limitFields()),
		objectField("session", "How long the sessions of clients live and what they may hold.", func(c *Config) *Session { return &c.Session }, sessionFields()),
		modulesField(),
		modelsField(),
		objectField("chat", "How the chat host behaves.", func(c *Config) *Chat { return &c.Chat }, chatFields()),
		agentsField(),
		policyField(),
		objectField("attach", "How `stoa stdio` finds its hub.", func(c *Config) *Attach { return &c.Attach }, attachFields()),
		objectField("bridge", "How `stoa bridge` reaches the server of its agents; see [bridge.md](bridge.md).", func(c *Config) *Bridge { return &c.Bridge }, bridgeFields()),
		objectField("log", "What is logged, and how.", func(c *Config) *Log { return &c.Log }, logFields()),
		objectField("telemetry", "Where traces of calls, turns and runs go. Metrics are at `/metrics` in any case.", func(c *Config) *Telemetry { return &c.Telemetry }, telemetryFields()),
		objectField("console", "What people who watch the hub are shown.", func(c *Config) *Console { return &c.Console }, consoleFields()),
	}
	return append(table, sectionFields()...)
}

func versionField() field[Config] {
	one := int64(1)
	return field[Config]{
		key: "stoa", doc: "The version of this format, always 1. A file that has it is Stoa's own and read strictly; of any other file only the servers are read.",
		schema: func(*Config) *schema { return &schema{Type: "integer", Minimum: &one, Maximum: &one} },
		decode: func(d *decoder, n *node, _ string, _ *Config) {
			if n.kind != number || n.text != "1" {
				d.problem(n.at, n.ptr, "write 1", "this version of Stoa reads format 1 only")
			}
		},
	}
}

func tlsFields() []field[TLS] {
	const path = " `${VAR}` is filled in; a relative path starts at the file's folder."
	return []field[TLS]{
		textField("cert", "The PEM file of the certificate, followed by those that lead to its authority. `--tls-cert` wins."+path, asPath, func(t *TLS) *string { return &t.Cert }, nil),
		textField("key", "The PEM file of the certificate's key. `--tls-key` wins."+path, asPath, func(t *TLS) *string { return &t.Key }, nil),
	}
}

// poolField has its own defaults once it is there at all.
func poolField() field[Config] {
	get := func(c *Config) *Pool { return &c.Pool }
	table := []field[Pool]{
		durationField("maxIdleTime", "Close a connection that was not used for so long; \"0s\" is never.", func(p *Pool) *time.Duration { return &p.MaxIdleTime }),
		durationField("cleanupInterval", "Look for idle connections so often.", func(p *Pool) *time.Duration { return &p.CleanupInterval }),
		intField("max", "At most so many connections at once; 0 is no bound.", 0, 100_000, func(p *Pool) *int { return &p.Max }),
	}
	f := objectField("pool", "When connections are closed for being idle. Without it they stay open, unless a server's `idle` says otherwise; with it, what is left out is 5m and 1m.", get, table)
	f.schema = func(*Config) *schema {
		return objectSchema(&Pool{MaxIdleTime: poolIdle, CleanupInterval: poolSweep}, table)
	}
	decode := f.decode
	f.decode = func(d *decoder, n *node, path string, c *Config) {
		d.poolDefaults(n, path, c)
		decode(d, n, path, c)
	}
	return f
}

const (
	poolIdle  = 5 * time.Minute
	poolSweep = time.Minute
)

// poolDefaults sets what a configured pool has when it does not say.
func (d *decoder) poolDefaults(n *node, path string, c *Config) {
	if _, known := d.trace.places[path]; known || n.kind != object {
		return
	}
	d.trace.places[path] = place{src: d.src, at: n.key, ptr: n.ptr, holder: true}
	c.Pool.MaxIdleTime, c.Pool.CleanupInterval = poolIdle, poolSweep
}

func authFields() []field[Auth] {
	return []field[Auth]{
		toggleField("required", "Ask every caller for a token. Left out, only listeners that are not loopback ask; false is refused while there is one.", func(a *Auth) **bool { return &a.Required }),
		textsField("origins", "Browser origins to allow besides the hub's own, each scheme://host[:port]; their pages may use the hub and read its answers. Other ports of this machine are other origins.", asWritten, false, func(a *Auth) *[]string { return &a.Origins }, checkOrigin),
		textsField("hosts", "`Host` header values to allow besides the listen addresses, each host or host:port.", asWritten, false, func(a *Auth) *[]string { return &a.Hosts }, checkHost),
		textField("tokensFile", "The file of bearer tokens. Left out, it is in the data folder. Where hubs share their tokens (`store.key`), they are taken out of it into the store, once. `${VAR}` is filled in; a relative path starts at the file's folder.", asPath, func(a *Auth) *string { return &a.TokensFile }, nil),
		enumField("local", "Who on this machine needs no token: `owner-uid` is the user whom the hub runs as, and root; `open` is every user; `token` is nobody. Where the system does not tell users apart, `owner-uid` is as `open`, and `stoa doctor` says so.", func(a *Auth) *Local { return &a.Local }, string(LocalOwner), string(LocalOpen), string(LocalToken)),
		textsField("register", "Where agents may be that register themselves, besides the address they register from: host names, IP addresses, or ranges such as 10.1.0.0/16. Addresses of the hub's own machine (127.0.0.1) and link-local ones (169.254.0.0/16, fe80::/10) are allowed only by an entry for just them.", asWritten, false, func(a *Auth) *[]string { return &a.Register }, checkRegister),
	}
}

func limitFields() []field[Limits] {
	return []field[Limits]{
		sizeField("messageBytes", "The longest message, in either direction. A longer answer fails the call that it answers, and nothing else.", 1<<10, 1<<30, func(l *Limits) *int { return &l.MessageBytes }),
		intField("depth", "The deepest nesting of JSON that a client may send.", 8, 1000, func(l *Limits) *int { return &l.Depth }),
		sizeField("argumentBytes", "The longest arguments of a call after references were resolved, also of a step of a plan; and the largest file that the file tools write, edit or hash.", 1<<10, 1<<30, func(l *Limits) *int { return &l.ArgumentBytes }),
		intField("cacheEntries", "Results kept to be reused (a tool's `cache`); the one not used for longest makes room.", 1, 1_000_000, func(l *Limits) *int { return &l.CacheEntries }),
		sizeField("cacheBytes", "Memory for results kept to be reused. A result larger than an eighth of it is not kept.", 64<<10, 4<<30, func(l *Limits) *int { return &l.CacheBytes }),
		intField("sessions", "Connections of legacy clients at once.", 1, 1_000_000, func(l *Limits) *int { return &l.Sessions }),
		durationField("taskTTL", "Forget a task, and end it if it still runs, so long after it began.", func(l *Limits) *time.Duration { return &l.TaskTTL }),
		durationField("sessionIdle", "Forget a legacy client's connection that was not used for so long, and close what `sharing: session` keeps for requests that come by none; \"0s\" is never.", func(l *Limits) *time.Duration { return &l.SessionIdle }),
		sizeField("headerBytes", "The longest header of one HTTP request.", 1<<10, 16<<20, func(l *Limits) *int { return &l.HeaderBytes }),
		intField("connections", "Open connections to the hub. One caller can hold half of them, and a quarter is kept for the owner; who has not shown a token yet makes room for who comes next. 0 is half of the system's limit on open files.", 0, 1_000_000, func(l *Limits) *int { return &l.Connections }),
		intField("sockets", "WebSockets and event streams of the chat that one principal may have open, and as many WebSockets of agents. All clients of this machine without a token are one principal, and may have four times as many.", 1, 250_000, func(l *Limits) *int { return &l.Sockets }),
	}
}

func consoleFields() []field[Console] {
	return []field[Console]{
		boolField("exchanges", "While somebody watches, keep the last requests to servers and their answers whole, in memory (8 MiB in all, 64 KiB of a message), for the hub's owner to look at. Secrets of the config are taken out; arguments and results are not. When false, records tell names and figures only.",
			func(c *Console) *bool { return &c.Exchanges }),
	}
}

func sectionFields() []field[Config] {
	section := func(key, doc string, p func(*Sections) *json.RawMessage, kinds ...kind) field[Config] {
		f := rawField(key, doc+" Kept as written; this version does nothing with it yet.", func(c *Config) *json.RawMessage { return p(&c.Sections) }, kinds...)
		decode := f.decode
		f.decode = func(d *decoder, n *node, path string, c *Config) {
			decode(d, n, path, c)
			d.note(n.key, n.ptr, "", "kept, but this version does nothing with %s yet", key)
		}
		return f
	}
	return []field[Config]{
		section("plans", "How plans run.", func(s *Sections) *json.RawMessage { return &s.Plans }, object),
	}
}

func checkListen(addr string) (string, string) {
	const hint = `write host:port, as in "127.0.0.1:8080" or "[::1]:8080"`
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		return fmt.Sprintf("%q is a port without a host", addr), fmt.Sprintf("write %q", "127.0.0.1:"+addr)
	}
	if strings.Contains(addr, "://") {
		return fmt.Sprintf("%q is a URL, not an address", addr), hint
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Sprintf("%q is no address", addr), hint
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("the port of %q is not a number from 0 to 65535", addr), hint
	}
	if strings.ContainsAny(host, " /\t\n@,") {
		return fmt.Sprintf("the host of %q cannot be one", addr), hint
	}
	return "", ""
}

// loopback reports whether only this machine can reach the address.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func checkOrigin(o string) (string, string) {
	const hint = "write it as browsers do, as in https://app.example.com"
	if o == "*" {
		return "every origin cannot be allowed: any web page could then use the hub", "name the origins"
	}
	u, err := url.Parse(o)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Sprintf("%q is no origin", o), hint
	}
	return "", ""
}

func checkRegister(s string) (string, string) {
	if _, err := dial.ParseEntry(s); err != nil {
		return err.Error(), "write a host such as worker.lan, an address such as 10.1.2.3, or a range such as 10.1.0.0/16"
	}
	return "", ""
}

func checkHost(h string) (string, string) {
	if h == "" || strings.ContainsAny(h, "/*@ ") {
		return fmt.Sprintf("%q is no host", h), "write a name or an address, with or without :port"
	}
	return "", ""
}
