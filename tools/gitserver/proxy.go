package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
)

// proxy passes requests on to the hosts that they name, and tunnels connections.
type proxy struct {
	log  *os.File
	user string
}

func newProxy(log, user string) (*proxy, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &proxy{log: file, user: user}, err
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown, _ := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	if p.user != "" && shown != base64.StdEncoding.EncodeToString([]byte(p.user)) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	// One write, so that lines of requests at the same time stay whole.
	fmt.Fprintln(p.log, r.Method, r.Host)
	if r.Method == http.MethodConnect {
		tunnel(w, r.Host)
		return
	}
	forward := httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}
	forward.ServeHTTP(w, r)
}

func tunnel(w http.ResponseWriter, host string) {
	remote, err := net.Dial("tcp", host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer remote.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	go func() {
		io.Copy(remote, buffered)
		remote.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(client, remote)
}
