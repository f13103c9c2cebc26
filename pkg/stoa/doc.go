// Package stoa is a hub over MCP servers for Go programs: it starts and dials
// servers, keeps them connected, calls their tools, adds tools of the program's
// own, and serves all of it to MCP clients on the program's own http.ServeMux.
//
//	hub, err := stoa.Open(ctx, stoa.Config{
//		Servers: []stoa.Server{{
//			ID:      "filesystem",
//			Command: "mcp-server-filesystem",
//			Args:    []string{"--root", "/data"},
//		}},
//		AutoDiscover: true,
//	})
//	if err != nil {
//		return err
//	}
//	defer hub.Close()
//	result, err := hub.CallTool(ctx, "filesystem", "read_file", map[string]any{"path": "/data/file.txt"})
//
// Two kinds of failure are never mixed. A tool that says no gives a [Result]
// with IsError. A call that could not be made, or was answered by an error of
// the protocol, gives an [*Error] whose Kind is a name from a closed list
// (docs/errors.md) and whose Hint says what to do.
//
// Plans of several calls are found with [Hub.CreatePlan] or read with
// [ParsePlan], and run with [Hub.RunPlan]. A [Run] can be stopped at a step,
// looked into, changed and gone on with.
//
// A [Hub] may be used by many goroutines at once. One slow or broken server
// costs calls to the others nothing. What a server says is handed out as the
// bytes that came. The hub keeps nothing on disk and listens on no address of
// its own; Close ends every process it started.
package stoa
