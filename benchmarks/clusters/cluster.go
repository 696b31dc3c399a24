package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type object = map[string]any

// A place is an object's collection, such as apis/apps/v1/deployments, with its namespace and name.
type place struct{ collection, namespace, name string }

// A stored object in the two forms in which clients ask for it, encoded once.
type stored struct {
	place
	version         int
	content         object
	whole, metadata []byte
}

type change struct {
	kind string
	of   *stored
}

// A cluster is the objects of one API server, and its changes so far, which watches continue from.
type cluster struct {
	mutex   sync.Mutex
	version int
	objects map[place]*stored
	changes []change
	changed *sync.Cond
	touched map[string]bool
}

// firstVersion is that of the objects that every cluster has.
const firstVersion = 1

type fleet struct {
	seeds    []*stored
	mutex    sync.Mutex
	clusters map[string]*cluster
	requests map[string]int
}

func newFleet(seed string) (*fleet, error) {
	made := &fleet{clusters: map[string]*cluster{}, requests: map[string]int{}}
	content, err := os.ReadFile(seed)
	if err != nil {
		return nil, err
	}
	given := map[string][]object{}
	if err := json.Unmarshal(content, &given); err != nil {
		return nil, fmt.Errorf("%s: %w", seed, err)
	}
	for collection, items := range given {
		for _, item := range items {
			metadata := item["metadata"].(object)
			at := place{collection, text(metadata["namespace"]), text(metadata["name"])}
			identify(metadata, fmt.Sprintf("seed-%s-%s", at.namespace, at.name))
			made.seeds = append(made.seeds, encoded(at, item, firstVersion))
		}
	}
	return made, nil
}

func (all *fleet) cluster(name string) *cluster {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	found := all.clusters[name]
	if found == nil {
		found = &cluster{version: firstVersion, objects: map[place]*stored{}, touched: map[string]bool{}}
		found.changed = sync.NewCond(&found.mutex)
		for _, each := range all.seeds {
			found.objects[each.place] = each
		}
		all.clusters[name] = found
	}
	return found
}

func (all *fleet) count(request string) {
	all.mutex.Lock()
	all.requests[request]++
	all.mutex.Unlock()
}

func (all *fleet) stats() object {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	objects := map[string]int{}
	for _, each := range all.clusters {
		each.mutex.Lock()
		for at := range each.objects {
			objects[at.collection]++
		}
		each.mutex.Unlock()
	}
	return object{
		"clusters":    len(all.clusters),
		"connections": connections.Load(),
		"watches":     watches.Load(),
		"objects":     objects,
		"requests":    maps.Clone(all.requests),
	}
}

// list returns the objects of a collection that match, in order of namespace and name.
func (one *cluster) list(collection string, matches func(*stored) bool) []*stored {
	var found []*stored
	for at, each := range one.objects {
		if at.collection == collection && matches(each) {
			found = append(found, each)
		}
	}
	slices.SortFunc(found, func(a, b *stored) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	return found
}

// put stores an object, unless it is the same as before, and returns what is stored.
func (one *cluster) put(at place, item object) *stored {
	before, kind := one.objects[at], "ADDED"
	if before != nil {
		if same(before.content, item) {
			return before
		}
		kind = "MODIFIED"
	}
	one.version++
	after := encoded(at, item, one.version)
	one.objects[at] = after
	one.record(change{kind, after})
	return after
}

func (one *cluster) remove(at place) {
	before := one.objects[at]
	delete(one.objects, at)
	one.version++
	one.record(change{"DELETED", encoded(at, before.content, one.version)})
}

func (one *cluster) record(happened change) {
	one.touched[happened.of.collection] = true
	one.changes = append(one.changes, happened)
	one.changed.Broadcast()
}

func encoded(at place, item object, version int) *stored {
	copied := maps.Clone(item)
	metadata := maps.Clone(item["metadata"].(object))
	metadata["resourceVersion"] = strconv.Itoa(version)
	copied["metadata"] = metadata
	whole, _ := json.Marshal(copied)
	partial, _ := json.Marshal(object{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata,
	})
	return &stored{at, version, copied, whole, partial}
}

func same(before, after object) bool {
	a, _ := json.Marshal(comparable(before))
	b, _ := json.Marshal(comparable(after))
	return string(a) == string(b)
}

func comparable(item object) object {
	copied, metadata := maps.Clone(item), maps.Clone(item["metadata"].(object))
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	copied["metadata"] = metadata
	return copied
}

func identify(metadata object, uid string) {
	metadata["uid"] = uid
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	metadata["generation"] = 1
}

func text(value any) string {
	said, _ := value.(string)
	return said
}
