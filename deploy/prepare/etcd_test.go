package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"drydock.dev/drydock/internal/devstack"
)

// certificates of an etcd, as files.
type certificates struct{ ca, certificate, key string }

// newCertificates are those of an etcd at an address. Its peers use the same to connect to it, as on OpenShift.
func newCertificates(t *testing.T, address string) certificates {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "etcd-signer"}, caKey)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "etcd-peer"}, NotBefore: ca.NotBefore, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.ParseIP(address)},
	}, ca, key.Public(), caKey)
	require.NoError(t, err)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	encode := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}))
	}
	return certificates{ca: encode(ca.Raw), certificate: encode(signed), key: string(keyPEM)}
}

// etcdServer is the etcd of a node.
type etcdServer struct {
	address string
	files   certificates
	process *exec.Cmd
}

// startEtcd starts an etcd with client certificates at an address, and the port that each node has.
func startEtcd(t *testing.T, address string) *etcdServer {
	t.Helper()
	path, err := devstack.ProgramPath(t.Context(), os.Stderr, "etcd")
	require.NoError(t, err)
	e := &etcdServer{address: address, files: newCertificates(t, address)}
	directory := t.TempDir()
	for name, text := range map[string]string{"ca": e.files.ca, "crt": e.files.certificate, "key": e.files.key} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
	}
	client, peer := "https://"+address+":2379", "http://"+address+":2380"
	e.process = exec.Command(path, "--name=node-1", "--data-dir="+filepath.Join(directory, "data"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=node-1="+peer, "--client-cert-auth", "--trusted-ca-file="+filepath.Join(directory, "ca"),
		"--cert-file="+filepath.Join(directory, "crt"), "--key-file="+filepath.Join(directory, "key"))
	require.NoError(t, e.process.Start())
	t.Cleanup(e.stop)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		kv, err := e.client(t)
		if assert.NoError(c, err) {
			defer kv.Close()
			_, err = kv.Put(t.Context(), "/registry/proof", "the content of etcd")
			assert.NoError(c, err)
		}
	}, time.Minute, 50*time.Millisecond)
	return e
}

func (e *etcdServer) stop() {
	e.process.Process.Kill()
	e.process.Wait()
}

func (e *etcdServer) client(t *testing.T) (*clientv3.Client, error) {
	pair, err := tls.X509KeyPair([]byte(e.files.certificate), []byte(e.files.key))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(e.files.ca)))
	return clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + e.address + ":2379"}, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, Logger: zap.NewNop(),
	})
}

// stallingProxy forwards connections to an etcd, and stops to answer each after a number of bytes, until it is released. It returns its address
// and port.
func stallingProxy(t *testing.T, address string, limit int64) (endpoint string, release func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address+":0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	released := make(chan struct{})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address+":2379")
			if err != nil {
				client.Close()
				return
			}
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			go func() {
				io.CopyN(client, server, limit)
				<-released
				io.Copy(client, server)
			}()
		}
	}()
	return listener.Addr().String(), sync.OnceFunc(func() { close(released) })
}
