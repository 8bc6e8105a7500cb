// SPDX-License-Identifier: GPL-2.0-or-later
// bench-opa REGO DATA.json INPUTS.jsonl SECONDS: "ALLOWED OF NS" on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/open-policy-agent/opa/rego"
	"github.com/open-policy-agent/opa/storage/inmem"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// CPU time of the process, so that other work on the machine does not count.
func now() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	ctx := context.Background()
	module, err := os.ReadFile(os.Args[1])
	must(err)
	raw, err := os.ReadFile(os.Args[2])
	must(err)
	var data map[string]interface{}
	must(json.Unmarshal(raw, &data))
	query, err := rego.New(rego.Query("data.bench.allow"), rego.Module("bench.rego", string(module)),
		rego.Store(inmem.NewFromObject(data))).PrepareForEval(ctx)
	must(err)
	f, err := os.Open(os.Args[3])
	must(err)
	var inputs []interface{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var v interface{}
		must(json.Unmarshal(lines.Bytes(), &v))
		inputs = append(inputs, v)
	}
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	must(err)
	n, allowed := 0, 0
	start := now()
	for n < len(inputs) || (now()-start).Seconds() < seconds {
		rs, err := query.Eval(ctx, rego.EvalInput(inputs[n%len(inputs)]))
		must(err)
		if n < len(inputs) && rs[0].Expressions[0].Value == true {
			allowed++
		}
		n++
	}
	fmt.Printf("%d %d %.0f\n", allowed, len(inputs), float64((now()-start).Nanoseconds())/float64(n))
}
