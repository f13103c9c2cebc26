// Package agentd owns the agent server: it serves the tools, resources and
// prompts of a manifest over MCP, where a tool is a command that is run.
//
// It promises that no shell reads what a caller says: an argument is one element
// of a command line, a part of one, a variable or a text on stdin. Arguments are
// checked against the tool's schema first. No more commands run at once than the
// queue allows; each runs in a process group of its own, and when its call ends,
// for whatever reason, the group is gone. A manifest takes effect whole or not at
// all, and calls under way end as they began.
//
// It does not restrict what a command may do on the machine, and keeps nothing.
package agentd
