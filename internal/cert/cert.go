// Package cert owns certificates that are kept in files: those we show, and
// those we trust.
//
// It promises that a file that was replaced is used from the next handshake on,
// at the price of asking the system once per handshake whether it was; and that
// a file which cannot be read, such as one that is being written, leaves what
// was read before in use. It makes no certificates and watches nothing.
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// file remembers what a file was when it was read.
type file struct {
	path  string
	size  int64
	mtime time.Time
}

// changed reports whether the file is another now, and takes note of it.
func (f *file) changed() (bool, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return false, err
	}
	if info.Size() == f.size && info.ModTime().Equal(f.mtime) {
		return false, nil
	}
	f.size, f.mtime = info.Size(), info.ModTime()
	return true, nil
}

// Pair is a certificate with its key. It may be used concurrently.
type Pair struct {
	mu        sync.Mutex
	cert, key file
	pair      *tls.Certificate
	failed    error // why the files that are there now are not in use
}

// NewPair returns the pair in two PEM files. Nothing is read before Get.
func NewPair(certFile, keyFile string) *Pair {
	return &Pair{cert: file{path: certFile}, key: file{path: keyFile}}
}

// Get returns the certificate as the files have it now, or as they had it when
// they could be read last.
func (p *Pair) Get() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newCert, err1 := p.cert.changed()
	newKey, err2 := p.key.changed()
	if err := errors.Join(err1, err2); err != nil {
		p.failed = err
	} else if newCert || newKey {
		var pair tls.Certificate
		if pair, p.failed = tls.LoadX509KeyPair(p.cert.path, p.key.path); p.failed == nil {
			p.pair = &pair
		}
	}
	if p.pair == nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", p.cert.path, p.key.path, p.failed)
	}
	return p.pair, nil
}

// Server returns how to listen with the pair.
func (p *Pair) Server() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.Get() },
	}
}

// Trust says how a server is spoken to over TLS. The zero value is the usual.
type Trust struct {
	CA        string // PEM file of the authorities to trust instead of the system's
	Cert, Key string // PEM files of the certificate to show
	Insecure  bool   // trust anybody
}

// Client returns how to speak to host; nil if there is nothing unusual in it.
// Files are read when they are needed, so that what is wrong with them is told
// by the handshake, and may be mended.
func (t Trust) Client(host string) *tls.Config {
	if t == (Trust{}) {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.Cert != "" {
		pair := NewPair(t.Cert, t.Key)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get() }
	}
	switch {
	case t.Insecure:
		c.InsecureSkipVerify = true
	case t.CA != "":
		// The library takes the authorities before the handshake, when they
		// cannot be read anew; so its check is replaced by the same one.
		pool := &pool{file: file{path: t.CA}}
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(cs tls.ConnectionState) error { return pool.verify(cs, host) }
	}
	return c
}

// Check reads the files, for those who want to know at once what is wrong with
// them.
func (t Trust) Check() error {
	if t.CA != "" {
		if _, err := (&pool{file: file{path: t.CA}}).get(); err != nil {
			return err
		}
	}
	if t.Cert != "" {
		if _, err := NewPair(t.Cert, t.Key).Get(); err != nil {
			return err
		}
	}
	return nil
}

// pool is the authorities of a file.
type pool struct {
	mu     sync.Mutex
	file   file
	roots  *x509.CertPool
	failed error
}

func (p *pool) get() (*x509.CertPool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh, err := p.file.changed()
	if err != nil {
		p.failed = err
	} else if fresh {
		p.read()
	}
	if p.roots == nil {
		return nil, fmt.Errorf("read the authorities in %s: %w", p.file.path, p.failed)
	}
	return p.roots, nil
}

func (p *pool) read() {
	text, err := os.ReadFile(p.file.path)
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(text) {
		err = errors.New("there is no certificate in it")
	}
	if p.failed = err; err == nil {
		p.roots = roots
	}
}

func (p *pool) verify(cs tls.ConnectionState, host string) error {
	roots, err := p.get()
	if err != nil {
		return err
	}
	if cs.ServerName != "" {
		host = cs.ServerName // of a proxy, maybe
	}
	opts := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err = cs.PeerCertificates[0].Verify(opts)
	return err
}

// Pinned returns how to speak to the server that shows the certificate in a
// PEM file, and to nobody else.
func Pinned(certFile string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // the certificate itself is compared
		VerifyConnection: func(cs tls.ConnectionState) error {
			want, err := leaf(certFile)
			if err != nil {
				return err
			}
			if !cs.PeerCertificates[0].Equal(want) {
				return fmt.Errorf("the server shows another certificate than that in %s", certFile)
			}
			return nil
		},
	}
}

// leaf returns the first certificate of a PEM file.
func leaf(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the server: %w", err)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("read the certificate of the server: there is none in %s", path)
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}
