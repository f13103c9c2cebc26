package peer

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Protocol versions the peer knows.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25" // the newest legacy version
)

var allLegacy = []string{Legacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// Era says which generations of the protocol a peer serves.
type Era string

// The eras; the zero value is EraBoth.
const (
	EraBoth   Era = "both"
	EraLegacy Era = "legacy"
	EraModern Era = "modern"
)

// Raw is literal bytes for the wire. It crosses to a child process as base64,
// so that nothing on the way validates, compacts or escapes it.
type Raw string

// MarshalJSON encodes the bytes as base64.
func (r Raw) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(r)) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (r *Raw) UnmarshalJSON(b []byte) error {
	var p []byte
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*r = Raw(p)
	return nil
}

// Spec describes one peer. It survives a trip through JSON.
type Spec struct {
	Name           string   // serverInfo.name; "peer" if empty
	Instructions   string   // sent on initialize and server/discover
	Era            Era      // EraBoth if empty
	LegacyVersions []string // newest first; all four if nil

	Tools     []Tool
	Prompts   []Prompt
	Resources []Resource
	Templates []Template

	List   List
	HTTP   HTTP
	Quirks Quirks

	// StatePath names a file to which a peer appends what happens to it; read
	// it with ReadState. It outlives the process. Empty: nothing is written.
	StatePath string
	// RecordPath names a file to which a stdio peer appends each line it reads.
	RecordPath string
}

// List says how lists are served.
type List struct {
	// PageSize > 0 splits every list into pages. The first page's nextCursor
	// is the empty string, which is a valid cursor and not the end.
	PageSize   int
	TTLMs      int    // modern ttlMs
	CacheScope string // modern cacheScope; "private" if empty
}

// HTTP says how a peer behaves over HTTP.
type HTTP struct {
	JSON        bool   // answer application/json unless the call emitted something
	Token       string // demand this bearer token, else 401
	NoGET       bool   // 405 for GET, as servers without a standalone stream do
	Sessionless bool   // legacy without Mcp-Session-Id; server requests are impossible
	PlainErrors bool   // refuse unsupported requests with text/plain bodies
	// Decorated sends all that an SSE parser must bear: CRLF, comments, ids,
	// retry, a priming event without data, data split over lines.
	Decorated bool
}

// Quirks are the ways in which a peer misbehaves as a whole. Those about the
// process itself act over stdio only.
type Quirks struct {
	HangInitialize  bool          // never answers initialize
	SilentOnUnknown bool          // never answers an unknown method
	ExitOnProbe     bool          // stdio: exits 1 when server/discover comes first
	CrashEvery      time.Duration // stdio: exits 3 that long after its start
	Garbage         bool          // stdio: lines that are not JSON between frames
	StderrNoise     int           // stdio: that many lines on stderr at start, one per message after
	SlowStart       time.Duration // stdio: reads nothing before
	IgnoreSIGTERM   bool          // stdio: survives SIGTERM
	IgnoreEOF       bool          // stdio: survives the end of stdin while its parent lives
	SpawnGrandchild bool          // stdio: a sleeping child holding stdout, its pid in the state
	PartialFrame    bool          // stdio: writes half of its first response and exits 3
}

// Tool is a tool of a peer.
type Tool struct {
	Name          string
	RawDefinition Raw // the list entry, verbatim; a minimal one if empty
	Behaviour     Behaviour
	Task          Task // modern: whether calls become tasks
}

// Prompt is a prompt of a peer.
type Prompt struct {
	Name          string
	RawDefinition Raw
	Behaviour     Behaviour
}

// Resource is a resource of a peer. With no Behaviour it reads as Text, which
// a Touch behaviour extends by " (version n)".
type Resource struct {
	URI           string
	Text          string
	RawDefinition Raw
	Behaviour     Behaviour
}

// Template is a resource template of a peer; it serves the URIs that match
// (level 1 and {+reserved} expressions), by default as their own text.
type Template struct {
	URITemplate   string
	RawDefinition Raw
	Behaviour     Behaviour
}

// Kind names a behaviour.
type Kind string

// What a tool, prompt or resource does when it is asked. The answer is a text,
// shaped as the method demands, unless said otherwise.
const (
	Echo     Kind = "echo"     // the arguments, also as structuredContent (the default)
	Verbatim Kind = "raw"      // Behaviour.Raw as the result, verbatim
	Error    Kind = "error"    // Behaviour.Raw as the JSON-RPC error object, verbatim
	Slow     Kind = "slow"     // answers after For; a cancellation ends it and is recorded
	Stubborn Kind = "stubborn" // answers after For even if cancelled
	Hang     Kind = "hang"     // never answers, heeds no cancellation
	Progress Kind = "progress" // N progress and N log notifications, interleaved; For between
	Elicit   Kind = "elicit"   // asks the user, with Behaviour.Raw as the requestedSchema if that is set; answers with the raw ElicitResult
	Sample   Kind = "sample"   // asks the model, with Behaviour.Raw as the params if that is set; answers with the raw CreateMessageResult
	Assisted Kind = "assisted" // asks the model with a tool, runs that, and asks again; answers with a JSON array
	Roots    Kind = "roots"    // asks for roots; answers with the raw ListRootsResult
	Multi    Kind = "multi"    // N (3) rounds of elicitation; answers with a JSON array
	Survey   Kind = "survey"   // elicitation and sampling in one round; a JSON array
	Visit    Kind = "visit"    // sends the user to an address; answers with the raw ElicitResult
	Gate     Kind = "gate"     // as Visit, but a legacy client is sent there by an error, once for the same arguments
	Crash    Kind = "crash"    // stdio: exits 3; HTTP: drops the connection
	Partial  Kind = "partial"  // writes half of its response, then as Crash
	Twice    Kind = "twice"    // answers two times
	Notify   Kind = "notify"   // adds a tool extra_N and announces it; answers with its name
	Touch    Kind = "touch"    // changes the resource URI (or argument uri) and tells subscribers
	Env      Kind = "env"      // {env, cwd, pid}
	Headers  Kind = "headers"  // the HTTP request's headers, an object of arrays
	Params   Kind = "params"   // the raw params of the request
	Client   Kind = "client"   // {era, protocolVersion, clientInfo, capabilities}
	Big      Kind = "big"      // N bytes of text
	Count    Kind = "count"    // how often Count was called since start
	Greet    Kind = "greet"    // greets the argument name
	Compute  Kind = "compute"  // as Slow, for as many seconds as the argument seconds says
	Pair     Kind = "pair"     // two elicitations in one round; a JSON array
)

var kinds = []Kind{"", Echo, Verbatim, Error, Slow, Stubborn, Hang, Progress, Elicit, Sample, Assisted, Roots, Multi,
	Survey, Visit, Gate, Crash, Partial, Twice, Notify, Touch, Env, Headers, Params, Client, Big, Count, Greet, Compute, Pair}

// Behaviour is a Kind with its parameters.
type Behaviour struct {
	Kind Kind
	Raw  Raw           // Verbatim, Error, Sample, Elicit
	For  time.Duration // Slow, Stubborn, Progress; Elicit: how long it works when it has its answer
	N    int           // Progress, Multi, Big
	URI  string        // Touch
}

// Do returns the plain behaviour of a kind.
func Do(k Kind) Behaviour { return Behaviour{Kind: k} }

// check fills in the defaults and refuses what the peer does not know.
func (s Spec) check() (Spec, error) {
	if s.Name == "" {
		s.Name = "peer"
	}
	if s.Era == "" {
		s.Era = EraBoth
	}
	if s.LegacyVersions == nil {
		s.LegacyVersions = allLegacy
	}
	if s.List.CacheScope == "" {
		s.List.CacheScope = "private"
	}
	if !slices.Contains([]Era{EraBoth, EraLegacy, EraModern}, s.Era) {
		return s, fmt.Errorf("peer %s: unknown era %q: use legacy, modern or both", s.Name, s.Era)
	}
	for _, b := range s.behaviours() {
		if !slices.Contains(kinds, b.Kind) {
			return s, fmt.Errorf("peer %s: unknown behaviour %q: use a Kind of this package", s.Name, b.Kind)
		}
		if (b.Kind == Verbatim || b.Kind == Error) && b.Raw == "" {
			return s, fmt.Errorf("peer %s: behaviour %q without bytes: set Raw", s.Name, b.Kind)
		}
	}
	return s, nil
}

func (s Spec) behaviours() []Behaviour {
	var all []Behaviour
	for _, t := range s.Tools {
		all = append(all, t.Behaviour)
	}
	for _, p := range s.Prompts {
		all = append(all, p.Behaviour)
	}
	for _, r := range s.Resources {
		all = append(all, r.Behaviour)
	}
	for _, t := range s.Templates {
		all = append(all, t.Behaviour)
	}
	return all
}

func (s Spec) legacy() bool { return s.Era != EraModern }
func (s Spec) modern() bool { return s.Era != EraLegacy }

// versions lists what the peer supports, newest first.
func (s Spec) versions() []string {
	var vs []string
	if s.modern() {
		vs = append(vs, Modern)
	}
	if s.legacy() {
		vs = append(vs, s.LegacyVersions...)
	}
	return vs
}
