//go:build !linux

package lobby

import "net/netip"

func socketUser(netip.AddrPort, netip.AddrPort) (int, error) { return 0, ErrUnknown }
