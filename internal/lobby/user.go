package lobby

import (
	"errors"
	"net"
	"net/netip"
)

// ErrUnknown is the answer where the system does not say whose a connection is.
var ErrUnknown = errors.New("this system does not say which user is at the other end of a connection")

// errElsewhere is the answer for a connection that this system does not know as
// open: what is closing may be reported as root's.
var errElsewhere = errors.New("the other end of the connection is not open on this machine")

// userOf is whose the other end of a connection on loopback is.
func userOf(local, remote net.Addr) (int, error) {
	here, ok := local.(*net.TCPAddr)
	there, ok2 := remote.(*net.TCPAddr)
	if !ok || !ok2 {
		return 0, ErrUnknown
	}
	// Seen from there, we are the far end.
	return socketUser(there.AddrPort(), here.AddrPort())
}

// Knows reports whether the system says which user is at the other end of a
// connection, by a look at one of our own.
func Knows() bool {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = userOf(c.RemoteAddr(), c.LocalAddr())
	return err == nil
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
