package viewer

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// TestViewerThatTalks: what a viewer says is passed over, as long as it says
// little; one who says much is sent off, and all that it had is given back.
func TestViewerThatTalks(t *testing.T) {
	s := open(t, 100, Options{}, nil)
	c := s.dial(t, "")
	defer c.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		if err := c.Write(ctx, websocket.MessageText, []byte("hello?")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte{0xff}, 1000)); err != nil {
		t.Fatal(err)
	}
	s.bus.Emit(event.Record{Type: event.Health})
	for told := false; !told; {
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("a viewer that said little: %v", err)
		}
		told = strings.Contains(string(b), `"type":"health"`)
	}

	for what, send := range map[string]func(c *websocket.Conn) error{
		"a long message": func(c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageBinary, make([]byte, 64<<10))
		},
		"very many": func(c *websocket.Conn) error {
			for range 1000 {
				if err := c.Write(ctx, websocket.MessageText, []byte("hello?")); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		c := s.dial(t, "")
		err := send(c)
		for err == nil {
			_, _, err = c.Read(ctx)
		}
		if ctx.Err() != nil {
			t.Errorf("%s: the viewer is still there", what)
		}
		c.CloseNow()
	}
	await.Until(t, "only the one that said little watches", func() bool { return s.Len() == 1 })
}

// TestViewersThatComeAgain: who is sent off and comes again at once, and again,
// is refused before there is a socket, and let in later.
func TestViewersThatComeAgain(t *testing.T) {
	s := open(t, 100, Options{Max: 5, Enter: 2}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	refused := 0
	for range 20 {
		c, resp, err := websocket.Dial(ctx, s.url, nil)
		if err == nil {
			c.CloseNow()
			continue
		}
		if resp == nil {
			t.Fatal(err)
		}
		refused++
	}
	if refused == 0 {
		t.Error("twenty at once, and nobody was refused")
	}
	await.Until(t, "one is let in again", func() bool {
		c, _, err := websocket.Dial(ctx, s.url, nil)
		if err == nil {
			c.CloseNow()
		}
		return err == nil
	})
}
