// Command clusters answers as the API servers of many inference clusters, from memory.
//
// Each cluster is a path, /clusters/NAME, and has objects of its own, besides those of the file -seed, which
// every cluster has. It stores what is applied, and answers lists and watches with label and field selectors;
// it validates nothing and runs no pod. The path /stats has the numbers of clusters, watches, connections,
// objects and requests.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

var connections, watches atomic.Int64

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "file of the certificate")
	key := flag.String("key", "", "file of its key")
	seed := flag.String("seed", "", "JSON file: the objects that each cluster has, by collection")
	flag.Parse()

	fleet, err := newFleet(*seed)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(fleet.stats())
	})
	mux.HandleFunc("/clusters/{cluster}/{path...}", fleet.serve)
	server := &http.Server{
		Addr:      *address,
		Handler:   mux,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 250, MaxReadFrameSize: 1 << 14},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed, http.StateHijacked:
				connections.Add(-1)
			}
		},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(os.Stderr, "", 0),
		BaseContext:       func(net.Listener) context.Context { return context.Background() },
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}
