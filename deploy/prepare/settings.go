package main

import (
	"fmt"
	"os"
	"strconv"

	"drydock.dev/drydock/internal/precache/contract"
	"drydock.dev/drydock/internal/prepare/backup"
	"drydock.dev/drydock/internal/prepare/cri"
	"drydock.dev/drydock/internal/prepare/host"
	"drydock.dev/drydock/internal/prepare/pull"
)

// Environment variables that the image of a Job may set. The first has the name that crictl uses, and the second that of TALM.
const (
	runtimeEndpoint = "CONTAINER_RUNTIME_ENDPOINT"
	maxPullThreads  = "MAX_PULL_THREADS"
	pullAttempts    = "PULL_ATTEMPTS"
	pullSecret      = "PULL_SECRET"
	hostDirectory   = "HOST_DIRECTORY"
)

// Environment variables of etcdctl.
const (
	etcdEndpoint    = "ETCDCTL_ENDPOINTS"
	etcdCA          = "ETCDCTL_CACERT"
	etcdCertificate = "ETCDCTL_CERT"
	etcdKey         = "ETCDCTL_KEY"
)

func precacheSettings() (pull.Settings, error) {
	parallel, err := positive(maxPullThreads, 10)
	if err != nil {
		return pull.Settings{}, err
	}
	attempts, err := positive(pullAttempts, 10)
	if err != nil {
		return pull.Settings{}, err
	}
	podName, err := os.Hostname()
	if err != nil {
		return pull.Settings{}, err
	}
	return pull.Settings{
		Host:            hostRoot(),
		ConfigDirectory: contract.ConfigDirectory,
		Endpoint:        os.Getenv(runtimeEndpoint),
		PullSecret:      variable(pullSecret, "/var/lib/kubelet/config.json"),
		Pod:             cri.Pod{UID: os.Getenv(contract.PodUID), Name: podName},
		Parallel:        parallel,
		Attempts:        attempts,
	}, nil
}

func backupSettings() backup.Settings {
	return backup.Settings{
		Host:     hostRoot(),
		NodeName: os.Getenv(contract.NodeName),
		NodeIP:   os.Getenv(contract.NodeIP),
		Etcd: backup.Etcd{
			Endpoint: os.Getenv(etcdEndpoint), CA: os.Getenv(etcdCA), Certificate: os.Getenv(etcdCertificate), Key: os.Getenv(etcdKey),
		},
	}
}

func hostRoot() host.Root { return host.Root(variable(hostDirectory, contract.HostDirectory)) }

func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func positive(name string, otherwise int) (int, error) {
	value, err := strconv.Atoi(variable(name, strconv.Itoa(otherwise)))
	if err != nil || value < 1 {
		return 0, fmt.Errorf("environment variable %s is %q, but a whole number above 0 is expected", name, os.Getenv(name))
	}
	return value, nil
}
