package config

import (
	"time"

	"github.com/stoahub/stoa/internal/secret"
)

// Store says where durable state lives.
type Store struct {
	URL         string // "": embedded, in the data folder; else nats:// or tls:// addresses separated by commas
	Credentials string // a NATS credentials file; empty: none
	TLS         StoreTLS
	Replicas    int // of each stream; 1 unless the store is a cluster

	// The cluster key: at most one of these says what it is. It encrypts the
	// secrets that hubs with the same URL share; without it they share none.
	Key        secret.String
	KeyFile    string   // a file that holds it
	KeyCommand []string // a program and its arguments, which prints it
}

// StoreTLS says how the addresses of a store are trusted.
type StoreTLS struct {
	CA        string // PEM file of authorities; empty: the system's
	Cert, Key string // PEM files of the certificate to show; empty: none
}

// Session bounds what the sessions of clients hold, and how long they live.
type Session struct {
	Timeout   time.Duration // of idleness; 0: never
	MaxAge    time.Duration // absolute; 0: none
	MaxValues int           // names in one session
	MaxBytes  int           // of one session, history included
	History   int           // versions kept of one value, the present one included
	Max       int           // sessions at once
}

// Modules says which built-in modules there are, and which are offered.
type Modules struct {
	Context Module
	Plan    Module
	Task    Module
	File    FileModule
	Debug   Module
	// Named are the modules that the config asks for by name: every client and
	// model is offered their tools.
	Named []string
	// Listed says that they were given as a list, which is the whole choice:
	// the tools of others are offered nowhere, though they can be called.
	Listed bool
	// Failed are the names that were asked for and cannot be had, in the order
	// they were named. The hub runs without them and says so.
	Failed []ModuleFailure
}

// Module is a module without settings of its own.
type Module struct {
	Enabled bool
}

// FileModule is the module that works with files.
type FileModule struct {
	Enabled  bool     // never without Roots once loaded
	Roots    []string // the folders that it may use, absolute
	ReadOnly bool
}

// ModuleFailure is a module that was asked for and cannot be had.
type ModuleFailure struct {
	Name string // as it was asked for, a package's path left out
	From string // who asked: "stoa.yaml:12", "env AIUR_MODULES"
	Text string // what is wrong
	Hint string // what to do
}

// Attach says how `stoa stdio` finds its hub.
type Attach struct {
	Launch        bool          // start a hub where none runs
	Independent   bool          // a started hub outlives who started it
	StopOnExit    bool          // stop the started hub when leaving
	LaunchTimeout time.Duration // for a started hub to answer
}

// LogFile says whether and how the log is written to files too.
type LogFile struct {
	Enabled       bool
	Directory     string // absolute; empty: logs in the data folder
	RetentionDays int    // 0: kept for ever
	MaxSize       int    // bytes, after which another file is begun
}

// Cards says when results are stored and answered with a card instead.
type Cards struct {
	On        *bool // nil: as the face decides
	Threshold int   // bytes; results over it become cards. 0 in an Override: the server's
}

// Handling is how the arguments and results of one tool are treated. A nil
// switch leaves it to the face.
type Handling struct {
	References *bool // replace @name in arguments
	SaveAs     *bool // store results by a name that the caller gives
	Cards      *bool // store long results and answer with a card
	CardBytes  int   // results over it are long
	Task       TaskMode
}

// Handling returns how the tool, by the server's own name of it, is treated:
// its override first, then what the server says.
func (s *Server) Handling(tool string) Handling {
	h := Handling{s.References, s.SaveAs, s.Cards.On, s.Cards.Threshold, s.Task}
	o := s.Tools.Override[tool]
	if o.References != nil {
		h.References = o.References
	}
	if o.SaveAs != nil {
		h.SaveAs = o.SaveAs
	}
	if o.Cards.On != nil {
		h.Cards = o.Cards.On
	}
	if o.Cards.Threshold > 0 {
		h.CardBytes = o.Cards.Threshold
	}
	if o.Task != "" {
		h.Task = o.Task
	}
	if h.CardBytes == 0 {
		h.CardBytes = cardBytes
	}
	return h
}

// cardBytes is the length of a result from which on it is better stored.
const cardBytes = 16 << 10

func defaultSession() Session {
	return Session{
		Timeout:   time.Hour,
		MaxAge:    30 * 24 * time.Hour,
		MaxValues: 1000,
		MaxBytes:  256 << 20,
		History:   10,
		Max:       10_000,
	}
}

func defaultModules() Modules {
	on := Module{Enabled: true}
	return Modules{Context: on, Plan: on, Task: on, Debug: on}
}
