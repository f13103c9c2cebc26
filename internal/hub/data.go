package hub

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/dial"
	"github.com/stoahub/stoa/internal/folder"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/owned"
	"github.com/stoahub/stoa/internal/store"
)

// dataDir is the hub's folder: its lock, its secrets and where it can be found.
type dataDir struct {
	path    string
	lock    *os.File
	token   string
	cert    string // Running.Cert
	version string // Running.Version
	key     string // signs requestState
	hub     string // the id of the hub
	process string // of this one among all that have the id
	before  string // the process before it; empty if it is not known to have ended

	tightened bool // other users could write to it, until now

	mu     sync.Mutex // guards hub.json
	closed bool
}

// Running is what hub.json says of a running hub.
type Running struct {
	Address   string    `json:"address"` // the first of Addresses
	Addresses []string  `json:"addresses"`
	Pid       int       `json:"pid"`
	Version   string    `json:"version"`
	Cert      string    `json:"cert,omitempty"` // the file of the certificate, if the addresses speak TLS
	Config    string    `json:"config"`         // hash
	Started   time.Time `json:"started"`
}

// Scheme is that of the hub's URLs.
func (r *Running) Scheme() string {
	if r.Cert != "" {
		return "https"
	}
	return "http"
}

// ErrLocked means that another hub uses the data folder.
var ErrLocked = errors.New("another hub uses this data folder")

func openData(path string, log *slog.Logger) (*dataDir, error) {
	// Before anything is made or changed: see folder.Check.
	if err := errors.Join(folder.Check(path), store.CheckFolder(StoreDir(path))); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w (choose another with --data)", err)
	}
	tightened, err := owned.Tighten(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "hub.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w (choose another with --data)", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, locked(path)
	}
	d := &dataDir{path: path, lock: lock, tightened: tightened}
	if err := d.prepare(log); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func locked(path string) error {
	r, err := ReadRunning(path)
	if err != nil {
		return fmt.Errorf("data folder %s: %w (choose another with --data)", path, ErrLocked)
	}
	return fmt.Errorf("data folder %s: %w: process %d at %s://%s (stop it, or choose another folder with --data)", path, ErrLocked, r.Pid, r.Scheme(), r.Address)
}

func (d *dataDir) prepare(log *slog.Logger) error {
	up, err := folder.Upgrade(d.path, func(version int, bytes uint64) {
		log.Info("the data folder is of an older version and is copied before it is changed", obs.KeyAction, "open", "data", d.path, "version", version, "bytes", bytes)
	})
	if err != nil {
		return err
	}
	if up != nil {
		log.Warn("the data folder was of an older version; to go back, stop the hub and start the older release with --data and the copy",
			obs.KeyAction, "open", "data", d.path, "from", up.From, "to", up.To, "copy", up.Copy)
	}
	if d.key, err = secretFile(filepath.Join(d.path, "key")); err != nil {
		return err
	}
	if d.hub, err = secretFile(filepath.Join(d.path, "id")); err != nil {
		return err
	}
	d.process = d.hub + "." + rand.Text()
	if d.before, err = succeed(d.lock, d.process); err != nil {
		return fmt.Errorf("write %s: %w", d.lock.Name(), err)
	}
	d.token, err = secretFile(filepath.Join(d.path, "token"))
	return err
}

// succeed names a process in the file that it has locked, and returns the one
// before it, if that is known to have ended: it has locked the very same file,
// since this machine was started. In a copy of the folder the file is another, and
// who is named there may still run.
func succeed(lock *os.File, process string) (before string, err error) {
	said, err := io.ReadAll(io.LimitReader(lock, 1<<10))
	if err != nil {
		return "", err
	}
	info, err := lock.Stat()
	if err != nil {
		return "", err
	}
	here := ""
	if file, ok := info.Sys().(*syscall.Stat_t); ok && dial.Boot() != "" {
		here = fmt.Sprintf("%s %d:%d", dial.Boot(), file.Dev, file.Ino)
	}
	name, where, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	if where == here && here != "" {
		before = name
	}
	if err := lock.Truncate(0); err != nil {
		return "", err
	}
	_, err = lock.WriteAt([]byte(process+" "+here+"\n"), 0)
	return before, err
}

// secretFile returns the secret in a file that only we can read, making it
// first if there is none.
func secretFile(path string) (string, error) {
	b, err := owned.Read(path)
	if err == nil && len(strings.TrimSpace(string(b))) >= 26 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	secret := rand.Text()
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return secret, nil
}

// announce tells other processes where the hub is.
func (d *dataDir) announce(addresses []string, config string) error {
	// A reload may come while the hub is just starting or stopping.
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	r := Running{Addresses: addresses, Cert: d.cert, Pid: os.Getpid(), Version: d.version, Config: config, Started: time.Now().UTC()}
	if len(addresses) > 0 {
		r.Address = addresses[0]
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.path, "hub.json.tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write hub.json: %w", err)
	}
	return os.Rename(tmp, filepath.Join(d.path, "hub.json"))
}

func (d *dataDir) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	_ = os.Remove(filepath.Join(d.path, "hub.json")) // a reader checks that the hub answers
	d.lock.Close()
}

// ReadRunning returns what a data folder says of the hub that uses it.
func ReadRunning(data string) (*Running, error) {
	b, err := os.ReadFile(filepath.Join(data, "hub.json"))
	if err != nil {
		return nil, err
	}
	var r Running
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(data, "hub.json"), err)
	}
	return &r, nil
}

// LocalToken returns the token that lets local commands use a hub's API, or ""
// if there is none. One in a folder that others can write to, or that is not
// ours, is an error: it may be theirs, and so may the hub be that it is sent to.
func LocalToken(data string) (string, error) {
	b, err := owned.Read(filepath.Join(data, "token"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the hub's token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// CheckData returns an error if there is a data folder in which others may have
// put something.
func CheckData(data string) error {
	err := owned.Folder(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// id is a name for the folder that tells nothing of where it is.
func (d *dataDir) id() string {
	sum := sha256.Sum256([]byte(d.path))
	return hex.EncodeToString(sum[:8])
}
