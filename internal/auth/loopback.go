package auth

import (
	"net"
	"net/http"
)

// arrivedHere reports whether a request can have come from this machine only.
// Where a program serves the hub on listeners of its own, these may be open to
// others, who can send any Host. What is not known of a request counts for it:
// then the listener has been looked at.
func arrivedHere(r *http.Request) bool {
	at, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !known {
		return true
	}
	tcp, ok := at.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
