#!/usr/bin/env bash
# Go with C code: the C side allocates, the Go side collects garbage and preempts its threads by signals.
export HOME=$PWD GOPATH=$PWD/go GOCACHE=${GOCACHE:-$TARGET/go-cache} GOFLAGS=-mod=mod CGO_ENABLED=1 GO111MODULE=off
cat > mixed.go <<'GO'
package main

/*
#include <stdlib.h>
#include <string.h>
static long fill(size_t n, int seed) {
    unsigned char *p = malloc(n);
    memset(p, seed, n);
    long sum = 0;
    for (size_t i = 0; i < n; i += 61) sum += p[i];
    free(p);
    return sum;
}
*/
import "C"
import "fmt"

func work(seed int, out chan int64) {
	var sum int64
	kept := make(map[int][]byte)
	for i := 0; i < 3000; i++ {
		sum += int64(C.fill(C.size_t(4096+i*37), C.int(seed+i%50)))
		kept[i%100] = make([]byte, 20000+i)
		sum += int64(len(kept[(i*7)%100]))
	}
	out <- sum
}

func main() {
	out := make(chan int64)
	var sum int64
	for seed := 0; seed < 8; seed++ {
		go work(seed, out)
	}
	for seed := 0; seed < 8; seed++ {
		sum += <-out
	}
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var nothing *int
		fmt.Println(*nothing)
	}()
	fmt.Println(sum)
}
GO
[ -x "$TARGET/mixed-go" ] || go build -o "$TARGET/mixed-go" mixed.go
"$TARGET/mixed-go"
