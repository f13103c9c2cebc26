package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// registered is what the register says of one stream. The last sequence of a
// stream never goes back, whatever is purged: where the files end before it,
// something is lost although nothing that is left has a flaw.
type registered struct {
	Last   uint64           `json:"last"`
	Blocks map[string]int64 `json:"blocks"` // files and their sizes when the engine had ended
}

// register is the file that tells how the last process left the streams. It
// has its own name only while no process uses them: then every file must be as
// it says. After a crash it stands under the other name, and files may have
// come, grown and gone since; only the sequences hold.
type register map[string]registered

const (
	registerName = "REGISTER.json"
	registerOpen = "REGISTER.open.json"
)

// readRegister also says whether the engine was ended in order.
func (f *folder) readRegister() (r register, clean bool, err error) {
	for _, name := range []string{registerName, registerOpen} {
		b, err := os.ReadFile(filepath.Join(f.dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the store's register: %w", err)
		}
		if err := json.Unmarshal(b, &r); err != nil {
			if err := f.putAside(name, Damage{Detail: "the register cannot be read: " + err.Error()}); err != nil {
				return nil, false, err
			}
			continue
		}
		return r, name == registerName, nil
	}
	return nil, false, nil
}

// inUse renames the register, since the files are going to change.
func (f *folder) inUse() error {
	err := os.Rename(filepath.Join(f.dir, registerName), filepath.Join(f.dir, registerOpen))
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// stop ends the engine and registers how it left its files. Without the
// register the next start is as after a crash.
func (f *folder) stop(e *engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	last := map[string]uint64{}
	list := e.js.ListStreams(ctx)
	for info := range list.Info() {
		last[info.Config.Name] = info.State.LastSeq
	}
	listed := list.Err()
	e.close()
	if listed != nil {
		return fmt.Errorf("note the state of the store: %w", listed)
	}
	old, _, err := f.readRegister()
	if err != nil {
		return err
	}
	r := register{}
	for name, o := range old {
		r[name] = registered{Last: o.Last}
	}
	for name, n := range last {
		blocks := map[string]int64{}
		files, err := f.blocks(name)
		if err != nil {
			return err
		}
		for _, b := range files {
			blocks[filepath.Base(b.path)] = b.size
		}
		r[name] = registered{Last: max(n, r[name].Last), Blocks: blocks}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(f.dir, registerName), append(b, '\n')); err != nil {
		return fmt.Errorf("note the state of the store: %w", err)
	}
	if err := os.Remove(filepath.Join(f.dir, registerOpen)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
