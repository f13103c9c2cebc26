//go:build !unix

package mcp

import "net"

// quiet reports whether an idle connection is still open. Where that cannot be
// seen without waiting, idle connections are not used again.
func quiet(net.Conn) bool { return false }
