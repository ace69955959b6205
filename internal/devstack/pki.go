package devstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority is a certificate authority. That of a cluster signs the certificates of the API server and of users.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates the certificate authority of a cluster or another server.
func NewAuthority(name string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "drydock devstack " + name}, key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate authority of %s: %w", name, err)
	}
	return &Authority{cert: ca, key: key}, nil
}

// Server issues the certificate of a server on the loopback interface, which may also be a client.
func (a *Authority) Server() (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// User issues a client certificate with the name and groups of a user.
func (a *Authority) User(name string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, fmt.Errorf("choose a serial number: %w", err)
	}
	template.NotBefore = a.cert.NotBefore
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	signed, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("encode the key of %s: %w", template.Subject.CommonName, err)
	}
	return encodeCertificate(signed), keyPEM, nil
}

// PEM is the certificate of the authority.
func (a *Authority) PEM() []byte { return encodeCertificate(a.cert.Raw) }

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, nil
}

// The PKI files of a cluster.
const (
	caFile                = "ca.crt"
	serverCertFile        = "server.crt"
	serverKeyFile         = "server.key"
	serviceAccountKeyFile = "service-accounts.key"
)

// write writes the certificate authority, the API server's certificate, and the signing key of ServiceAccount tokens
// to dir.
func (a *Authority) write(dir string) error {
	serverCert, serverKey, err := a.Server()
	if err != nil {
		return err
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate the key of ServiceAccount tokens: %w", err)
	}
	files := map[string][]byte{
		caFile:                a.PEM(),
		serverCertFile:        serverCert,
		serverKeyFile:         serverKey,
		serviceAccountKeyFile: serviceAccountKey,
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
