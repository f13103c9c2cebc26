package chat

import (
	"context"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// deaf is a log that tells nobody of what others write to it.
type deaf struct{ journal.Log }

func (deaf) Tail(ctx context.Context, _ string, _ uint64, _ func(journal.Entry) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// What a principal has said and uploaded is forgotten also where that was at
// another hub, and this one has not heard of it.
func TestForgetsWhatAnotherHubHasJustKept(t *testing.T) {
	url := storetest.StartServer(t).URL
	open := func(hub string, over func(journal.Log) journal.Log) (*stage, *Files) {
		st := storetest.Open(t, store.Options{URL: url})
		return newStage(t, staged{store: st, model: &spoken{answers: []answer{says("yes")}}, over: over, options: Options{Hub: hub}}), files(t, st, FileOptions{})
	}
	here, kept := open("here", func(l journal.Log) journal.Log { return deaf{l} })
	there, theirs := open("there", nil)
	c := there.open("one")
	there.send(c, "go")
	there.turns(c, 1)
	f := upload(t, theirs, bob, "list.txt", "milk")
	if err := here.e.Forget(t.Context(), there.who.Name); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the hub where it was said has forgotten it", func() bool {
		list, _ := there.e.List(there.who.Name, 10)
		return len(list) == 0
	})
	if err := kept.Forget(t.Context(), bob.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Attach(t.Context(), bob, f.ID, nil); err == nil {
		t.Error("the file is still there")
	}
}
