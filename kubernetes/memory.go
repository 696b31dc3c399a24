package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"
)

const (
	lookEvery = 5 * time.Second
	// quietBytes is the most that a server allocates in lookEvery while nobody asks it for anything.
	quietBytes = 2 << 20
	// worthBytes is how much must have been allocated since the last time, so that a collection pays.
	worthBytes = 16 << 20
	// startBytes is what the heap of a control plane counts for more than it is, while it starts.
	startBytes = 128 << 20
	// startIsOver is the signal that the start has ended. Programs that do not know it ignore it.
	startIsOver = syscall.SIGWINCH
)

// giveBackMemory returns to the operating system what a server does not use: a start needs much more code
// and heap than what follows. Only a server that is quiet, or whose start is over, collects its garbage for
// that, so that none is slower while it is busy.
//
// What may be allocated before the next collection is a share of the heap. Until then the heap is larger by
// bytes that nobody writes, which take no memory, so a start has fewer collections.
func giveBackMemory(bytes int) {
	over := make(chan os.Signal, 1)
	signal.Notify(over, startIsOver)
	ballast := make([]byte, bytes)
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var last, collected uint64
	look := time.NewTicker(lookEvery)
	for {
		started := false
		select {
		case <-over:
			started = true
			look.Reset(lookEvery)
		case <-look.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if started || now-last < quietBytes && now-collected > worthBytes {
			ballast = nil
			debug.FreeOSMemory()
			collected = now
		}
		runtime.KeepAlive(ballast)
		giveBackCode()
		last = now
	}
}

// giveBackCode lets go of the pages of the program's own file. Those in use come back from the page cache.
func giveBackCode() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var start, end uintptr
		var access string
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &access); err != nil {
			continue
		}
		// What can be written may have been, and would be lost.
		if strings.HasSuffix(line, " "+program) && !strings.Contains(access, "w") {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
