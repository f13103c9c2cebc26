package policy

import (
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// A no stays until somebody takes it back who might have said it; what was
// allowed may be ended by whom it was allowed to.
func TestOnlyApproversForgetADenial(t *testing.T) {
	d, err := OpenDesk(t.Context(), nil, DeskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	keep := func(tool string, approve bool) string {
		p := &pending{Approval: Approval{Principal: "alice", Kind: KindTool, Upstream: "up", Ref: "up:" + tool}}
		if err := d.keep(p, &Decision{Approve: approve, Remember: ForTool, By: auth.LocalName}); err != nil {
			t.Fatal(err)
		}
		r, _ := remembered(&p.Approval, ForTool)
		return r.ID
	}
	yes, no := keep("read", true), keep("write", false)
	alice := &auth.Principal{Name: "alice", Via: auth.ViaToken}
	if gone, err := d.ForgetFor(t.Context(), alice, "alice", no); !fault.Is(err, fault.Denied) || len(gone) != 0 {
		t.Errorf("the denial: %v, %v", gone, err)
	}
	if gone, err := d.ForgetFor(t.Context(), alice, "alice", ""); err != nil || len(gone) != 1 || gone[0].ID != yes {
		t.Errorf("all: %v, %v", gone, err)
	}
	may := &auth.Principal{Name: "alice", Via: auth.ViaToken, Rights: auth.Rights{auth.RightApprove}}
	if gone, err := d.ForgetFor(t.Context(), may, "alice", ""); err != nil || len(gone) != 1 || gone[0].ID != no {
		t.Errorf("with the right: %v, %v", gone, err)
	}
}

// What was allowed a server of the config is not allowed an agent that registers
// under its name, and what was allowed an agent holds for the one that the same
// principal registers, also where the tools are defined the same.
func TestDecisionsAreAboutOneServerOfAName(t *testing.T) {
	for _, scope := range []Remember{ForSession, ForTool, ForUpstream} {
		t.Run(string(scope), func(t *testing.T) {
			st := storetest.Open(t, store.Options{Dir: t.TempDir()})
			open := func() func(registered string, remember Remember) bool {
				d := desk(t, st, DeskOptions{})
				t.Cleanup(d.Attend("alice", ""))
				return func(registered string, remember Remember) (asked bool) {
					t.Helper()
					a := wants("s", "write")
					a.Registered, a.Definition = registered, Definition{Digest: "d1"}
					q, done := ask(t.Context(), d, a)
					if q.ID == "" {
						return !(<-done).dec.Approve
					}
					if err := d.Decide(alice, q.ID, Decision{Approve: true, Remember: remember}); err != nil {
						t.Fatal(err)
					}
					<-done
					return true
				}
			}
			asked := open()
			if !asked("", scope) || asked("", Once) {
				t.Error("what was allowed the server is not known")
			}
			if !asked("bob", scope) || asked("bob", Once) || !asked("eve", Once) {
				t.Error("an agent has what the server or another agent was allowed")
			}
			asked = open()
			if asked("bob", Once) || asked("", Once) || !asked("eve", Once) {
				t.Error("after a restart it is another's")
			}
		})
	}
}
