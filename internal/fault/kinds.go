package fault

// Kind is one reason for which the hub could not do what it was asked.
// The numbers are stable: they appear in logs and documentation and are never
// given to another reason.
type Kind int

// The closed table of reasons. Zero is not a Kind.
const (
	Parse             Kind = 1
	InvalidRequest    Kind = 2
	UnknownMethod     Kind = 3
	InvalidParams     Kind = 4
	UnknownTool       Kind = 5
	TooLarge          Kind = 6
	HeaderMismatch    Kind = 7
	MissingCapability Kind = 8
	BadVersion        Kind = 9
	UnknownSession    Kind = 10
	Unauthorized      Kind = 11
	ForeignOrigin     Kind = 12
	InvalidArguments  Kind = 20
	BadReference      Kind = 21
	SessionRequired   Kind = 22
	Denied            Kind = 23
	ApprovalRequired  Kind = 24
	Limit             Kind = 25
	DefinitionHeld    Kind = 26
	ResourceNotFound  Kind = 30
	UnknownAgent      Kind = 31
	Unreachable       Kind = 32
	Misconfigured     Kind = 33
	QueueFull         Kind = 40
	Timeout           Kind = 41
	BreakerOpen       Kind = 42
	UpstreamLost      Kind = 43
	Loop              Kind = 44
	ContinuationLost  Kind = 45
	Cancelled         Kind = 46
	Storage           Kind = 47
	OutcomeUnknown    Kind = 48
	Internal          Kind = 50
)

// Info is what is known of a Kind without looking at one error of it.
type Info struct {
	Kind      Kind
	Name      string // as in error.data.kind
	Legacy    int    // JSON-RPC code told to a legacy client
	Modern    int    // JSON-RPC code told to a modern client
	HTTP      int    // status where the error answers an HTTP request; 200 unless the protocol says otherwise
	ModernOwn int    // HTTP status on the modern era where it differs, else 0
	Retryable bool   // the same request may succeed later, unchanged, and repeating it does no harm; a fault may say so where its Kind does not
	Model     bool   // a model can repair it: on tools/call of a merged face it becomes an isError result
	Meaning   string // one sentence for the manual
	Hint      string // what to do, used where the error has no hint of its own
}

var table = []Info{
	{Parse, "parse", -32700, -32700, 400, 0, false, false, "The message is not JSON in UTF-8, or breaks a rule of JSON we hold every client to (no duplicate names, no lone surrogates, at most 1,000 levels).", "Send one JSON-RPC 2.0 message."},
	{InvalidRequest, "invalid_request", -32600, -32600, 400, 0, false, false, "The message is JSON but not a JSON-RPC 2.0 request, notification or response.", "Check jsonrpc, id and method."},
	{UnknownMethod, "unknown_method", -32601, -32601, 200, 404, false, false, "The method does not exist in the client's protocol version.", "Use server/discover or initialize to see what is offered."},
	{InvalidParams, "invalid_params", -32602, -32602, 200, 400, false, false, "A parameter of the method is missing or of the wrong type.", "Compare the params with the protocol's schema of this method."},
	{UnknownTool, "unknown_tool", -32602, -32602, 200, 400, false, false, "No tool, prompt or upstream of that name is exposed here.", "List what is offered and use a name from the list."},
	{TooLarge, "too_large", -32600, -32600, 413, 0, false, false, "The message is larger than the limit.", "Send less, or raise limits.messageBytes."},
	{HeaderMismatch, "header_mismatch", -32020, -32020, 400, 0, false, false, "A protocol header is missing or does not say what the body says.", "Send Mcp-Method, Mcp-Name and Mcp-Param-* as the body has them."},
	{MissingCapability, "missing_capability", -32603, -32021, 400, 0, false, false, "The request needs a capability that the client did not declare.", "Declare the capability in the request's _meta."},
	{BadVersion, "bad_version", -32022, -32022, 400, 0, false, false, "The protocol version is not one we speak.", "Use a version from data.supported."},
	{UnknownSession, "unknown_session", -32001, -32001, 404, 0, false, false, "The Mcp-Session-Id is not known: it expired, was deleted, or belongs to another principal.", "Send initialize again without the header."},
	{Unauthorized, "unauthorized", -31011, -31011, 401, 0, false, false, "No valid token came with the request.", "Send Authorization: Bearer with a token from `stoa token create`."},
	{ForeignOrigin, "foreign_origin", -31012, -31012, 403, 0, false, false, "The Host or Origin header names another site.", "Call the hub by its own address, or add the origin to auth.origins."},
	{InvalidArguments, "invalid_arguments", -32602, -32602, 200, 400, false, true, "The arguments do not match the tool's input schema.", "Repair every fault that is listed and call again."},
	{BadReference, "bad_reference", -32602, -32602, 200, 400, false, true, "A reference names a value or path that does not exist.", "Correct the reference; context_list shows what is kept, and context_get a value."},
	{SessionRequired, "session_required", -32602, -32602, 200, 400, false, true, "The tool keeps state and the request is bound to no session.", "Name a session."},
	{Denied, "denied", -31010, -31010, 200, 403, false, true, "The caller's token or the policy does not allow this.", "Ask for a token with that scope."},
	{ApprovalRequired, "approval_required", -32602, -32602, 200, 400, false, true, "A person has to allow this call first.", "Wait for the approval, then call again."},
	{Limit, "limit", -32602, -32602, 200, 400, false, true, "A bound of the hub was reached.", "Use less of what is named, or raise the limit in the config."},
	{DefinitionHeld, "definition_held", -31014, -31014, 200, 403, false, true, "The definition of the tool, prompt or template is new, has changed or is suspicious, and nobody has accepted it.", "Have the hub's owner look at it: `stoa tools changes`."},
	{ResourceNotFound, "resource_not_found", -32002, -32602, 200, 400, false, false, "No upstream offers a resource with that URI.", "List the resources and templates and use one of them."},
	{UnknownAgent, "unknown_agent", -32601, -32601, 404, 0, false, false, "There is no agent of that name at /mcps/{agent}/mcp.", "GET /mcps lists the agents."},
	{Unreachable, "unreachable", -32603, -32603, 502, 0, true, false, "The agent or upstream cannot be reached, or refused the request without beginning it.", "See `stoa servers` for its state and last error output."},
	{Misconfigured, "misconfigured", -32603, -32603, 502, 0, false, false, "The server cannot be used as it is configured: a variable is not set, a setting is wrong, or its program is not installed.", "Have the hub's owner run `stoa doctor`, and correct what it names."},
	{QueueFull, "queue_full", -32002, -31002, 200, 0, true, false, "The upstream's queue is at its capacity.", "Call again later."},
	{Timeout, "timeout", -32003, -31003, 200, 0, false, false, "The upstream did not answer in time.", "Call again with less work, or raise timeoutMs of the upstream."},
	{BreakerOpen, "breaker_open", -32000, -31004, 200, 0, true, false, "The upstream or tool failed so often that it is given a rest.", "Call again after the time in data.retryAfterMs."},
	{UpstreamLost, "upstream_lost", -32000, -31005, 200, 0, false, false, "The connection to the upstream ended during the call, or its answer is none, such as HTTP 500, 502, 503 or 504; whether the call took effect is not known.", "Check before repeating the call."},
	{Loop, "loop", -32000, -31006, 200, 0, false, false, "Calls between agents are nested too deeply.", "Break the circle of agents that call each other."},
	{ContinuationLost, "continuation_lost", -32000, -31007, 200, 0, false, false, "The call that this input belongs to is gone.", "Start the call again."},
	{Cancelled, "cancelled", -32000, -31008, 200, 0, false, false, "The call was cancelled before it ended. Unless data.retryable says that it was not begun, it may have taken effect.", "Check whether it took effect before repeating the call."},
	{Storage, "storage", -32000, -31009, 200, 0, true, false, "The store cannot read or acknowledge a write now: its disk is full or fails, or its cluster has lost its majority. Nothing that was acknowledged is lost.", "Give the disk room or bring the cluster back, then call again; the store recovers by itself."},
	{OutcomeUnknown, "outcome_unknown", -32000, -31013, 200, 0, false, false, "The hub ended while the tool was at work for a task, and the tool is not said to bear repetition; whether the call took effect is not known.", "Check before repeating the call."},
	{Internal, "internal", -32603, -32603, 500, 0, false, false, "The hub broke a promise of its own.", "Report it with the log lines around it."},
}

var byKind = func() map[Kind]*Info {
	m := make(map[Kind]*Info, len(table))
	for i := range table {
		m[table[i].Kind] = &table[i]
	}
	return m
}()

// Kinds returns the table in the order of the manual.
func Kinds() []Info { return append([]Info(nil), table...) }

// Info returns what is known of k; an unknown Kind is Internal.
func (k Kind) Info() *Info {
	if i, ok := byKind[k]; ok {
		return i
	}
	return byKind[Internal]
}

func (k Kind) String() string { return k.Info().Name }
