package mcp

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// Outgoing is a request to a server. Params are given in parts, so that what
// has to differ for this server is spliced in and all else stays as it came.
type Outgoing struct {
	Method   string
	Raw      []byte       // the params as they came; used as they are if nothing has to change
	Fields   []wire.Field // members of the params
	Meta     []wire.Field // members of params._meta
	Renamed  bool         // Fields differ from Raw
	Name     string       // modern over HTTP: what Mcp-Name says
	Headers  [][2]string  // modern over HTTP: further headers, encoded
	Client   *Client      // on whose behalf; nil for the hub itself
	Token    []byte       // the client's progress token, raw; nil if none
	LogLevel string       // the level the client's request asks for
	Stream   Stream       // nil discards
	Asked    Asked        // Request.Asked, for modules in this process
	Tasks    bool         // modern: the server may answer with a task, if the client said so
	Own      []wire.Field // what the hub adds to _meta
	Tap      Tap          // is told what passes; nil for none
	Sampler  *Sampler     // answers in place of the client where the server asks for a model; nil leaves that to the client
}

// Tap is told what passes between the hub and a server on behalf of one
// request, as it is on the wire and before anything is made of it: params that
// are sent, and a result or an error that came. A request that is sent again,
// or in rounds, is told of each time. The bytes are valid until it returns.
type Tap func(what Passing, body []byte)

// Passing is what a Tap is told of.
type Passing int

const (
	Sent Passing = iota
	CameResult
	CameError
)

func (t Tap) sent(params []byte) {
	if t != nil {
		t(Sent, params)
	}
}

func (t Tap) came(r *Response) {
	switch {
	case t == nil:
	case r.Error != nil:
		t(CameError, r.Error)
	default:
		t(CameResult, r.Result)
	}
}

// Forward returns req as an Outgoing with nothing changed.
func Forward(req *Request) *Outgoing {
	o := &Outgoing{
		Method: req.Method, Raw: req.Params, Fields: req.Fields, Meta: req.Meta,
		Client: req.Client, Token: req.Token, LogLevel: req.LogLevel, Stream: req.Stream, Asked: req.Asked,
	}
	if param, ok := needsName(req.Method); ok {
		o.Name, _ = req.Text(param)
	}
	return o
}

// Clone returns a copy that shares no memory with the request it came from.
func (o *Outgoing) Clone() *Outgoing {
	c := *o
	copied := func(fields []wire.Field) []wire.Field {
		out := make([]wire.Field, len(fields))
		for i, f := range fields {
			out[i] = wire.Field{Name: clone(f.Name), Value: clone(f.Value)}
		}
		return out
	}
	c.Raw, c.Fields, c.Meta, c.Token = clone(o.Raw), copied(o.Fields), copied(o.Meta), clone(o.Token)
	if o.Client != nil && o.Client.Connection == "" { // one with a connection lives on by itself
		c.Client = &Client{
			Era: o.Client.Era, Version: o.Client.Version, Actor: o.Client.Actor,
			Info: clone(o.Client.Info), Capabilities: clone(o.Client.Capabilities),
		}
	}
	return &c
}

// Annotate adds a member to _meta that is the hub's own. What came with the
// request under such a name does not go on.
func (o *Outgoing) Annotate(name string, value []byte) {
	o.Own = append(o.Own, wire.Field{Name: []byte(name), Value: value})
}

// Drop takes members out of the params.
func (o *Outgoing) Drop(params ...string) {
	kept := slices.DeleteFunc(slices.Clone(o.Fields), func(f wire.Field) bool {
		return slices.Contains(params, string(f.Name))
	})
	if len(kept) != len(o.Fields) {
		o.Fields, o.Renamed = kept, true
	}
}

// Rename sets a string member of the params.
func (o *Outgoing) Rename(param, value string) {
	o.Replace(param, wire.Quote(value))
	if named, ok := needsName(o.Method); ok && named == param {
		o.Name = value
	}
}

// Replace sets a member of the params to a raw value.
func (o *Outgoing) Replace(param string, value []byte) {
	fields := make([]wire.Field, len(o.Fields))
	copy(fields, o.Fields)
	for i := range fields {
		if string(fields[i].Name) == param {
			fields[i].Value = value
			o.Fields, o.Renamed = fields, true
			return
		}
	}
	o.Fields = append(fields, wire.Field{Name: []byte(param), Value: value})
	o.Renamed = true
}

// TasksExtension names the extension by which a server answers with a task.
const TasksExtension = metaPrefix + "tasks"

// TasksCapability are capabilities that declare it and nothing else.
const TasksCapability = `{"extensions":{"` + TasksExtension + `":{}}}`

// params returns the params for a server of that era and version. token is
// the progress token to use, or nil.
func (o *Outgoing) params(era Era, version string, token []byte) []byte {
	changes := o.metaChanges(era, version, token)
	if len(changes) == 0 && !o.Renamed {
		return o.Raw
	}
	fields := o.Fields
	if len(changes) == 0 {
		return wire.EditFields(nil, fields)
	}
	meta := wire.EditFields(nil, o.Meta, changes...)
	if string(meta) == "{}" {
		meta = nil
	}
	return wire.EditFields(make([]byte, 0, len(o.Raw)+len(meta)+64), fields, wire.Change{Name: "_meta", Value: meta})
}

// metaChanges lists what has to change in _meta; none in the usual case of two
// peers of one era and no progress.
func (o *Outgoing) metaChanges(era Era, version string, token []byte) []wire.Change {
	var changes []wire.Change
	if token != nil || o.Token != nil {
		changes = append(changes, wire.Change{Name: metaProgress, Value: token})
	}
	for _, f := range o.Meta {
		// Said to this hub, and no server's affair: the name of a session may
		// be all that it takes to use it.
		if bytes.HasPrefix(f.Name, []byte(ownPrefix)) {
			changes = append(changes, wire.Change{Name: string(f.Name)})
		}
	}
	for _, f := range o.Own {
		changes = append(changes, wire.Change{Name: string(f.Name), Value: f.Value})
	}
	if era == Legacy {
		for _, f := range o.Meta {
			if bytes.HasPrefix(f.Name, []byte(metaPrefix)) {
				changes = append(changes, wire.Change{Name: string(f.Name)})
			}
		}
		return changes
	}
	if o.Client != nil && o.Client.Era == Modern && o.Client.Version == version {
		if caps := o.Client.Capabilities; o.Sampler != nil || !o.Tasks && wire.Get(wire.Get(caps, "extensions"), TasksExtension) != nil {
			changes = append(changes, wire.Change{Name: metaClientCaps, Value: o.capabilities()})
		}
		return changes
	}
	info, level := ownInfo, o.LogLevel
	if o.Client != nil {
		if o.Client.Info != nil {
			info = o.Client.Info
		}
		if level == "" {
			level = o.Client.LogLevel()
		}
	}
	changes = append(changes,
		wire.Change{Name: metaVersion, Value: wire.Quote(version)},
		wire.Change{Name: metaClientInfo, Value: info},
		wire.Change{Name: metaClientCaps, Value: o.capabilities()})
	if level != "" {
		changes = append(changes, wire.Change{Name: metaLogLevel, Value: wire.Quote(level)})
	}
	return changes
}

// ForServer reports whether a member of a request's _meta tells the server
// something of its own, beyond what the protocol, this hub and tracers put there.
func ForServer(name string) bool {
	switch name {
	case metaVersion, metaClientInfo, metaClientCaps, metaLogLevel, metaProgress, "traceparent", "tracestate":
		return false
	}
	return !strings.HasPrefix(name, ownPrefix)
}

// capabilities are what a modern server is told that the client has.
func (o *Outgoing) capabilities() []byte {
	caps := []byte("{}")
	if o.Tasks {
		caps = []byte(TasksCapability)
	}
	if o.Client != nil && o.Client.Capabilities != nil {
		if caps = o.Client.Capabilities; !o.Tasks {
			caps = withoutTasks(caps)
		}
	}
	if o.Sampler != nil {
		caps = o.Sampler.Declare(caps)
	}
	return caps
}

func withoutTasks(caps []byte) []byte {
	ext := wire.Get(caps, "extensions")
	if ext == nil {
		return caps
	}
	return wire.Edit(nil, caps, wire.Change{Name: "extensions", Value: wire.Edit(nil, ext, wire.Change{Name: TasksExtension})})
}

// ownInfo is the clientInfo of the hub.
var ownInfo = []byte(`{"name":"stoa","version":"` + Release + `"}`)

// Release is the version that the hub says it has.
const Release = "0.1.0"

// Conn is a connection to one server in one era.
type Conn interface {
	// Call sends a request and waits for its answer. Notifications of the
	// request go to its Stream before Call returns. An error means that no
	// answer came; ErrLost tells what became of the connection.
	Call(ctx context.Context, o *Outgoing) (Response, error)
	// Notify sends a notification.
	Notify(ctx context.Context, method string, params []byte) error
	// Era is the era the connection speaks.
	Era() Era
	// Done is closed when the connection can carry nothing more.
	Done() <-chan struct{}
	// Err says why, after Done.
	Err() error
	// Close ends the connection and waits for what it runs.
	Close()

	agree(era Era, version string)
}

// ConnOptions are common to the transports.
type ConnOptions struct {
	MessageBytes int // largest message; 0 means 10 MiB
	// Note is called with each notification that belongs to no request. It
	// must not block.
	Note func(method string, params []byte)
	// Aside is told of each message that belongs to no request of ours; nil for
	// nobody. It must not block, and the bytes are valid until it returns.
	Aside func(Aside)
	// Refused is called when a request of the server could not be attributed
	// to one call, with the method.
	Refused func(method string)
	// Panicked is told of a Handler of this process, or of reading what a
	// server sent, that panicked; nil means that a panic goes on.
	Panicked func(v any, stack []byte)
}

// Aside is a message that belongs to no request of ours: a notification that was
// sent, or a request of the server that the connection answered by itself. What
// the server notifies is told by ConnOptions.Note.
type Aside struct {
	Sent   bool // by us
	Method string
	Params []byte
	Answer []byte // to a request: the result, or the error
}

func (o *ConnOptions) defaults() {
	if o.MessageBytes == 0 {
		o.MessageBytes = 10 << 20
	}
	if o.Note == nil {
		o.Note = func(string, []byte) {}
	}
	if o.Aside == nil {
		o.Aside = func(Aside) {}
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
}
