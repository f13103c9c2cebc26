package obs

// The keys of log attributes. A fact has the same key wherever it is logged;
// a new one is added here first.
const (
	KeyUpstream = "upstream"
	KeyTool     = "tool"
	KeyCall     = "call"
	KeySession  = "session"
	KeyPlan     = "plan"
	KeyRun      = "run"
	KeyStep     = "step"
	KeyTask     = "task"
	KeyAgent    = "agent"
	KeyRemote   = "remote" // the address of a peer
	KeyErr      = "err"
	KeyTook     = "took" // a time.Duration
)
