// Command fake-slack serves a Slack for tests and the demo, on loopback: package slackfake, as a process of its own, with as many messages
// in a second as the tests need. Slack takes fewer.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

func main() {
	address := flag.String("address", "127.0.0.1:9100", "address to listen on")
	flag.Parse()
	s := http.Server{Addr: *address, Handler: &slackfake.Server{URL: "http://" + *address, PerSecond: 5, Burst: 10}, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "fake-slack:", s.ListenAndServe())
	os.Exit(1)
}
