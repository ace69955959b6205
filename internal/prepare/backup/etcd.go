package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
)

// Etcd is how the etcd of the node is reached. Empty fields are found on the node.
type Etcd struct {
	Endpoint string
	// CA, Certificate and Key are files in this container.
	CA, Certificate, Key string
}

// etcdTimeout limits the first answer of etcd, which may be restarting. etcdInterval is the time between two questions.
const (
	etcdTimeout  = 15 * time.Second
	etcdInterval = time.Second
)

// etcdMember is the etcd of the node.
type etcdMember struct {
	client *clientv3.Client
	config clientv3.Config
	// size of its database in bytes.
	size int64
}

func (m *etcdMember) Close() error { return m.client.Close() }

// connectEtcd connects to the etcd of the node.
func connectEtcd(ctx context.Context, settings Settings) (*etcdMember, error) {
	reached, err := settings.findEtcd()
	if err != nil {
		return nil, err
	}
	secured, err := reached.tls()
	if err != nil {
		return nil, fmt.Errorf("certificates of etcd: %w", err)
	}
	m := &etcdMember{config: clientv3.Config{Endpoints: []string{reached.Endpoint}, TLS: secured, Logger: zap.NewNop()}}
	if m.client, err = clientv3.New(m.config); err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", reached.Endpoint, err)
	}
	if m.size, err = m.databaseSize(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd at %s: %w", reached.Endpoint, err), m.Close())
	}
	return m, nil
}

func (m *etcdMember) databaseSize(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if err := m.awaitConnection(ctx); err != nil {
		return 0, err
	}
	status, err := m.client.Status(ctx, m.config.Endpoints[0])
	if err != nil {
		return 0, err
	}
	return status.DbSize, nil
}

// awaitConnection connects and disconnects: the client would report only a deadline, and not what is wrong.
func (m *etcdMember) awaitConnection(ctx context.Context) error {
	endpoint, err := url.Parse(m.config.Endpoints[0])
	if err != nil {
		return err
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if m.config.TLS != nil {
		dialer = &tls.Dialer{Config: m.config.TLS}
	}
	for {
		connection, err := dialer.DialContext(ctx, "tcp", endpoint.Host)
		if err == nil {
			return connection.Close()
		}
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(etcdInterval):
		}
	}
}

func (e Etcd) tls() (*tls.Config, error) {
	if !strings.HasPrefix(e.Endpoint, "https://") {
		return nil, nil
	}
	return transport.TLSInfo{TrustedCAFile: e.CA, CertFile: e.Certificate, KeyFile: e.Key}.ClientConfig()
}

// findEtcd completes the settings with what is on the node.
func (s Settings) findEtcd() (Etcd, error) {
	found := s.Etcd
	if found.Endpoint == "" {
		if s.NodeIP == "" {
			return Etcd{}, fmt.Errorf("the address of etcd is not known: the environment has neither NODE_IP nor ETCDCTL_ENDPOINTS")
		}
		found.Endpoint = "https://" + net.JoinHostPort(s.NodeIP, "2379")
	}
	switch {
	case !strings.HasPrefix(found.Endpoint, "https://") || found.CA != "" && found.Certificate != "" && found.Key != "":
		return found, nil
	case found.CA != "" || found.Certificate != "" || found.Key != "":
		return Etcd{}, fmt.Errorf("the environment has some of ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY; set all or none")
	}
	var looked []string
	for _, on := range s.certificates() {
		ca, certificate, key := s.Host.Path(on.CA), s.Host.Path(on.Certificate), s.Host.Path(on.Key)
		if readable(ca) && readable(certificate) && readable(key) {
			return Etcd{Endpoint: found.Endpoint, CA: ca, Certificate: certificate, Key: key}, nil
		}
		looked = append(looked, on.Certificate)
	}
	return Etcd{}, fmt.Errorf("node %s has no certificates of etcd (%s): only a control-plane node that runs etcd can be backed up", s.NodeName, strings.Join(looked, ", "))
}

// certificates are the files of the node with which its API server, or its etcd pod, connects to etcd: those of OpenShift and of kubeadm.
func (s Settings) certificates() []Etcd {
	const openshift = "/etc/kubernetes/static-pod-resources/etcd-certs"
	const kubeadm = "/etc/kubernetes/pki/etcd"
	peer := openshift + "/secrets/etcd-all-certs/etcd-peer-" + s.NodeName
	return []Etcd{
		{CA: openshift + "/configmaps/etcd-all-bundles/server-ca-bundle.crt", Certificate: peer + ".crt", Key: peer + ".key"},
		// Before OpenShift 4.17.
		{CA: openshift + "/configmaps/etcd-serving-ca/ca-bundle.crt", Certificate: peer + ".crt", Key: peer + ".key"},
		{CA: kubeadm + "/ca.crt", Certificate: kubeadm + "/server.crt", Key: kubeadm + "/server.key"},
	}
}

func readable(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// save writes a snapshot to disk, and checks it against the checksum that etcd appends.
func (m *etcdMember) save(ctx context.Context, path string) error {
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), m.config, path); err != nil {
		return fmt.Errorf("snapshot of etcd: %w", err)
	}
	return verifySnapshot(path)
}

// verifySnapshot compares the checksum at the end of a snapshot with its content.
func verifySnapshot(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, file, info.Size()-sha256.Size); err != nil {
		return err
	}
	appended, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(hash.Sum(nil), appended) {
		return fmt.Errorf("snapshot of etcd: its checksum is wrong; it was damaged on the way or on the disk")
	}
	return nil
}

func checksum(path string) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	hash := sha256.New()
	if size, err = io.Copy(hash, file); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}
