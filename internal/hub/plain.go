package hub

import (
	"net/netip"

	"github.com/stoahub/stoa/internal/config"
)

// What a person is told whose hub can be reached from other machines by plain
// HTTP.
const (
	plainText = "this hub serves plain HTTP beyond this machine: everybody on the way can read tokens and everything that passes, and change it"
	plainHint = "Set tls.cert and tls.key, listen on 127.0.0.1 behind a proxy that speaks TLS, or use a tunnel."
)

// PlainBeyond returns which of the addresses a hub serves to other machines by
// plain HTTP, and what to do about it.
func PlainBeyond(addresses []string, cfg *config.Config) (open []string, text, hint string) {
	if cfg.TLS.Cert != "" {
		return nil, "", ""
	}
	for _, a := range addresses {
		if at, err := netip.ParseAddrPort(a); err != nil || !at.Addr().IsLoopback() {
			open = append(open, a)
		}
	}
	return open, plainText, plainHint
}

// plainHealth says that what the hub serves can be read on the way.
func (h *Hub) plainHealth() []healthItem {
	open, text, hint := PlainBeyond(h.Addresses(), h.cfg)
	if len(open) == 0 {
		return nil
	}
	return []healthItem{{"plain_http", "warning", text, hint}}
}
