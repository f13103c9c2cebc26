package incident

// The codes of what is no fault of package fault. What else a Code may be is
// the name of a fault's kind in capitals, or what a built-in tool calls it.
const (
	ToolError      = "TOOL_ERROR"
	UpstreamFailed = "UPSTREAM_FAILED"
	UpstreamHealth = "UPSTREAM_HEALTH"
	ModuleFailed   = "MODULE_FAILED"
	ModelFailed    = "MODEL_FAILED"
	Panicked       = "PANIC"
	Degraded       = "DEGRADED"
)

// Code is what is known of a code without looking at one Error of it.
type Code struct {
	Code    string
	Meaning string // one sentence for the manual
	Hint    string // what to do
}

// Codes returns the codes that are the book's own, in the order of the manual.
func Codes() []Code {
	return []Code{
		{ToolError, "The tool was called and said that it failed; what it said is the message.", "Read what the tool says: the hub passed it on untouched."},
		{UpstreamFailed, "A server could not be started or reached, or broke off.", "See its page in the console or `stoa servers`: state, last error output, and when it is tried again."},
		{UpstreamHealth, "A server works, but does something that it must not or that will hurt later.", "The message says what; tell those who make the server."},
		{ModuleFailed, "A module of built-in tools cannot be offered for now.", "Repair what the message names and switch the module on again; the rest of the hub works on."},
		{ModelFailed, "A model gave no answer.", "Check the key, the name of the model and the provider's state; the conversation tells what was tried."},
		{Panicked, "A mistake in the hub was caught at a boundary: one request was lost, the hub works on.", "Report it with the stack that is kept with it."},
		{Degraded, "Something works less well than it should.", "The message and the log lines around it say what."},
		{Other, "Too many different things went wrong to keep them apart; these are counted together.", "Look into the log, and end what causes the flood."},
	}
}
