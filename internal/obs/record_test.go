package obs

import (
	"encoding/json"
	"testing"
)

// Who may not read everybody's log sees lines of their own and of the hub: not
// what names others, nor what is somebody's and does not say whose.
func TestRecordsOfAPrincipal(t *testing.T) {
	for name, c := range map[string]struct {
		attrs []string // keys and values
		want  bool
	}{
		"of the hub":                {[]string{KeyComponent, "hub", KeyUpstream, "files"}, true},
		"hers":                      {[]string{KeySession, "wo…", KeyPrincipal, "ann"}, true},
		"another's":                 {[]string{KeySession, "wo…", KeyPrincipal, "bob"}, false},
		"done by her":               {[]string{KeyTask, "t_1", KeyBy, "ann"}, true},
		"done by another":           {[]string{KeyTask, "t_1", KeyBy, "bob"}, false},
		"hers, decided by another":  {[]string{KeyPrincipal, "ann", KeyBy, "bob"}, false},
		"hers, decided by nobody":   {[]string{KeyPrincipal, "ann", KeyBy, ""}, true},
		"a session, and not whose":  {[]string{KeySession, "wo…"}, false},
		"a turn, and not whose":     {[]string{KeyTurn, "t2", KeyCorrelation, "0af7"}, false},
		"a session of nobody known": {[]string{KeySession, "wo…", KeyPrincipal, ""}, false},
	} {
		var r Record
		for i := 0; i < len(c.attrs); i += 2 {
			value, err := json.Marshal(c.attrs[i+1])
			if err != nil {
				t.Fatal(err)
			}
			r.Attrs = append(r.Attrs, Attr{c.attrs[i], value})
		}
		if got := (&Query{Principal: "ann"}).wants(&r); got != c.want {
			t.Errorf("%s: ann sees it: %v", name, got)
		}
		if !(&Query{}).wants(&r) {
			t.Errorf("%s: the owner does not see it", name)
		}
	}
}
