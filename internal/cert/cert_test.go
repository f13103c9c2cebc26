package cert_test

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/hubtest"
)

// handshake lets the two configs meet and returns what the client and the
// server say of it.
func handshake(t *testing.T, server, client *tls.Config) (cs tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		far, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer far.Close()
		far.SetDeadline(time.Now().Add(30 * time.Second))
		s := tls.Server(far, server)
		if err = s.Handshake(); err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near.SetDeadline(time.Now().Add(30 * time.Second))
	c := tls.Client(near, client)
	clientErr = c.Handshake()
	if clientErr == nil {
		_, clientErr = io.ReadFull(c, make([]byte, 1)) // a refused client certificate shows here
	}
	cs = c.ConnectionState()
	near.Close()
	return cs, clientErr, <-done
}

// later makes a file look newer than the system's clock can tell.
func later(t *testing.T, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(by)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func name(c *tls.Config, host string) *tls.Config {
	c.ServerName = host
	return c
}

func TestFilesAreReadAgain(t *testing.T) {
	a, dir := hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	if _, err := cert.NewPair(certFile, keyFile).Get(); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("files that are not there: %v", err)
	}
	a.Issue(certFile, keyFile, "one.test")
	server := cert.NewPair(certFile, keyFile).Server()
	client := func(host string) *tls.Config { return name(cert.Trust{CA: a.File}.Client(host), host) }
	if _, err, _ := handshake(t, server, client("one.test")); err != nil {
		t.Fatal(err)
	}
	if _, err, _ := handshake(t, server, client("two.test")); err == nil {
		t.Error("a certificate for another name was taken")
	}
	a.Issue(certFile, keyFile, "two.test")
	later(t, certFile, time.Minute)
	if _, err, _ := handshake(t, server, client("two.test")); err != nil {
		t.Errorf("after the files changed: %v", err)
	}
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err, _ := handshake(t, server, client("two.test")); err != nil {
		t.Errorf("while the files are broken: %v", err)
	}
	os.Remove(certFile)
	if _, err, _ := handshake(t, server, client("two.test")); err != nil {
		t.Errorf("while the files are gone: %v", err)
	}
	a.Issue(certFile, keyFile, "one.test")
	later(t, certFile, 2*time.Minute)
	if _, err, _ := handshake(t, server, client("one.test")); err != nil {
		t.Errorf("after they were mended: %v", err)
	}
}

func TestTrust(t *testing.T) {
	a, other, dir := hubtest.NewAuthority(t), hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	a.Issue(certFile, keyFile, "127.0.0.1")
	server := cert.NewPair(certFile, keyFile).Server()
	if (cert.Trust{}).Client("h") != nil {
		t.Error("nothing unusual has a config")
	}
	for _, tc := range []struct {
		what  string
		trust cert.Trust
		host  string
		ok    bool
	}{
		{"the authority", cert.Trust{CA: a.File}, "127.0.0.1", true},
		{"the authority, another address", cert.Trust{CA: a.File}, "127.0.0.2", false},
		{"another authority", cert.Trust{CA: other.File}, "127.0.0.1", false},
		{"anybody", cert.Trust{Insecure: true}, "127.0.0.1", true},
		{"a file that is not there", cert.Trust{CA: filepath.Join(dir, "none")}, "127.0.0.1", false},
		{"a file that is no certificate", cert.Trust{CA: keyFile}, "127.0.0.1", false},
	} {
		if _, err, _ := handshake(t, server, name(tc.trust.Client(tc.host), tc.host)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	// The authorities are read again, too.
	moving := filepath.Join(dir, "ca.pem")
	copyFile(t, other.File, moving)
	client := name(cert.Trust{CA: moving}.Client("127.0.0.1"), "127.0.0.1")
	if _, err, _ := handshake(t, server, client); err == nil {
		t.Error("the wrong authority was trusted")
	}
	copyFile(t, a.File, moving)
	later(t, moving, time.Minute)
	if _, err, _ := handshake(t, server, client); err != nil {
		t.Errorf("after the authorities changed: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientCertificate(t *testing.T) {
	a, dir := hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	a.Issue(certFile, keyFile, "localhost")
	server := cert.NewPair(certFile, keyFile).Server()
	server.ClientAuth = tls.RequireAnyClientCert
	with := cert.Trust{CA: a.File, Cert: certFile, Key: keyFile}
	if _, err, serr := handshake(t, server, name(with.Client("localhost"), "localhost")); err != nil || serr != nil {
		t.Errorf("with a certificate: %v, %v", err, serr)
	}
	if _, _, serr := handshake(t, server, name(cert.Trust{CA: a.File}.Client("localhost"), "localhost")); serr == nil {
		t.Error("the server let in a client without a certificate")
	}
	gone := cert.Trust{CA: a.File, Cert: certFile + "x", Key: keyFile}
	if _, err, _ := handshake(t, server, name(gone.Client("localhost"), "localhost")); err == nil || !strings.Contains(err.Error(), certFile+"x") {
		t.Errorf("with a certificate that is not there: %v", err)
	}
}

func TestPinned(t *testing.T) {
	a, dir := hubtest.NewAuthority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	a.Issue(certFile, keyFile, "hub.test")
	server := cert.NewPair(certFile, keyFile).Server()
	if _, err, _ := handshake(t, server, name(cert.Pinned(certFile), "127.0.0.1")); err != nil {
		t.Errorf("the pinned certificate: %v", err)
	}
	otherCert, otherKey := filepath.Join(dir, "oc.pem"), filepath.Join(dir, "ok.pem")
	a.Issue(otherCert, otherKey, "hub.test")
	for _, pin := range []string{otherCert, keyFile, filepath.Join(dir, "none")} {
		if _, err, _ := handshake(t, server, name(cert.Pinned(pin), "hub.test")); err == nil {
			t.Errorf("pinned to %s, another certificate was taken", filepath.Base(pin))
		}
	}
}
