package storetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Secure is a server that wants TLS and credentials.
type Secure struct {
	URL         string
	CA          string // the PEM file of who signed its certificate
	Credentials string // the file that lets in
}

// StartSecure starts such a server in this process; it ends with the test.
func StartSecure(t testing.TB) *Secure {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair, authority := certificate(t)
	s := &Secure{CA: filepath.Join(dir, "ca.pem"), Credentials: filepath.Join(dir, "user.creds")}
	must(os.WriteFile(s.CA, authority, 0o600))
	operator, err := nkeys.CreateOperator()
	must(err)
	account, err := nkeys.CreateAccount()
	must(err)
	system, err := nkeys.CreateAccount() // without one the server does not start
	must(err)
	user, err := nkeys.CreateUser()
	must(err)
	public := func(k nkeys.KeyPair) string {
		name, err := k.PublicKey()
		must(err)
		return name
	}
	claims := jwt.NewAccountClaims(public(account))
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	accountToken, err := claims.Encode(operator)
	must(err)
	userToken, err := jwt.NewUserClaims(public(user)).Encode(account)
	must(err)
	seed, err := user.Seed()
	must(err)
	creds, err := jwt.FormatUserConfig(userToken, seed)
	must(err)
	must(os.WriteFile(s.Credentials, creds, 0o600))
	resolver := &server.MemAccResolver{}
	must(resolver.Store(public(account), accountToken))
	systemToken, err := jwt.NewAccountClaims(public(system)).Encode(operator)
	must(err)
	must(resolver.Store(public(system), systemToken))
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(dir, "js"), NoSigs: true, NoLog: true,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		TrustedKeys: []string{public(operator)}, AccountResolver: resolver, SystemAccount: public(system),
	})
	must(err)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not listen")
	}
	s.URL = "tls://" + srv.Addr().String()
	return s
}

// certificate makes one for loopback that has signed itself.
func certificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
