package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// streamsDir is where the engine keeps the streams of its one account.
const streamsDir = "jetstream/$G/streams"

// check looks at every file that the engine is going to read, before it can
// rewrite one: the engine cuts a block off at its first flaw, drops a stream
// whose settings it cannot read, and says so in its log only. It takes about a
// second per GiB.
func (f *folder) check() error {
	if err := f.recall(); err != nil {
		return err
	}
	reg, clean, err := f.readRegister()
	if err != nil {
		return err
	}
	dirs, err := os.ReadDir(filepath.Join(f.dir, streamsDir))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("look at the store: %w", err)
	}
	there := map[string]bool{}
	for _, d := range dirs {
		name := d.Name()
		if !d.IsDir() || strings.HasPrefix(name, ".") {
			continue // what begins with a dot is being deleted
		}
		there[name] = true
		c := checker{f: f, stream: name, was: reg[name], clean: clean}
		if err := c.run(); err != nil {
			return fmt.Errorf("check %s in %s: %w", name, f.dir, err)
		}
	}
	for name, was := range reg {
		if there[name] || was.Last == 0 {
			continue
		}
		c := checker{f: f, stream: name, was: was, clean: clean, lost: []Range{{1, was.Last}}}
		if err := f.found(Damage{Log: name, File: filepath.Join(streamsDir, name), Lost: c.lost, Detail: "its folder is gone"}); err != nil {
			return err
		}
		if err := c.end(); err != nil {
			return fmt.Errorf("check %s in %s: %w", name, f.dir, err)
		}
	}
	return f.inUse()
}

type blockFile struct {
	path  string // from the folder
	index int
	size  int64
}

// blocks lists the blocks of a stream in their order.
func (f *folder) blocks(stream string) ([]blockFile, error) {
	dir := filepath.Join(streamsDir, stream, "msgs")
	files, err := os.ReadDir(filepath.Join(f.dir, dir))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var list []blockFile
	for _, e := range files {
		n, ok := strings.CutSuffix(e.Name(), ".blk")
		index, err := strconv.Atoi(n)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, blockFile{filepath.Join(dir, e.Name()), index, info.Size()})
	}
	slices.SortFunc(list, func(a, b blockFile) int { return a.index - b.index })
	return list, nil
}

// checker looks at one stream.
type checker struct {
	f      *folder
	stream string
	was    registered
	clean  bool
	blocks []checkedBlock
	lost   []Range
}

type checkedBlock struct {
	blockFile
	blockState
}

func (c *checker) run() error {
	if err := c.settings(); err != nil {
		return err
	}
	list, err := c.f.blocks(c.stream)
	if err != nil {
		return err
	}
	var buf []byte
	for _, b := range list {
		if buf, err = c.load(b, buf); err != nil {
			return err
		}
		r, err := newBlockReader(c.stream, b.index)
		if err != nil {
			return err
		}
		c.blocks = append(c.blocks, checkedBlock{b, r.read(buf)})
	}
	for i := range c.blocks {
		if err := c.mend(i); err != nil {
			return err
		}
	}
	if err := c.missing(); err != nil {
		return err
	}
	return c.end()
}

// load reads a block into buf, or into a larger one.
func (c *checker) load(b blockFile, buf []byte) ([]byte, error) {
	r, err := os.Open(filepath.Join(c.f.dir, b.path))
	if err != nil {
		return buf, err
	}
	defer r.Close()
	buf = slices.Grow(buf[:0], int(b.size))[:b.size]
	_, err = io.ReadFull(r, buf)
	return buf, err
}

// settings holds a stream's settings to their checksum. They are known to the
// program, which makes them again over the same entries when it opens the log.
func (c *checker) settings() error {
	dir := filepath.Join(streamsDir, c.stream)
	meta, sum := filepath.Join(dir, "meta.inf"), filepath.Join(dir, "meta.sum")
	b, err := os.ReadFile(filepath.Join(c.f.dir, meta))
	if os.IsNotExist(err) {
		return nil // made again as well
	}
	if err != nil {
		return err
	}
	s, err := os.ReadFile(filepath.Join(c.f.dir, sum))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	key := sha256.Sum256([]byte(c.stream))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return err
	}
	_, _ = h.Write(b) // a hash does not fail
	if hex.EncodeToString(h.Sum(nil)) == string(s) {
		return nil
	}
	return c.f.putAside(meta, Damage{Log: c.stream, Detail: "its settings were damaged; they are made again, entries are not affected"})
}

// mend takes the flaws out of a block.
func (c *checker) mend(i int) error {
	b := &c.blocks[i]
	flaws := b.flaws
	if n := len(flaws); n > 0 && flaws[n-1].torn && !c.clean && i == len(c.blocks)-1 {
		// A write that a crash cut short was not acknowledged. The engine cuts it off.
		c.f.log.Warn("a write was cut short", "log", c.stream, "bytes", flaws[n-1].to-flaws[n-1].from)
		flaws = flaws[:n-1]
	}
	if len(flaws) == 0 {
		return nil
	}
	kept, err := c.f.keep(b.path, c.stream)
	if err != nil {
		return err
	}
	d := Damage{Log: c.stream, File: b.path, Copy: kept, Detail: fmt.Sprintf("%d places are no record", len(flaws))}
	for _, f := range flaws {
		before, after := f.before, f.after
		if before == 0 {
			before = c.lastBefore(i)
		}
		if after == 0 {
			after = c.firstAfter(i, before)
		}
		if after > before+1 {
			d.Lost = append(d.Lost, Range{before + 1, after - 1})
		}
	}
	c.lost = append(c.lost, d.Lost...)
	if err := c.f.found(d); err != nil {
		return err
	}
	buf, err := c.load(b.blockFile, nil)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(c.f.dir, b.path), without(buf, flaws)); err != nil {
		return err
	}
	return c.dropIndex()
}

// dropIndex removes what the engine knows of the blocks beside them; it makes
// it again from the blocks.
func (c *checker) dropIndex() error {
	err := os.Remove(filepath.Join(c.f.dir, streamsDir, c.stream, "msgs", "index.db"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (c *checker) lastBefore(i int) uint64 {
	var last uint64
	for _, b := range c.blocks[:i] {
		last = max(last, b.last)
	}
	return last
}

// firstAfter is the first sequence after block i; if there is none, it is
// where the stream must have ended, one entry being gone at least.
func (c *checker) firstAfter(i int, before uint64) uint64 {
	for _, b := range c.blocks[i+1:] {
		if b.first != 0 {
			return b.first
		}
	}
	return max(before+1, c.was.Last) + 1
}

// missing finds blocks that are gone or shorter than they were left.
func (c *checker) missing() error {
	if !c.clean {
		return nil
	}
	for name, size := range c.was.Blocks {
		i := slices.IndexFunc(c.blocks, func(b checkedBlock) bool { return filepath.Base(b.path) == name })
		if i >= 0 && (c.blocks[i].size >= size || len(c.blocks[i].flaws) > 0) {
			continue
		}
		d := Damage{Log: c.stream, File: filepath.Join(streamsDir, c.stream, "msgs", name), Detail: "the file is gone"}
		var before uint64
		next := i
		if i >= 0 {
			d.Detail = fmt.Sprintf("the file has %d bytes, it had %d", c.blocks[i].size, size)
			before = max(c.blocks[i].last, c.lastBefore(i))
		} else {
			index, err := strconv.Atoi(strings.TrimSuffix(name, ".blk"))
			if err != nil {
				continue
			}
			next, _ = slices.BinarySearchFunc(c.blocks, index, func(b checkedBlock, n int) int { return b.index - n })
			before = c.lastBefore(next)
			next--
		}
		if after := c.firstAfter(next, before); after > before+1 {
			d.Lost = []Range{{before + 1, after - 1}}
		}
		c.lost = append(c.lost, d.Lost...)
		if err := c.f.found(d); err != nil {
			return err
		}
		if err := c.dropIndex(); err != nil {
			return err
		}
	}
	return nil
}

// end sees to it that no sequence is given twice: what was lost at the end
// stays used.
func (c *checker) end() error {
	last := c.lastBefore(len(c.blocks))
	must := c.was.Last
	for _, r := range c.lost {
		must = max(must, r.Last)
	}
	if must <= last {
		return nil
	}
	if len(c.lost) == 0 {
		if err := c.f.found(Damage{Log: c.stream, Lost: []Range{{last + 1, must}}, Detail: "entries at the end are missing"}); err != nil {
			return err
		}
	}
	index := 1
	if n := len(c.blocks); n > 0 {
		index = c.blocks[n-1].index + 1
	}
	r, err := newBlockReader(c.stream, index)
	if err != nil {
		return err
	}
	if err := c.dropIndex(); err != nil {
		return err
	}
	dir := filepath.Join(c.f.dir, streamsDir, c.stream, "msgs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, strconv.Itoa(index)+".blk"), r.endNote(must, time.Now().UnixNano()))
}
