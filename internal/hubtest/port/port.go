// Package port finds ports of loopback for servers that tests stop and start
// again. Such a server must get its port a second time, so it is not one of
// those that the system gives to outgoing connections: whoever dials a server
// that is stopped could be given its port, and be connected to itself.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Outgoing connections begin at 32768 on Linux and at 49152 elsewhere.
const first, last = 15000, 32000

// Free finds ports that nobody uses.
func Free(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first)))
		if err != nil {
			continue // somebody uses it
		}
		defer l.Close() // after all are found, so that none comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return nil, errors.New("no free ports of loopback are found")
}

// Address finds an address that nobody listens on.
func Address(tb testing.TB) string {
	tb.Helper()
	ports, err := Free(1)
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}
