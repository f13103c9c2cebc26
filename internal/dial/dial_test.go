package dial_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/dial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entries(t *testing.T, texts ...string) []dial.Entry {
	t.Helper()
	var out []dial.Entry
	for _, s := range texts {
		e, err := dial.ParseEntry(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func TestWhereAnAgentMayBe(t *testing.T) {
	for name, tc := range map[string]struct {
		host, from, at string
		listed         []string
		ok             bool
	}{
		"where it registers":                  {"10.0.0.5", "10.0.0.5", "10.0.0.5", nil, true},
		"the same, mapped":                    {"10.0.0.5", "::ffff:10.0.0.5", "10.0.0.5", nil, true},
		"elsewhere":                           {"10.0.0.6", "10.0.0.5", "10.0.0.6", nil, false},
		"loopback of the other family":        {"localhost", "127.0.0.1", "::1", nil, true},
		"another address of loopback":         {"127.0.0.2", "127.0.0.1", "127.0.0.2", nil, true},
		"the hub's loopback, from elsewhere":  {"127.0.0.1", "10.0.0.5", "127.0.0.1", nil, false},
		"mapped loopback, from elsewhere":     {"::ffff:127.0.0.1", "10.0.0.5", "::ffff:127.0.0.1", nil, false},
		"no address at all, which is here":    {"0.0.0.0", "10.0.0.5", "0.0.0.0", nil, false},
		"no address at all, from here":        {"0.0.0.0", "127.0.0.1", "0.0.0.0", nil, false},
		"nobody knows where it is from":       {"127.0.0.1", "", "127.0.0.1", nil, false},
		"a neighbour on the wire":             {"fe80::1", "fe80::1", "fe80::1", nil, false},
		"a cloud's metadata":                  {"169.254.169.254", "169.254.169.254", "169.254.169.254", nil, false},
		"a listed address":                    {"10.1.2.3", "10.0.0.5", "10.1.2.3", []string{"10.1.2.3"}, true},
		"a listed range":                      {"10.1.2.3", "10.0.0.5", "10.1.2.3", []string{"10.1.0.0/16"}, true},
		"outside of it":                       {"10.2.0.1", "10.0.0.5", "10.2.0.1", []string{"10.1.0.0/16"}, false},
		"a listed name":                       {"Worker.lan.", "10.0.0.5", "10.7.7.7", []string{"worker.LAN"}, true},
		"another name":                        {"other.lan", "10.0.0.5", "10.7.7.7", []string{"worker.lan"}, false},
		"a listed name that turns to here":    {"worker.lan", "10.0.0.5", "127.0.0.1", []string{"worker.lan"}, false},
		"a listed name that turns to a cloud": {"worker.lan", "10.0.0.5", "169.254.169.254", []string{"worker.lan"}, false},
		"everything does not mean here":       {"127.0.0.1", "10.0.0.5", "127.0.0.1", []string{"0.0.0.0/0", "::/0"}, false},
		"everything does not mean metadata":   {"169.254.169.254", "10.0.0.5", "169.254.169.254", []string{"0.0.0.0/0"}, false},
		"everything else":                     {"8.8.8.8", "10.0.0.5", "8.8.8.8", []string{"0.0.0.0/0"}, true},
		"here, listed":                        {"127.0.0.1", "10.0.0.5", "127.0.0.1", []string{"127.0.0.1"}, true},
		"localhost, listed":                   {"localhost", "10.0.0.5", "::1", []string{"localhost"}, true},
		"metadata, listed":                    {"169.254.169.254", "10.0.0.5", "169.254.169.254", []string{"169.254.0.0/16"}, true},
	} {
		var from netip.Addr
		if tc.from != "" {
			from = netip.MustParseAddr(tc.from)
		}
		err := dial.NewRule(tc.host, from, entries(t, tc.listed...)).Check(netip.MustParseAddr(tc.at))
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "auth.register") {
			t.Errorf("%s: %v does not say what would allow it", name, err)
		}
	}
}

// On another machine an address that means that machine is never dialled for the
// agent, and all others as at the hub where it was registered.
func TestElsewhere(t *testing.T) {
	public := ownAddress(t)
	for name, tc := range map[string]struct {
		host, from, at string
		listed         []string
		ok             bool
	}{
		"where it came from":            {"192.0.2.5", "192.0.2.5", "192.0.2.5", nil, true},
		"another machine":               {"192.0.2.6", "192.0.2.5", "192.0.2.6", nil, false},
		"another machine, listed":       {"192.0.2.6", "192.0.2.5", "192.0.2.6", []string{"192.0.2.6"}, true},
		"loopback":                      {"127.0.0.1", "127.0.0.1", "127.0.0.1", nil, false},
		"loopback, mapped":              {"::ffff:127.0.0.1", "127.0.0.1", "::ffff:127.0.0.1", nil, false},
		"loopback, listed":              {"127.0.0.1", "127.0.0.1", "127.0.0.1", []string{"127.0.0.0/8"}, false},
		"localhost, listed":             {"localhost", "", "::1", []string{"localhost"}, false},
		"a name that leads here":        {"worker.lan", "192.0.2.5", "127.0.0.1", []string{"worker.lan"}, false},
		"no address":                    {"0.0.0.0", "127.0.0.1", "0.0.0.0", []string{"0.0.0.0"}, false},
		"the wire of another, listed":   {"169.254.1.1", "169.254.1.1", "169.254.1.1", []string{"169.254.0.0/16"}, false},
		"an address of ours":            {public, public, public, nil, false},
		"an address of ours, listed":    {public, public, public, []string{public}, true},
		"behind a proxy":                {"192.0.2.6", "", "192.0.2.6", nil, false},
		"behind a proxy, listed":        {"192.0.2.6", "", "192.0.2.6", []string{"192.0.2.0/24"}, true},
		"behind a proxy, loopback here": {"127.0.0.1", "", "127.0.0.1", []string{"127.0.0.1"}, false},
	} {
		if tc.at == "" {
			continue // this machine has no address but loopback
		}
		var from netip.Addr
		if tc.from != "" {
			from = netip.MustParseAddr(tc.from)
		}
		rule := dial.NewRule(tc.host, from, entries(t, tc.listed...)).Elsewhere("the hub on there")
		if err := rule.Check(netip.MustParseAddr(tc.at)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := dial.NewRule("127.0.0.1", netip.MustParseAddr("127.0.0.1"), nil).Elsewhere("the hub on there").Check(netip.MustParseAddr("127.0.0.1"))
	if r, ok := errors.AsType[*dial.Refused](err); !ok || !strings.Contains(err.Error(), "the hub on there") || !strings.Contains(r.Hint(), "at that hub") {
		t.Errorf("it does not say where it can be reached: %v", err)
	}
}

// ownAddress is one of this machine's that is not special; "" if it has none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	return ""
}

// Where a process is does not change, and is said where the system can tell.
func TestLoopback(t *testing.T) {
	a, b := dial.Loopback(), dial.Loopback()
	if a != b || a == "" && runtime.GOOS == "linux" {
		t.Errorf("%q, then %q", a, b)
	}
}

func TestEntries(t *testing.T) {
	for _, bad := range []string{"", "http://x", "x:80", "10.0.0.1/8", "10.0.0", "*.lan", "a b", "[::1]", "10.0.0.0/33"} {
		if e, err := dial.ParseEntry(bad); err == nil {
			t.Errorf("%q was taken as %+v", bad, e)
		}
	}
}

// What counts is where the connection goes, not what the name was when
// somebody looked.
func TestControl(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for from, ok := range map[string]bool{"127.0.0.1": true, "::1": true, "10.0.0.5": false} {
		rule := dial.NewRule("localhost", netip.MustParseAddr(from), nil)
		if err := rule.Resolve(context.Background()); (err == nil) != ok {
			t.Errorf("registered from %s: %v", from, err)
		}
		conn, err := (&net.Dialer{Control: rule.Control}).Dial("tcp", net.JoinHostPort("localhost", port))
		if (err == nil) != ok {
			t.Errorf("dialled for %s: %v", from, err)
		}
		if err == nil {
			conn.Close()
		} else if _, refused := errors.AsType[*dial.Refused](err); !refused {
			t.Errorf("dialled for %s: %v", from, err)
		}
	}
}
