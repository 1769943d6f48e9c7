package cloud

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestListenAndServe(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	addresses := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- ListenAndServe(ctx, "127.0.0.1:0", NewServer(), func(a net.Addr) { addresses <- a.String() })
	}()
	address := <-addresses

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil || rsp.StatusCode != http.StatusOK {
		t.Fatalf("want a healthy cloud, got %v", err)
	}
	_ = rsp.Body.Close()

	err = ListenAndServe(ctx, address, NewServer(), func(net.Addr) {})
	if want := "cannot listen on " + address + ": the port is taken; choose another --address"; err == nil || err.Error() != want {
		t.Errorf("want error %q, got %v", want, err)
	}
	err = ListenAndServe(ctx, "nonsense", NewServer(), func(net.Addr) {})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("want an error of one line, got %v", err)
	}

	cancel()
	if err := <-done; err != nil {
		t.Errorf("want a clean end, got %v", err)
	}
}
