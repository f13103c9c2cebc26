// Package agentclient lets an agent use other agents, by name, through the
// router that serves them at /mcps/{agent}/mcp.
//
//	c, err := agentclient.New(agentclient.Options{}) // ROUTER_HOST, ROUTER_PORT, AGENT_TOKEN
//	if err != nil {
//		return err
//	}
//	result, err := c.CallTool(ctx, "builder", "build", map[string]any{"target": "all"})
//
// Two kinds of failure are never mixed. A tool that says no gives a [Result]
// with IsError. A call that could not be made, or was refused, gives an
// [*Error] with the router's code and reason.
//
// A call that an agent makes while it serves another belongs to that one: it
// carries on its chain, by which the hub stops loops and lets nested calls
// share the slot of their ancestor, and its trace. An agent that is started as
// a command finds both in its environment, and the client does so by itself;
// one that serves MCP takes them from the request it serves:
//
//	ctx = agentclient.WithChain(ctx, agentclient.FromMeta(request.Params.Meta))
//
// A [Client] keeps no connection state, asks in the newest version of the
// protocol that the agent's router speaks (2026-07-28, or plain POSTs of the
// versions before), and may be used by many goroutines at once. What agents say
// is handed out as the bytes that came. It declares no capabilities, so no
// agent asks it anything back, and it does not wait for tasks: agents answer
// it when they are done.
package agentclient
