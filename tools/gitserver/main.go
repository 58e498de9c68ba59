// Command gitserver serves the bare repositories of a folder over http, https and ssh, for tests.
//
// The transports are those of real servers: git's own http-backend behind Go's CGI handler, and git's own
// upload-pack and receive-pack behind an SSH server that lets in by public key. The certificate for https is
// from an authority of its own. A forward proxy records the hosts that it connects to.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

const version = "1.1.0"

type server struct {
	root  string
	user  string
	token string
}

func main() {
	log.SetFlags(0)
	told := flag.Bool("version", false, "print the version")
	root := flag.String("root", ".", "folder with the repositories")
	httpAddress := flag.String("http", "", "address of the http server")
	sshAddress := flag.String("ssh", "", "address of the ssh server")
	httpsAddress := flag.String("https", "", "address of the https server; the certificate of its authority is written to ca.crt")
	proxyAddress := flag.String("proxy", "", "address of a forward proxy; the hosts that it connects to are written to proxy.log")
	proxyUser := flag.String("proxy-user", "", "NAME:PASSWORD that the proxy asks for; without it, everybody is let through")
	user := flag.String("user", "", "NAME:PASSWORD that http asks for; without it, everybody is let in")
	token := flag.String("token", "", "bearer token that http accepts as well")
	keys := flag.String("keys", "", "folder: host and client keys are made there, with a known_hosts file")
	flag.Parse()
	if *told {
		fmt.Println("gitserver " + version)
		return
	}
	absolute, err := filepath.Abs(*root)
	check(err)
	s := &server{root: absolute, user: *user, token: *token}
	failures := make(chan error)
	if *sshAddress != "" {
		config, err := s.sshConfig(*keys, *sshAddress)
		check(err)
		listener, err := net.Listen("tcp", *sshAddress)
		check(err)
		go func() { failures <- s.serveSSH(listener, config) }()
	}
	if *httpAddress != "" {
		listener, err := net.Listen("tcp", *httpAddress)
		check(err)
		go func() { failures <- http.Serve(listener, s) }()
	}
	if *httpsAddress != "" {
		config, err := tlsConfig(filepath.Join(*keys, "ca.crt"), *httpsAddress)
		check(err)
		listener, err := tls.Listen("tcp", *httpsAddress, config)
		check(err)
		go func() { failures <- http.Serve(listener, s) }()
	}
	if *proxyAddress != "" {
		forward, err := newProxy(filepath.Join(*keys, "proxy.log"), *proxyUser)
		check(err)
		listener, err := net.Listen("tcp", *proxyAddress)
		check(err)
		go func() { failures <- http.Serve(listener, forward) }()
	}
	check(<-failures)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// ServeHTTP hands a request to git's http-backend, once its caller is known.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		fmt.Fprintln(w, "gitserver "+version)
		return
	}
	if !s.admits(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	backend := cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + s.root,
			"GIT_HTTP_EXPORT_ALL=1",
			// Whoever is let in may push.
			"REMOTE_USER=git",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
	backend.ServeHTTP(w, r)
}

func (s *server) admits(r *http.Request) bool {
	if s.user == "" && s.token == "" {
		return true
	}
	equal := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	if name, password, ok := r.BasicAuth(); ok && s.user != "" {
		return equal(name+":"+password, s.user)
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && s.token != "" && equal(bearer, s.token)
}

// sshConfig makes the keys of the server and of its only client.
func (s *server) sshConfig(folder, address string) (*ssh.ServerConfig, error) {
	host, err := makeKey(filepath.Join(folder, "host"))
	if err != nil {
		return nil, err
	}
	client, err := makeKey(filepath.Join(folder, "client"))
	if err != nil {
		return nil, err
	}
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintf("[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(host.PublicKey()))
	if err := os.WriteFile(filepath.Join(folder, "known_hosts"), []byte(line), 0o600); err != nil {
		return nil, err
	}
	admitted := client.PublicKey().Marshal()
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(key.Marshal(), admitted) {
				return nil, nil
			}
			return nil, errors.New("this key is not known here")
		},
	}
	config.AddHostKey(host)
	return config, nil
}

func makeKey(path string) (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(private)
}

func (s *server) serveSSH(listener net.Listener, config *ssh.ServerConfig) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			_, channels, requests, err := ssh.NewServerConn(connection, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for offered := range channels {
				if offered.ChannelType() != "session" {
					offered.Reject(ssh.UnknownChannelType, "sessions only")
					continue
				}
				channel, requests, err := offered.Accept()
				if err != nil {
					return
				}
				go s.session(channel, requests)
			}
		}()
	}
}

// session runs one command of git, and no other.
func (s *server) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	protocol := ""
	for request := range requests {
		switch request.Type {
		case "env":
			var pair struct{ Name, Value string }
			if ssh.Unmarshal(request.Payload, &pair) == nil && pair.Name == "GIT_PROTOCOL" {
				protocol = pair.Value
			}
			request.Reply(true, nil)
		case "exec":
			var command struct{ Line string }
			if err := ssh.Unmarshal(request.Payload, &command); err != nil {
				request.Reply(false, nil)
				return
			}
			request.Reply(true, nil)
			status := s.run(command.Line, protocol, channel)
			channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			request.Reply(false, nil)
		}
	}
}

func (s *server) run(line, protocol string, channel ssh.Channel) uint32 {
	name, quoted, _ := strings.Cut(line, " ")
	service, ok := strings.CutPrefix(name, "git-")
	if !ok || (service != "upload-pack" && service != "receive-pack") {
		fmt.Fprintln(channel.Stderr(), "only git is served here")
		return 127
	}
	path := filepath.Join(s.root, filepath.Clean("/"+strings.Trim(quoted, "'")))
	command := exec.Command("git", "-c", "safe.directory=*", service, path)
	command.Env = append(os.Environ(), "GIT_PROTOCOL="+protocol)
	command.Stdout, command.Stderr = channel, channel.Stderr()
	input, err := command.StdinPipe()
	if err != nil {
		return 1
	}
	if err := command.Start(); err != nil {
		fmt.Fprintln(channel.Stderr(), err)
		return 1
	}
	go func() {
		io.Copy(input, channel)
		input.Close()
	}()
	var exit *exec.ExitError
	switch err := command.Wait(); {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return uint32(exit.ExitCode())
	default:
		return 1
	}
}
