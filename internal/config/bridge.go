package config

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// Bridge says how `stoa bridge` reaches the server of WebSocket agents. Zero
// values leave it to the flags and variables of the bridge.
type Bridge struct {
	URL      string
	Connect  time.Duration            // to connect
	Response time.Duration            // to wait for each message
	Max      time.Duration            // for a whole answer
	Headers  map[string]secret.String // of the handshake
	TLS      Trust
}

// Secrets are what nobody is to be told of it.
func (b *Bridge) Secrets() (all []secret.String) {
	for _, v := range b.Headers {
		all = append(all, v)
	}
	return all
}

func bridgeFields() []field[Bridge] {
	return []field[Bridge]{
		textField("url", "The server of the agents, as in `ws://localhost:8000`. `--url` and `AILUMINA_WS_URL` win. `${VAR}` is filled in.", expanded, func(b *Bridge) *string { return &b.URL }, checkBridgeURL),
		openMillis("connectTimeoutMs", "Connecting may take so many milliseconds, all attempts together; left out, 30000. `--connect-timeout` and `AILUMINA_WS_CONNECT_TIMEOUT` win.", func(b *Bridge) *time.Duration { return &b.Connect }),
		openMillis("responseTimeoutMs", "The agent may be silent for so many milliseconds; left out, 30000. `--response-timeout` and `AILUMINA_WS_RESPONSE_TIMEOUT` win.", func(b *Bridge) *time.Duration { return &b.Response }),
		openMillis("maxTimeoutMs", "A whole answer may take so many milliseconds; left out, 600000. `--max-timeout` and `AILUMINA_WS_MAX_TIMEOUT` win.", func(b *Bridge) *time.Duration { return &b.Max }),
		secretsField("headers", "HTTP headers for the handshake with that server, and with no other. They are never shown. `${VAR}` is filled in.", false, func(b *Bridge) *map[string]secret.String { return &b.Headers }),
		objectField("tls", "How that server is trusted at a wss address. `--ca` and `AILUMINA_WS_CA` win over `ca`.", func(b *Bridge) *Trust { return &b.TLS }, trustFields()),
	}
}

// openMillis is a time in milliseconds that may be left open.
func openMillis[T any](key, doc string, p func(*T) *time.Duration) field[T] {
	f := millisField(key, doc, p)
	schemaOf, show := f.schema, f.show
	f.schema = func(def *T) *schema {
		s := schemaOf(def)
		if *p(def) == 0 {
			s.Default = nil
		}
		return s
	}
	f.show = func(s *shower, at string, t *T) {
		if *p(t) > 0 {
			show(s, at, t)
		}
	}
	return f
}

func checkBridgeURL(s string) (string, string) {
	if s == "" {
		return "", ""
	}
	const hint = "write it as in ws://localhost:8000"
	u, err := url.Parse(s)
	switch {
	case err != nil: // the parser's message quotes the address, which may hold a password
		return "the address cannot be read", hint
	case !slices.Contains([]string{"ws", "wss", "http", "https"}, strings.ToLower(u.Scheme)) || u.Hostname() == "":
		return "this is no ws or wss address", hint
	case u.User != nil:
		return "the address has a user or password in it", "send a credential as one of headers"
	}
	return "", ""
}

// checkBridge looks at what concerns more than one key.
func checkBridge(b *Bridge, problem func(path, text, hint string)) {
	if b.Max > 0 && b.Response > b.Max {
		problem("/bridge/maxTimeoutMs", fmt.Sprintf("%d is less than responseTimeoutMs, %d", b.Max.Milliseconds(), b.Response.Milliseconds()), "raise it, or leave it out")
	}
	CheckHandshake(b.Headers, func(key, text, hint string) { problem("/bridge"+key, text, hint) })
	checkPair("/bridge/tls", b.TLS.Cert, b.TLS.Key, problem)
	if b.TLS.Insecure && b.TLS.CA != "" {
		problem("/bridge/tls/insecure", "there is a ca to trust, and insecure trusts anybody", "keep the one that is meant")
	}
}

// CheckHandshake looks at headers for the handshake of a WebSocket, some of
// which are the protocol's own.
func CheckHandshake(headers map[string]secret.String, problem func(key, text, hint string)) {
	checkHeaders(headers, problem)
	for _, name := range sortedKeys(headers) {
		own := textproto.CanonicalMIMEHeaderKey(name)
		if slices.Contains([]string{"Connection", "Upgrade", "Host", "Content-Length", "Transfer-Encoding"}, own) || strings.HasPrefix(own, "Sec-Websocket-") {
			problem(under("/headers", name), own+" belongs to the handshake itself", "leave it out")
		}
	}
}
