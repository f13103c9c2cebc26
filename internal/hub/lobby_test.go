package hub

import (
	"testing"

	"github.com/stoahub/stoa/internal/config"
)

// Where the system does not tell users apart, the hub says that everybody gets
// in, unless that is what its owner wants or nobody does.
func TestUsersWhoCannotBeToldApart(t *testing.T) {
	for _, tt := range []struct {
		local config.Local
		tells bool
		want  int
	}{
		{config.LocalOwner, false, 1}, {config.LocalOwner, true, 0}, {config.LocalOpen, false, 0}, {config.LocalToken, false, 0},
	} {
		h := &Hub{cfg: &config.Config{Auth: config.Auth{Local: tt.local}}, tellsUsers: tt.tells}
		if got := h.localHealth(); len(got) != tt.want {
			t.Errorf("%s, told apart %v: %+v", tt.local, tt.tells, got)
		}
	}
}
