package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

const pathDoc = " `${VAR}` is filled in; a relative path starts at the file's folder."

// storeField takes a plain string for the address.
func storeField() field[Config] {
	const doc = "Where durable state lives: `embedded` keeps it in the data folder; one or more `nats://` or `tls://` addresses, separated by commas, use that JetStream cluster. A plain string is `url`."
	table := storeFields()
	f := objectField("store", doc, func(c *Config) *Store { return &c.Store }, table)
	schemaOf, decode := f.schema, f.decode
	f.schema = func(def *Config) *schema {
		return &schema{AnyOf: []*schema{schemaOf(def), {Type: "string"}}, Default: embedded}
	}
	f.decode = func(d *decoder, n *node, path string, c *Config) {
		if n.kind == object {
			decode(d, n, path, c)
			return
		}
		// One address says all there is to say of the store.
		c.Store = Default().Store
		for _, key := range []string{"credentials", "tls", "replicas", "key", "keyFile", "keyCommand"} {
			d.trace.forget(under(path, key))
		}
		table[0].decode(d, n, under(path, "url"), &c.Store)
	}
	return f
}

// embedded is how files write the empty Store.URL.
const embedded = "embedded"

func storeFields() []field[Store] {
	at := textField("url", "`embedded`, or the addresses. `${VAR}` is filled in.", expanded, func(s *Store) *string { return &s.URL }, checkStore)
	decode := at.decode
	at.schema = func(*Store) *schema { return &schema{Type: "string", Default: embedded} }
	at.decode = func(d *decoder, n *node, path string, s *Store) {
		if decode(d, n, path, s); s.URL == embedded {
			s.URL = ""
		}
	}
	at.show = func(s *shower, path string, t *Store) {
		if t.URL == "" {
			s.put(path, embedded)
			return
		}
		s.text(path, t.URL)
	}
	trust := []field[StoreTLS]{
		textField("ca", "The PEM file of the authorities to trust, instead of the system's."+pathDoc, asPath, func(t *StoreTLS) *string { return &t.CA }, nil),
		textField("cert", "The PEM file of a certificate to show to the store."+pathDoc, asPath, func(t *StoreTLS) *string { return &t.Cert }, nil),
		textField("key", "The PEM file of that certificate's key."+pathDoc, asPath, func(t *StoreTLS) *string { return &t.Key }, nil),
	}
	return []field[Store]{
		at,
		textField("credentials", "The credentials file for the addresses."+pathDoc, asPath, func(s *Store) *string { return &s.Credentials }, nil),
		objectField("tls", "How the addresses are trusted.", func(s *Store) *StoreTLS { return &s.TLS }, trust),
		intField("replicas", "How many servers of the cluster keep a copy of each piece of state. Streams that have fewer copies get more. Streams that have more keep them, and the hub reports the difference.", 1, 5, func(s *Store) *int { return &s.Replicas }),
		secretField("key", "The cluster key: a secret of at least 32 characters that all hubs with these addresses are given. It encrypts the secrets that they share: tokens, sign-ins of browsers, agents that have registered, and the key that signs what clients bring back. Without it each hub has its own, and says so. Left out, `STOA_STORE_KEY` decides. It is never shown. `${VAR}` is filled in.", func(s *Store) *secret.String { return &s.Key }),
		textField("keyFile", "A file that holds the cluster key, in place of `key`; nobody else may be able to read it."+pathDoc, asPath, func(s *Store) *string { return &s.KeyFile }, nil),
		textsField("keyCommand", "A program and its arguments, in place of `key`, whose output is the cluster key. It is run without a shell when the hub starts and may take 30 s. `${VAR}` is filled in.", expanded, false, func(s *Store) *[]string { return &s.KeyCommand }, nil),
	}
}

func checkStore(s string) (string, string) {
	if s == embedded || s == "" {
		return "", ""
	}
	for one := range strings.SplitSeq(s, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return "the store is neither embedded nor an address of NATS", `write "embedded" or "nats://host:4222"`
		}
	}
	return "", ""
}

// checkStoreWhole looks at what is said of a store besides its address.
func checkStoreWhole(s *Store, problem func(path, text, hint string)) {
	checkPair("/store/tls", s.TLS.Cert, s.TLS.Key, problem)
	if s.Replicas < 0 || s.Replicas > 5 {
		problem("/store/replicas", "the number of replicas is out of bounds", between(1, 5))
	}
	checkStoreKey(s, problem)
	if s.URL != "" {
		return
	}
	const hint = "give url, the address of the cluster, or leave it out"
	switch {
	case s.Credentials != "":
		problem("/store/credentials", "the embedded store takes no credentials", hint)
	case s.TLS != StoreTLS{}:
		problem("/store/tls", "the embedded store has no address to trust", hint)
	case s.Replicas > 1:
		problem("/store/replicas", "the embedded store is a single server and keeps one replica", hint)
	}
}

// checkStoreKey looks at what says the cluster key. One that is in the
// environment of a hub whose store is embedded does no harm.
func checkStoreKey(s *Store, problem func(path, text, hint string)) {
	var said []string
	for _, one := range []struct {
		key   string
		given bool
	}{{"key", s.Key.Reveal() != ""}, {"keyFile", s.KeyFile != ""}, {"keyCommand", s.KeyCommand != nil}} {
		if one.given {
			said = append(said, one.key)
		}
	}
	switch {
	case len(said) > 1:
		problem("/store/"+said[1], "the cluster key is said twice, by "+strings.Join(said, " and "), "keep one of them")
	case s.KeyCommand != nil && (len(s.KeyCommand) == 0 || s.KeyCommand[0] == ""):
		problem("/store/keyCommand", "there is no program", `write the program and its arguments, as in ["pass", "show", "stoa"]`)
	case s.URL == "" && len(said) > 0 && said[0] != "key":
		problem("/store/"+said[0], "the embedded store is one hub's alone and takes no cluster key", "give url, the address of the cluster, or leave it out")
	}
}

func sessionFields() []field[Session] {
	return []field[Session]{
		durationField("timeout", "Forget a session that was not used for so long; \"0s\" is never. Left out, `AIUR_SESSION_TIMEOUT` decides.", func(s *Session) *time.Duration { return &s.Timeout }),
		intField("maxValues", "Values that one session may hold.", 1, 1_000_000, func(s *Session) *int { return &s.MaxValues }),
		sizeField("maxBytes", "What the values of one session may take together, older versions included.", 1<<10, 1<<40, func(s *Session) *int { return &s.MaxBytes }),
		durationField("maxAge", "Forget a session so long after its beginning, however much it is used; \"0s\" is never.", func(s *Session) *time.Duration { return &s.MaxAge }),
		intField("history", "Versions that are kept of one value, the present one included.", 1, 1000, func(s *Session) *int { return &s.History }),
		intField("max", "Sessions at once.", 1, 10_000_000, func(s *Session) *int { return &s.Max }),
	}
}

func attachFields() []field[Attach] {
	return []field[Attach]{
		boolField("launch", "Start a hub where none runs. Left out, `AIUR_AUTO_LAUNCH_SERVER` decides.", func(a *Attach) *bool { return &a.Launch }),
		boolField("independent", "A hub that was started goes on when its starter is gone. Left out, `AIUR_SERVER_INDEPENDENT` decides.", func(a *Attach) *bool { return &a.Independent }),
		boolField("stopOnExit", "Stop the hub that was started when leaving. Left out, `AIUR_STOP_SERVER_ON_EXIT` decides.", func(a *Attach) *bool { return &a.StopOnExit }),
		durationField("launchTimeout", "How long a hub that was started may take to answer. Left out, `AIUR_SERVER_LAUNCH_TIMEOUT` decides.", func(a *Attach) *time.Duration { return &a.LaunchTimeout }),
	}
}

func logFields() []field[Log] {
	return []field[Log]{
		enumField("level", "The least important level that is logged. Left out, `LOG_LEVEL` decides, then `AIUR_VERBOSE`.", func(l *Log) *string { return &l.Level }, levels...),
		enumField("format", "How a line looks; auto is text on a terminal and JSON elsewhere.", func(l *Log) *string { return &l.Format }, "auto", "text", "json"),
		objectField("file", "The log as files, JSON always.", func(l *Log) *LogFile { return &l.File }, logFileFields()),
	}
}

// levels are those of the log, the least important first.
var levels = []string{"trace", "debug", "info", "warn", "error"}

const minLogBytes, maxLogBytes = 64 << 10, 1 << 30

func logFileFields() []field[LogFile] {
	return []field[LogFile]{
		boolField("enabled", "Write files. Left out, `AIUR_ENABLE_FILE_LOGGING` decides.", func(f *LogFile) *bool { return &f.Enabled }),
		textField("directory", "The folder of the files. Left out, `AIUR_LOG_DIRECTORY` decides, then `logs` in the data folder."+pathDoc, asPath, func(f *LogFile) *string { return &f.Directory }, nil),
		intField("retentionDays", "Remove files after so many days; 0 keeps them. Left out, `AIUR_LOG_RETENTION_DAYS` decides.", 0, 3650, func(f *LogFile) *int { return &f.RetentionDays }),
		sizeField("maxSize", "Begin another file at this size. Left out, `AIUR_MAX_LOG_FILE_SIZE` decides.", minLogBytes, maxLogBytes, func(f *LogFile) *int { return &f.MaxSize }),
	}
}

// cardsField takes a plain switch, too.
func cardsField[T any](p func(*T) *Cards) field[T] {
	const doc = "Store results longer than a threshold and answer with a card instead, on the faces that do so: on, off, or `{enabled, threshold}`."
	on := toggleField("enabled", "On or off; left out, as the face decides.", func(c *Cards) **bool { return &c.On })
	size := sizeField("threshold", "Results longer than this become cards.", 256, 1<<30, func(c *Cards) *int { return &c.Threshold })
	schemaOf, show := size.schema, size.show
	size.schema = func(def *Cards) *schema {
		s := schemaOf(def)
		if def.Threshold == 0 {
			s.Default = nil
		}
		return s
	}
	size.show = func(s *shower, path string, c *Cards) {
		if c.Threshold > 0 {
			show(s, path, c)
		}
	}
	table := []field[Cards]{on, size}
	f := objectField("cards", doc, p, table)
	whole, decode := f.schema, f.decode
	f.schema = func(def *T) *schema {
		return &schema{AnyOf: append([]*schema{whole(def)}, on.schema(p(def)).AnyOf...)}
	}
	f.decode = func(d *decoder, n *node, path string, t *T) {
		if n.kind == object {
			decode(d, n, path, t)
			return
		}
		on.decode(d, n, under(path, "enabled"), p(t))
	}
	return f
}
