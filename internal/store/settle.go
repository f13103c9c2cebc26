package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A bucket of version 1 kept one value of each key by a bound of its stream. The
// engine writes down in its summary alone what it removes for a bound, and reads
// its blocks again after a crash: a value that was replaced or deleted is back
// once whatever took its place is over. The blocks still tell: a value is gone if
// its key has a later record, be it the note of a deletion that is over.

// settle takes out of the blocks of all buckets the values that later records
// have replaced. It can be done again after a crash at any moment.
func (f *folder) settle() error {
	dirs, err := os.ReadDir(filepath.Join(f.dir, streamsDir))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("look at the store: %w", err)
	}
	for _, d := range dirs {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), bucketPrefix) {
			continue
		}
		if err := f.settleBucket(d.Name()); err != nil {
			return fmt.Errorf("take what was deleted out of %s in %s: %w", d.Name(), f.dir, err)
		}
	}
	return nil
}

func (f *folder) settleBucket(stream string) error {
	blocks, err := f.blocks(stream)
	if err != nil {
		return err
	}
	c := checker{f: f, stream: stream}
	newest := map[string]uint64{}
	err = c.each(blocks, func(_ blockFile, rec record, subject string, _ int) {
		newest[subject] = max(newest[subject], rec.seq)
	}, nil)
	if err != nil {
		return err
	}
	var old []flaw
	var last uint64
	return c.each(blocks, func(_ blockFile, rec record, subject string, at int) {
		if rec.seq < newest[subject] {
			old = append(old, flaw{from: at, to: at + rec.size})
			last = rec.seq
		}
	}, func(b blockFile, text []byte) error {
		cut := old
		old = nil
		if len(cut) == 0 {
			return nil
		}
		// The summary goes first: it says where in the blocks the values are.
		if err := c.dropIndex(); err != nil {
			return err
		}
		text = without(text, cut)
		if len(text) == 0 {
			r, err := newBlockReader(stream, b.index)
			if err != nil {
				return err
			}
			text = r.endNote(last, time.Now().UnixNano())
		}
		return writeFile(filepath.Join(f.dir, b.path), text)
	})
}

// each calls entry with every entry of the blocks, and done, if there is one,
// after each block.
func (c *checker) each(blocks []blockFile, entry func(b blockFile, rec record, subject string, at int), done func(b blockFile, text []byte) error) error {
	var buf []byte
	for _, b := range blocks {
		var err error
		if buf, err = c.load(b, buf); err != nil {
			return err
		}
		r, err := newBlockReader(c.stream, b.index)
		if err != nil {
			return err
		}
		for i := 0; i < len(buf); {
			rec := r.at(buf[i:])
			if !rec.intact {
				break // a write that a crash cut short: what is else damaged was mended
			}
			if rec.entry {
				n := int(binary.LittleEndian.Uint16(buf[i+recordHead-2:]))
				entry(b, rec, string(buf[i+recordHead:i+recordHead+n]), i)
			}
			i += rec.size
		}
		if done != nil {
			if err := done(b, buf); err != nil {
				return err
			}
		}
	}
	return nil
}
