package e2e

import (
	"net"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/port"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// fixtureHTTP runs the fixture as a streamable HTTP server of one era until the test ends and returns its URL.
func fixtureHTTP(t *testing.T, set toolset, version string) string {
	t.Helper()
	var flags []string
	if version == legacy {
		flags = []string{"-stateless=false"}
	}
	address := port.Address(t)
	p := start(t, environment(t, set), fixtureBinary(t), append(flags, "-http="+address)...)
	p.await(t, "it listens", func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return "http://" + address + "/mcp"
}

// published are the servers of npm, with the folder that the filesystem server may use and the file in which the
// memory server keeps its graph.
func published(set toolset, folder, graph string) map[string]server {
	return map[string]server{
		"everything": {Command: set.node, Args: []string{set.bin("mcp-server-everything"), "stdio"}},
		"files":      {Command: set.node, Args: []string{set.bin("mcp-server-filesystem"), folder}},
		"memory": {
			Command: set.node,
			Args:    []string{set.bin("mcp-server-memory")},
			Env:     map[string]string{"MEMORY_FILE_PATH": graph},
		},
	}
}
