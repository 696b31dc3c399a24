package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// bookmarks are sent as often as an API server sends them, for a collection that was written to.
const bookmarks = time.Minute

// A target is what a path of the API names.
type target struct {
	place
	subresource string
}

func parse(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	fixed := 2
	if parts[0] == "apis" {
		fixed = 3
	}
	if len(parts) <= fixed || (parts[0] != "api" && parts[0] != "apis") {
		return target{}, false
	}
	group, rest := strings.Join(parts[:fixed], "/"), parts[fixed:]
	found := target{}
	if rest[0] == "namespaces" && len(rest) > 2 {
		found.namespace, rest = rest[1], rest[2:]
	}
	found.collection = group + "/" + rest[0]
	if len(rest) > 1 {
		found.name = rest[1]
	}
	if len(rest) > 2 {
		found.subresource = rest[2]
	}
	return found, true
}

func (all *fleet) serve(answer http.ResponseWriter, request *http.Request) {
	at, ok := parse(request.PathValue("path"))
	if !ok {
		refuse(answer, 404, "NotFound", "the server could not find the requested resource")
		return
	}
	one := all.cluster(request.PathValue("cluster"))
	query := request.URL.Query()
	switch {
	case request.Method == http.MethodGet && at.name == "" && query.Get("watch") == "true":
		watches.Add(1)
		defer watches.Add(-1)
		one.watch(answer, request, at)
		return
	case request.Method == http.MethodGet && at.name == "":
		one.answerList(answer, request, at)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	named := at.collection[strings.LastIndex(at.collection, "/")+1:]
	if at.subresource != "" {
		named += "/" + at.subresource
	}
	all.count(request.Method + " " + named)
	one.mutex.Lock()
	defer one.mutex.Unlock()
	one.answerObject(answer, request, at, body)
}

func (one *cluster) answerList(answer http.ResponseWriter, request *http.Request, at target) {
	matches := selector(request, at)
	one.mutex.Lock()
	found, version := one.list(at.collection, matches), one.version
	one.mutex.Unlock()
	var items bytes.Buffer
	for number, each := range found {
		if number > 0 {
			items.WriteByte(',')
		}
		items.Write(form(request, each))
	}
	answer.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(answer, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		version, items.Bytes())
}

func (one *cluster) answerObject(answer http.ResponseWriter, request *http.Request, at target, body []byte) {
	given := object{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &given); err != nil {
			refuse(answer, 400, "BadRequest", err.Error())
			return
		}
	}
	if request.Method == http.MethodPost {
		if strings.HasSuffix(at.collection, "/selfsubjectaccessreviews") {
			given["status"] = object{"allowed": true}
			write(answer, given)
			return
		}
		at.name = text(given["metadata"].(object)["name"])
	}
	before := one.objects[at.place]
	apply := strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch")
	switch {
	case before == nil && request.Method != http.MethodPost && (!apply || at.subresource != ""):
		named := at.collection[strings.LastIndex(at.collection, "/")+1:]
		refuse(answer, 404, "NotFound", fmt.Sprintf("%s %q not found", named, at.name))
	case before != nil && request.Method == http.MethodPost:
		refuse(answer, 409, "AlreadyExists", at.name+" already exists")
	case request.Method == http.MethodGet:
		send(answer, before.whole)
	case request.Method == http.MethodDelete:
		one.remove(at.place)
		write(answer, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		send(answer, one.put(at.place, one.merged(before, given, at, apply)).whole)
	}
}

// merged returns an object with what a client wrote, with the fields that a server adds.
func (one *cluster) merged(before *stored, given object, at target, apply bool) object {
	old, metadata := object{}, object{}
	if before != nil {
		old = before.content
		metadata = maps.Clone(old["metadata"].(object))
	} else {
		identify(metadata, fmt.Sprintf("%p-%d", one, one.version))
	}
	if at.subresource == "status" {
		after := maps.Clone(old)
		after["status"] = given["status"]
		return after
	}
	written, _ := given["metadata"].(object)
	after := maps.Clone(given)
	if !apply && before != nil {
		after = patched(old, given)
		written, _ = after["metadata"].(object)
	} else if status, there := old["status"]; there {
		after["status"] = status
	}
	for _, kept := range []string{"uid", "creationTimestamp", "generation"} {
		written[kept] = metadata[kept]
	}
	written["managedFields"] = []any{object{
		"manager": "modelplane", "operation": "Apply", "apiVersion": after["apiVersion"],
		"fieldsType": "FieldsV1", "time": metadata["creationTimestamp"], "fieldsV1": fields(given),
	}}
	after["metadata"] = written
	return after
}

func patched(old, patch object) object {
	after := maps.Clone(old)
	for key, value := range patch {
		below, isObject := value.(object)
		there, wasObject := after[key].(object)
		switch {
		case value == nil:
			delete(after, key)
		case isObject && wasObject:
			after[key] = patched(there, below)
		default:
			after[key] = value
		}
	}
	return after
}

// fields returns the names of a manifest's fields as a server tells who manages them, so that answers are as long.
func fields(part any) object {
	named := object{}
	if below, ok := part.(object); ok {
		for key, value := range below {
			if key != "managedFields" {
				named["f:"+key] = fields(value)
			}
		}
	}
	return named
}

func (one *cluster) watch(answer http.ResponseWriter, request *http.Request, at target) {
	matches := selector(request, at)
	since, _ := strconv.Atoi(request.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(request.URL.Query().Get("timeoutSeconds"))
	flush := answer.(http.Flusher)
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(200)
	flush.Flush()
	over := false
	end := func() {
		one.mutex.Lock()
		over = true
		one.changed.Broadcast()
		one.mutex.Unlock()
	}
	timer := time.AfterFunc(time.Duration(max(seconds, 1))*time.Second, end)
	defer timer.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-request.Context().Done():
			end()
		case <-stop:
		}
	}()
	due := false
	tick := time.AfterFunc(bookmarks, func() {
		one.mutex.Lock()
		due = one.touched[at.collection]
		if due {
			one.changed.Broadcast()
		}
		one.mutex.Unlock()
	})
	defer tick.Stop()
	one.mutex.Lock()
	next := len(one.changes)
	for next > 0 && one.changes[next-1].of.version > since {
		next--
	}
	one.mutex.Unlock()
	for {
		var lines bytes.Buffer
		one.mutex.Lock()
		for next == len(one.changes) && !over && !due {
			one.changed.Wait()
		}
		for ; next < len(one.changes); next++ {
			happened := one.changes[next]
			if happened.of.collection == at.collection && matches(happened.of) {
				fmt.Fprintf(&lines, "{\"type\":%q,\"object\":%s}\n", happened.kind, form(request, happened.of))
			}
		}
		if due {
			due = false
			tick.Reset(bookmarks)
			fmt.Fprintf(&lines, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"%d\"}}}\n", one.version)
		}
		finished := over
		one.mutex.Unlock()
		if lines.Len() > 0 {
			if _, err := answer.Write(lines.Bytes()); err != nil {
				return
			}
			flush.Flush()
		}
		if finished {
			return
		}
	}
}

func selector(request *http.Request, at target) func(*stored) bool {
	query := request.URL.Query()
	labels, fieldsWanted := terms(query.Get("labelSelector")), terms(query.Get("fieldSelector"))
	return func(each *stored) bool {
		if at.namespace != "" && each.namespace != at.namespace {
			return false
		}
		has, _ := each.content["metadata"].(object)["labels"].(object)
		for key, wanted := range labels {
			if value, there := has[key]; !there || (wanted != nil && text(value) != *wanted) {
				return false
			}
		}
		for key, wanted := range fieldsWanted {
			if wanted != nil && (key == "metadata.name" && *wanted != each.name ||
				key == "metadata.namespace" && *wanted != each.namespace) {
				return false
			}
		}
		return true
	}
}

func terms(said string) map[string]*string {
	found := map[string]*string{}
	for _, each := range strings.Split(said, ",") {
		if key, value, has := strings.Cut(each, "="); has {
			found[key] = &value
		} else if key != "" {
			found[key] = nil
		}
	}
	return found
}

func form(request *http.Request, each *stored) []byte {
	if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return each.metadata
	}
	return each.whole
}

func send(answer http.ResponseWriter, content []byte) {
	answer.Header().Set("Content-Type", "application/json")
	_, _ = answer.Write(content)
}

func write(answer http.ResponseWriter, item object) {
	content, _ := json.Marshal(item)
	send(answer, content)
}

func refuse(answer http.ResponseWriter, code int, reason, message string) {
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(code)
	_ = json.NewEncoder(answer).Encode(object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
	})
}
