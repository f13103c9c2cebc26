package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Raw returns all that a server keeps, as whoever can read its files sees it:
// the subject, the headers and the data of every entry.
func Raw(t testing.TB, url string) []byte {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		s, err := js.Stream(ctx, info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for seq := max(1, info.State.FirstSeq); seq <= info.State.LastSeq; seq++ {
			m, err := s.GetMsg(ctx, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %v %s\n", m.Subject, m.Header, m.Data)
		}
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
