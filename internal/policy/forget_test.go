package policy

import (
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
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
