package obs

// The keys of log attributes. A fact has the same key wherever it is logged;
// a new one is added here first.
const (
	// On every line that has them.
	KeyComponent   = "component"   // the part of the hub that logs: hub, upstream, auth, call, ...
	KeyAction      = "action"      // what it was doing
	KeySession     = "session"     // the Session, or the connection of a legacy client; see Short
	KeyPrincipal   = "principal"   // who asked
	KeyBy          = "by"          // who did it, or decided it
	KeyRequest     = "request"     // the id that the client gave its request
	KeyParent      = "parent"      // what made the request: another request, a run, a turn
	KeyCorrelation = "correlation" // what all lines have in common that came of one request

	KeyUpstream = "upstream"
	KeyTool     = "tool"
	KeyCall     = "call"
	KeyPlan     = "plan"
	KeyRun      = "run"
	KeyStep     = "step"
	KeyTask     = "task"
	KeyAgent    = "agent"
	KeyTurn     = "turn"    // of a conversation
	KeySocket   = "socket"  // which of the sockets of the chat
	KeyModel    = "model"   // by its name in the config
	KeyAttempt  = "attempt" // the number of a request to a model, for one answer
	KeyRemote   = "remote"  // the address of a peer
	KeyKind     = "kind"    // the name of a fault.Kind
	KeyErr      = "err"
	KeyTook     = "took" // a time.Duration
)
