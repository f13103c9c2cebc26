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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Outgoing connections begin at 32768 on Linux and at 49152 elsewhere.
const first, last = 15000, 32000

// claims are held until the process ends: a socket of UDP on each port that was
// handed out. Tests of other processes look for ports, too, and a server takes
// a while until it listens on its own.
var claims struct {
	sync.Mutex
	held []net.PacketConn
}

func claim(p int) bool {
	c, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", p))
	if err != nil {
		return false
	}
	claims.Lock()
	defer claims.Unlock()
	claims.held = append(claims.held, c)
	return true
}

// unused tries to listen. No process may be started meanwhile: it would have
// the socket, too, until it runs its own program, and the port would be in use
// for whoever was given it.
func unused(p int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
	return err == nil && l.Close() == nil
}

// Free finds ports that nobody uses and that no other test is given.
func Free(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		p := first + rand.IntN(last-first)
		if unused(p) && claim(p) {
			ports = append(ports, p)
		}
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

// Listen listens on an address, also where a server has just ended: a process
// that was started meanwhile has its socket until it runs its own program.
func Listen(tb testing.TB, address string) net.Listener {
	tb.Helper()
	for end := time.Now().Add(await.Patience); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l
		}
		if time.Now().After(end) {
			tb.Fatal(err)
		}
	}
}
