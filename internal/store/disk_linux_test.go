package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/store"
)

// A real disk of 12 MiB, in a child that has its own mounts: it fills up, gets
// room again, and is read-only when the store is opened.
func TestDisk(t *testing.T) {
	cmd, out := role(t, "disk", t.TempDir(), proc.OwnMounts())
	b, _ := io.ReadAll(out)
	err := cmd.Wait()
	if reason, ok := strings.CutPrefix(string(b), "SKIP "); ok {
		t.Skip(strings.TrimSpace(reason))
	}
	if err != nil || !bytes.HasSuffix(b, []byte("done\n")) {
		t.Errorf("%s%v", b, err)
	}
	t.Logf("%s", b)
}

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Printf("FAIL "+format+"\n", args...)
		os.Exit(1)
	}
}

func roleDisk() {
	dir := os.Getenv("STOA_STORE_DIR")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		fmt.Println("SKIP a small disk cannot be mounted here:", err)
		return
	}
	ballast := filepath.Join(dir, "ballast")
	must(0, os.WriteFile(ballast, make([]byte, 6<<20), 0o600))
	d := &disk{dir: filepath.Join(dir, "store"), told: make(chan error, 100)}
	d.open()
	d.fill()
	fmt.Println("full after", len(d.acked), "entries")
	must(0, os.Remove(ballast))
	d.recover("the disk has room")

	must(0, d.s.Close())

	must(0, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := store.Open(context.Background(), store.Options{Dir: d.dir})
	check(err != nil && strings.Contains(err.Error(), "read-only") && strings.Contains(err.Error(), d.dir), "open what is read-only: %v", err)
	must(0, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=12m"))
	d.open()
	d.all()
	must(0, d.s.Close())
	fmt.Println("done")
}

// disk is a store on a disk that fails, and what it acknowledged.
type disk struct {
	dir   string
	s     *store.Store
	l     *store.Log
	told  chan error
	acked []uint64
	sent  uint64
}

func (d *disk) open() {
	d.s = must(store.Open(context.Background(), store.Options{Dir: d.dir, OnState: func(err error) { d.told <- err }}))
	d.l = must(d.s.Log(context.Background(), store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}}))
}

func (d *disk) append() error {
	d.sent++
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	seq, err := d.l.AppendAny(ctx, "evt.a", fmt.Appendf(make([]byte, 0, 50_000), "%050000d", d.sent))
	check(ctx.Err() == nil, "an answer took as long as its caller waits: %v", err)
	if err == nil {
		d.acked = append(d.acked, seq)
	}
	return err
}

func (d *disk) fill() {
	for range 1000 {
		if err := d.append(); err != nil {
			d.failed(err)
			return
		}
	}
	check(false, "a disk of 12 MiB took %d entries of 50 kB", len(d.acked))
}

// failed holds an error to what is promised, and the store to what it had
// acknowledged.
func (d *disk) failed(err error) {
	check(fault.Is(err, fault.Storage) && fault.Of(err).Kind.Info().Retryable && fault.Of(err).Advice() != "", "no fault of the store: %v", err)
	fmt.Println("refused:", err)
	check(strings.Contains(fault.Of(err).Text(), "the disk is full"), "the message does not say why: %s", fault.Of(err).Text())
	check(fault.Is(d.s.State(), fault.Storage), "state: %v", d.s.State())
	select {
	case err := <-d.told:
		check(err != nil, "the state was told to be good")
	case <-time.After(await.Patience):
		check(false, "nobody was told of the state")
	}
	for _, seq := range []uint64{d.acked[0], d.acked[len(d.acked)-1]} {
		_, err := d.l.Read(context.Background(), seq)
		check(err == nil, "read %d while nothing can be written: %v", seq, err)
	}
}

// recover waits until the store writes again by itself.
func (d *disk) recover(why string) {
	deadline := time.After(await.Patience)
	for good := false; !good; {
		select {
		case err := <-d.told:
			good = err == nil
		case <-deadline:
			check(false, "no recovery though %s: %v", why, d.s.State())
		}
	}
	err := d.append()
	check(err == nil && d.s.State() == nil, "append though %s: %v, %v", why, err, d.s.State())
	d.all()
}

// all shows that what was acknowledged is there, and nothing that was not
// sent.
func (d *disk) all() {
	there := map[uint64]bool{}
	last := uint64(0)
	must(0, d.l.Scan(context.Background(), "", 0, func(e store.Entry) error {
		n, err := strconv.ParseUint(strings.TrimLeft(string(e.Data), "0"), 10, 64)
		if err != nil || len(e.Data) != 50_000 || n <= last || n > d.sent {
			return errors.Join(fmt.Errorf("entry %d is none of ours, or comes twice: %d after %d", e.Seq, n, last), err)
		}
		last = n
		there[e.Seq] = true
		return nil
	}))
	for _, seq := range d.acked {
		check(there[seq], "entry %d was acknowledged and is gone; %d are there", seq, len(there))
	}
	check(len(d.s.Damage()) == 0, "damage: %v", d.s.Damage())
}
