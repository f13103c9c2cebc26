// Package dial owns where the hub connects to on behalf of somebody who is not
// its owner: an agent that registers itself chooses the address, and must not
// choose what only the hub can reach.
//
// It promises that a connection is made to no address but that of whoever
// registered the agent, or one that the hub's owner has listed; and to none that
// means this machine, for an agent that was registered at another. What is checked
// is the IP address that the connection is made to, each time one is made, so
// that a name which later stands for something else leads nowhere.
package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Entry is one entry of auth.register: a host name, or a range of addresses.
type Entry struct {
	name   string
	prefix netip.Prefix // valid if it is no name
}

// ParseEntry reads a host name, an IP address or a range such as 10.1.0.0/16.
func ParseEntry(s string) (Entry, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if p.Masked() != p {
			return Entry{}, fmt.Errorf("%q is no range: its first address is %s", s, p.Masked())
		}
		return Entry{prefix: p}, nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		a = plain(a)
		return Entry{prefix: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	if s == "" || len(s) > 253 || strings.ContainsAny(s, "/*@:[] \t") || strings.Trim(s, "0123456789.") == "" {
		return Entry{}, fmt.Errorf("%q is no host, IP address or range of addresses", s)
	}
	return Entry{name: hostname(s)}, nil
}

// closed are addresses that mean something special where they are dialled: the
// machine itself, its neighbours on the wire, and what tells clouds' machines
// their secrets. A range that merely happens to hold them does not allow them.
var closed = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("fd00:ec2::254/128"),
}

// special is the closed range that an address is in; the zero Prefix if it is
// in none.
func special(a netip.Addr) netip.Prefix {
	for _, p := range closed {
		if p.Contains(a) {
			return p
		}
	}
	return netip.Prefix{}
}

// allows reports whether the entry lets the host be at an address.
func (e Entry) allows(host string, a netip.Addr) bool {
	in := special(a)
	if e.name != "" {
		return e.name == host && (!in.IsValid() || host == "localhost" && a.IsLoopback())
	}
	return e.prefix.Contains(a) && (!in.IsValid() || e.prefix.Bits() >= in.Bits())
}

// Rule says where one agent may be.
type Rule struct {
	host    string
	from    netip.Addr
	entries []Entry
	at      string // where it was registered, if that is another machine
}

// NewRule returns the rule for an agent whose URL has that host, and which was
// registered over a connection from an address; the zero Addr means that it is
// not known where that was.
func NewRule(host string, from netip.Addr, entries []Entry) *Rule {
	return &Rule{host: hostname(host), from: plain(from), entries: entries}
}

// Elsewhere is the rule on another machine than the one at which the agent was
// registered; at says which that is. Addresses that mean something special where
// they are dialled are not that agent's here, listed or not, and what is this
// machine's own address is only if the owner has listed it.
func (r *Rule) Elsewhere(at string) *Rule {
	there := *r
	there.at = cmp.Or(at, "another hub")
	return &there
}

// lookupTime bounds how long a name may take to be looked up.
const lookupTime = 5 * time.Second

// Resolve looks the host up and returns nil if it is at an address where it may
// be, or else why not.
func (r *Rule) Resolve(ctx context.Context) error {
	if a, err := netip.ParseAddr(r.host); err == nil {
		return r.Check(a)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTime, fmt.Errorf("no answer within %v", lookupTime))
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", r.host)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("look up %s: %w", r.host, err)
	}
	if len(found) == 0 {
		return fmt.Errorf("look up %s: it has no address", r.host)
	}
	for _, a := range found {
		if err = r.Check(a); err == nil {
			return nil
		}
	}
	return err
}

// Check returns nil if the agent may be at an address, or else why not.
func (r *Rule) Check(a netip.Addr) error {
	a = plain(a)
	in := special(a)
	switch {
	case r.at == "":
	case in.IsValid(), a == r.from && own(a) && !r.listed(a):
		return &Refused{Host: r.host, Addr: a, From: r.from, At: r.at}
	}
	if r.from.IsValid() && (a == r.from && (!in.IsValid() || a.IsLoopback()) || a.IsLoopback() && r.from.IsLoopback()) {
		return nil
	}
	if r.listed(a) {
		return nil
	}
	return &Refused{Host: r.host, Addr: a, From: r.from}
}

func (r *Rule) listed(a netip.Addr) bool {
	return slices.ContainsFunc(r.entries, func(e Entry) bool { return e.allows(r.host, a) })
}

// own reports whether an address is one of this machine's, or may be.
func own(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(all, func(one net.Addr) bool {
		p, err := netip.ParsePrefix(one.String())
		return err != nil || plain(p.Addr()) == a
	})
}

// Control refuses a connection before it is made; it is for net.Dialer.
func (r *Rule) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, errors.ErrUnsupported)
	}
	return r.Check(ap.Addr())
}

// Refused says that an agent is where it may not be.
type Refused struct {
	Host string
	Addr netip.Addr
	From netip.Addr // the zero Addr if that is not known
	At   string     // where it was registered, if the address leads to it only there
}

func (r *Refused) Error() string {
	at := r.Host
	if r.Host != r.Addr.String() {
		at += " is at " + r.Addr.String() + ", which"
	}
	if r.At != "" {
		return fmt.Sprintf("the agent was registered at %s, and %s leads to it only there", r.At, r.Addr)
	}
	if !r.From.IsValid() {
		return at + " is not listed in auth.register, and a proxy hides where the agent was registered from"
	}
	return fmt.Sprintf("%s is neither the address it was registered from (%s) nor listed in auth.register", at, r.From)
}

// Hint says what to do.
func (r *Refused) Hint() string {
	if r.At != "" {
		return "Call it at that hub, or register it with an address at which all hubs can reach it."
	}
	return "Register the agent from the machine that it runs on, or have the hub's owner list its address in auth.register."
}

// plain is an address without what does not matter here.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func hostname(s string) string { return strings.TrimSuffix(strings.ToLower(s), ".") }
