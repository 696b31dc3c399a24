package main

import (
	"errors"
	"fmt"
	"sync"
	_ "unsafe" // go:linkname

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // defines newETCD3Client
)

// newETCD3Client is how the API server makes a client of etcd, once for each of its seventy resources.
//
//go:linkname newETCD3Client k8s.io/apiserver/pkg/storage/storagebackend/factory.newETCD3Client
var newETCD3Client func(storagebackend.TransportConfig) (*kubernetes.Client, error)

// shareEtcdConnection makes these clients use one connection, because each one costs a hundred
// kilobytes here and as much in etcd. Each keeps its own stream of watches, and may be closed without
// the others. Such a client knows no endpoints, so that none compacts: etcd has to do that itself.
func shareEtcdConnection() error {
	connect := newETCD3Client
	if connect == nil {
		return errors.New("this Kubernetes has no newETCD3Client")
	}
	var lock sync.Mutex
	connections := map[string]*clientv3.Client{}
	newETCD3Client = func(to storagebackend.TransportConfig) (*kubernetes.Client, error) {
		lock.Lock()
		defer lock.Unlock()
		key := fmt.Sprintf("%q", [][]string{to.ServerList, {to.CertFile, to.KeyFile, to.TrustedCAFile}})
		connection, ok := connections[key]
		if !ok {
			client, err := connect(to)
			if err != nil {
				return nil, err
			}
			connection = client.Client
			connections[key] = connection
		}
		client := clientv3.NewCtxClient(connection.Ctx())
		client.KV = clientv3.NewKV(connection)
		client.Lease = clientv3.NewLease(connection)
		client.Watcher = clientv3.NewWatcher(connection)
		client.Maintenance = clientv3.NewMaintenance(connection)
		shared := &kubernetes.Client{Client: client}
		shared.Kubernetes = shared
		return shared, nil
	}
	return nil
}
