package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
)

// clientsEnd is how long the clients of the API server may take to end, before it ends too.
const clientsEnd = 4 * time.Second

// requestsEnd is how long the API server may take to answer what is under way. It would wait a minute for
// watches, which end when their clients want.
const requestsEnd = 2 * time.Second

// runControlPlane runs kube-apiserver, kube-controller-manager and kube-scheduler in one process, which
// has once what three would have each: code, types, garbage to collect. The parts still speak over
// TLS, each as whom it is. The arguments of a part follow its name. None of them goes on without
// the others.
func runControlPlane() int {
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := controlPlane(os.Args[1:]); err != nil {
		klog.ErrorS(err, "the control plane ends")
		return 1
	}
	return 0
}

func controlPlane(arguments []string) error {
	server, ready, clients, err := parseParts(arguments)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	serving := newGroup(server)
	acting := newGroup()
	for err == nil {
		select {
		case <-ready:
			ready = nil
			acting = newGroup(clients...)
			continue
		case err = <-serving.ended:
		case err = <-acting.ended:
		case <-signals:
		}
		break
	}
	// Another signal ends the process at once.
	signal.Stop(signals)
	// The clients end first, while what they still have to say is heard.
	acting.end(clientsEnd)
	serving.end(requestsEnd)
	return err
}

// A part is one of the programs that share the process.
type part struct {
	name string
	run  func(context.Context) error
}

// A group is parts that run at the same time and are meant to end together.
type group struct {
	stop context.CancelFunc
	// ended is told how each part ended.
	ended chan error
	// gone is closed when none is left.
	gone chan struct{}
}

func newGroup(parts ...part) *group {
	ctx, stop := context.WithCancel(context.Background())
	group := &group{stop, make(chan error, len(parts)), make(chan struct{})}
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			group.ended <- fmt.Errorf("%s ended: %v", part.name, part.run(ctx))
		})
	}
	go func() {
		running.Wait()
		close(group.gone)
	}()
	return group
}

// end stops the parts that still run and waits for them, no longer than a while.
func (g *group) end(patience time.Duration) {
	g.stop()
	select {
	case <-g.gone:
	case <-time.After(patience):
	}
}
