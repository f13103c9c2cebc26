package cli

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/hub"
)

type stopCmd struct {
	files
}

// stopTime is longer than a hub lets running calls end.
const stopTime = 30 * time.Second

func (c *stopCmd) Run(ctx context.Context, s std) error {
	data, err := c.folder()
	if err != nil {
		return err
	}
	note := noted(data)
	r := reach{files: c.files}
	// Only what answers as the hub of this folder gets the signal: the process
	// may have ended, and its number be another's.
	answers, err := r.running(ctx, data)
	if err != nil {
		return err
	}
	if answers == nil {
		if _, _, wrong := c.load(nil); wrong != nil {
			s.note("no hub runs on %s, the data folder by what can be read of the config; name another with --data", data)
			return wrong
		}
		_, err := fmt.Fprintf(s.out, "no hub runs on %s\n", data)
		return err
	}
	answers.close()
	if err := syscall.Kill(note.Pid, syscall.SIGTERM); err != nil {
		return failed(exitFailed, "Is it another user's?", "stop the hub, process %d: %w", note.Pid, err)
	}
	if err := c.await(ctx, data, note); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "stopped the hub at %s://%s, process %d\n", note.Scheme(), note.Address, note.Pid)
	return err
}

// await waits until the hub has left its folder.
func (c *stopCmd) await(ctx context.Context, data string, was *hub.Running) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if now, err := hub.ReadRunning(data); err != nil || now.Pid != was.Pid {
			return nil
		}
		select {
		case <-ctx.Done():
			return failed(exitUnreachable, "End it with kill -9 if it hangs.", "stop the hub: process %d has not ended within %v", was.Pid, stopTime)
		case <-tick.C:
		}
	}
}
